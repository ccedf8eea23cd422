package model

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// state is what the backend held under a key from some time on.
type state struct {
	from    time.Time
	present bool
	value   value
	driver.Meta
	by      string    // who wrote it
	lowered time.Time // when the write was sent that lowered the expiry to this
}

func (s *state) String() string {
	if !s.present {
		return "nothing"
	}
	return fmt.Sprintf("value %d kind %d C %d E %d version %d", s.value.id, s.value.kind, s.CreatedAt, s.ExpiresAt, s.Version)
}

// timeline is what was stored under a key, in order.
type timeline []state

// last is what is stored now, after the deletions that the backend has made until now.
func (w *world) last(key string) *state {
	w.expire(key, time.Now())
	line := w.truth[key]
	if len(line) == 0 {
		return &state{}
	}
	return &line[len(line)-1]
}

// at is what was stored then.
func (w *world) at(key string, then time.Time) *state {
	w.expire(key, time.Now())
	line := w.truth[key]
	for i := len(line) - 1; i >= 0; i-- {
		if !line[i].from.After(then) {
			return &line[i]
		}
	}
	return &state{}
}

// expire deletes key's record if the backend must have done so by now.
func (w *world) expire(key string, now time.Time) {
	line := w.truth[key]
	if w.deletes < 0 || len(line) == 0 {
		return
	}
	s := &line[len(line)-1]
	if !s.present || s.ExpiresAt == 0 {
		return
	}
	at := s.ExpiresAt.Time()
	if w.deletes > 0 {
		d := w.dice.fork(text(key), uint64(s.ExpiresAt))
		at = at.Add(d.upTo(w.deletes))
	}
	if at.Before(s.from) {
		at = s.from // it was written dead
	}
	if !at.After(now) {
		w.truth[key] = append(line, state{from: at, by: "the backend"})
	}
}

// put makes s what is stored under key from now on.
func (w *world) put(key string, s state) {
	s.from = time.Now()
	w.truth[key] = append(w.truth[key], s)
	if s.present {
		w.byVersion[s.Version] = s.value
	}
}

// during calls f with each state of key that held at some moment between two times,
// with the first and the last of those moments, until f returns false.
func (w *world) during(key string, from, to time.Time, f func(s *state, first, last time.Time) bool) {
	w.expire(key, time.Now())
	line := w.truth[key]
	i := len(line) - 1
	for i > 0 && !line[i].from.Before(from) {
		i--
	}
	if len(line) == 0 || !line[0].from.Before(from) {
		until := to
		if len(line) > 0 && line[0].from.Before(to) {
			until = line[0].from
		}
		if !f(&state{}, from, until) {
			return
		}
	}
	for i = max(i, 0); i < len(line) && !line[i].from.After(to); i++ {
		first, last := line[i].from, to
		if first.Before(from) {
			first = from
		}
		if i+1 < len(line) && !line[i+1].from.After(to) {
			last = line[i+1].from // at an instant that two share either may come first
		}
		if !f(&line[i], first, last) {
			return
		}
	}
}

// sometime reports whether ok held at some moment between two times.
func (w *world) sometime(key string, from, to time.Time, ok func(s *state, first, last time.Time) bool) (found bool) {
	w.during(key, from, to, func(s *state, first, last time.Time) bool {
		found = ok(s, first, last)
		return !found
	})
	return found
}
