package explore

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// state is what the backend held from a step on.
type state struct {
	from    int // step; -1: before the program, and replaced before it
	at      time.Time
	present bool
	value   value
	driver.Meta
	by *run // who wrote the value or deleted it; nil: somebody before the program
}

// truth is what the backend has held, in order. The last is what it holds.
type truth struct {
	states  []state
	version driver.Version
}

func (t *truth) last() *state { return &t.states[len(t.states)-1] }

// until is the first step in which state i held no longer.
func (t *truth) until(i int) int {
	if i+1 < len(t.states) {
		return t.states[i+1].from
	}
	return math.MaxInt
}

// begin makes what is stored now the start of a program.
func (t *truth) begin() {
	t.states = t.states[max(0, len(t.states)-2):]
	for i := range t.states {
		t.states[i].from, t.states[i].by = -1, nil
	}
	t.last().from = 0
}

// put makes s what is stored.
func (w *world) put(s state) {
	s.from, s.at = w.step, time.Now()
	w.truth.states = append(w.truth.states, s)
}

// store makes v, with life, what is stored, and returns its version.
func (w *world) store(v value, life driver.Life, by *run) driver.Version {
	w.truth.version++
	w.put(state{present: true, value: v, Meta: driver.Meta{Life: life, Version: w.truth.version}, by: by})
	return w.truth.version
}

// expire removes the dead record if the backend does that at once.
func (w *world) expire() {
	if s := w.truth.last(); !w.retains && s.present && !s.Alive(driver.Floor(time.Now())) {
		w.put(state{by: s.by})
	}
}

// earlier is what a stale read may still see: what was stored until a moment ago.
func (w *world) earlier() *state {
	n := len(w.truth.states)
	if n < 2 || time.Since(w.truth.last().at) >= staleness {
		return nil
	}
	return &w.truth.states[n-2]
}

// staleness is how old a stale answer may be: the contract of driver.Latest with the core.
const staleness = 10 * time.Second

// during calls f, until that returns false, with each state of steps from..to, and the
// times of the first and last moment of it.
func (w *world) during(from, to int, f func(s *state, first, last time.Time) bool) {
	for i := range w.truth.states {
		s, until := &w.truth.states[i], w.truth.until(i)
		if s.from <= to && until > from && !f(s, w.times[max(from, s.from, 0)], w.times[max(0, min(to, until-1))]) {
			return
		}
	}
}

func (w *world) sometime(from, to int, ok func(s *state, first, last time.Time) bool) (found bool) {
	w.during(from, to, func(s *state, first, last time.Time) bool {
		found = ok(s, first, last)
		return !found
	})
	return found
}

// stored describes what is stored, in the program's own time.
func (w *world) stored() string {
	s := w.truth.last()
	if !s.present {
		return "nothing"
	}
	return fmt.Sprintf("value %d, created %s, expires %s, version %d", s.value.id, w.since(s.CreatedAt), w.since(s.ExpiresAt), s.Version)
}

// since formats an instant in the program's own time.
func (w *world) since(i driver.Instant) string {
	if i == 0 {
		return "never"
	}
	return fmt.Sprintf("%+v", i.Time().Sub(w.times[0]))
}

func (w *world) isStale() bool { return strings.Contains(w.driver, "stale") }
