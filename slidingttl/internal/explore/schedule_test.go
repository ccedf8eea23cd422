package explore

import (
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"
)

// action is a step of a schedule: a call begins, or something happens to a trip.
type action struct {
	kind    byte
	on      string // the call's number, or the trip's name
	process int    // ofTime: it is time that passes
	writes  bool   // it may change what is stored
}

const (
	begins  = 's' // a call
	effects = 'e' // a trip takes effect
	answers = 'a' // its answer comes
	lates   = 't' // it takes effect although its caller has left; it may also never
	locks   = 'k' // a goroutine goes on to a lock of the touches
	// Faults.
	stales = 'o' // a read is stale
	fails  = 'x' // the caller is told of an error; a write may take effect later
	loses  = 'l' // the answer of a write that took effect is lost
	leaves = 'g' // the caller's context ends
)

func (a action) String() string { return string(a.kind) + a.on }

func (a action) same(b action) bool { return a.kind == b.kind && a.on == b.on }

func (a action) fault() bool {
	return a.kind == stales || a.kind == fails || a.kind == loses || a.kind == leaves
}

func (a action) effect() bool { return a.kind == effects || a.kind == lates || a.kind == stales }

// independent reports whether a and b may be swapped without a visible difference. An effect
// is visible to other effects only, because its process learns of it from the answer. All
// other actions are visible in their own process only.
func independent(a, b action) bool {
	switch {
	case a.process == ofTime || b.process == ofTime, a.kind == locks || b.kind == locks, a.fault() && b.fault():
		return false
	case a.effect() && b.effect():
		return !a.writes && !b.writes
	case a.effect() || b.effect():
		return !a.concerns(b) && !b.concerns(a)
	}
	return a.process != b.process
}

// concerns reports whether a and b happen to the same trip, or b to one of the call of a.
func (a action) concerns(b action) bool {
	return a.on == b.on || (a.kind == begins || a.kind == leaves) && strings.HasPrefix(b.on, a.on+".")
}

// enabled appends what can happen next to all.
func (w *world) enabled(all []action) []action {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, r := range w.runs {
		if on := string('0' + rune(i)); !r.started && (r.after == 0 || w.runs[r.after-1].ended) {
			all = append(all, action{kind: begins, on: on, process: r.process})
		} else if w.faults > 0 && r.started && !r.ended && r.p != nil && w.leavable(r) {
			all = append(all, action{kind: leaves, on: on, process: r.process})
		}
	}
	for _, l := range w.locks {
		all = append(all, action{kind: locks, on: l.name, process: ofAny})
	}
	w.pending = slices.DeleteFunc(w.pending, func(t *trip) bool { return t.left && (t.done || !t.writes()) })
	for _, t := range w.pending {
		add := func(kind byte) {
			all = append(all, action{kind: kind, on: t.name, process: t.p.id, writes: t.writes()})
		}
		switch {
		case t.left:
			add(lates)
		case !t.done:
			add(effects)
			if w.faults > 0 {
				add(fails)
			}
			if w.faults > 0 && t.old != nil && w.earlier() != nil {
				add(stales)
			}
		default:
			add(answers)
			if w.faults > 0 && t.writes() && t.failure == nil {
				add(loses)
			}
		}
	}
	return all
}

// leavable reports whether the end of r's context would end its wait for a touch that goes on,
// which no fault of a trip does.
func (w *world) leavable(r *run) bool {
	return !slices.ContainsFunc(w.pending, func(t *trip) bool { return t.owner == r && !t.touches() })
}

// do performs a.
func (w *world) do(a action) {
	w.mu.Lock()
	w.tick(a)
	w.moment()
	if a.fault() {
		w.faults--
		w.faulted = true
	}
	if a.kind == begins || a.kind == leaves {
		r := w.runs[a.on[0]-'0']
		if a.kind == leaves {
			r.faulted, r.left = true, true
			w.note("the context of %v ends", r)
			r.cancel()
		}
		w.mu.Unlock()
		if a.kind == begins {
			r.start()
		}
		return
	}
	defer w.mu.Unlock()
	if a.kind == locks {
		w.pass(a.on)
		return
	}
	i := slices.IndexFunc(w.pending, func(t *trip) bool { return t.name == a.on })
	t := w.pending[i]
	switch a.kind {
	case effects, lates:
		w.take(t, t.effect)
		w.note("  %s of %v takes effect: error %v; stored is %s", t.kind, t.owner, t.failure, w.stored())
	case stales:
		w.take(t, t.old)
		w.note("  %s of %v takes a stale effect: error %v", t.kind, t.owner, t.failure)
	case answers:
		w.note("  %s of %v is answered", t.kind, t.owner)
		w.drop(t)
		close(t.answer)
	case loses:
		t.failure = errLost
		w.note("  %s of %v loses its answer", t.kind, t.owner)
		w.drop(t)
		close(t.answer)
	case fails:
		t.failure = errDown
		if t.writes() {
			t.failure = errLost
		}
		w.note("  %s of %v fails", t.kind, t.owner)
		t.left = true
		close(t.answer)
	}
}

// patience is how long a world waits for a timer when nothing else can happen.
const (
	patience = time.Minute
	nap      = 200 * time.Millisecond
)

// execute runs the program. choose picks each action of the schedule from those enabled, and
// may give up.
func execute(p program, faults int, told bool, choose func(enabled []action) (action, bool)) (w *world, completed bool) {
	w = newWorld(p, faults, told)
	synctest.Wait()
	running, completed = w, true
	var enabled []action
	for napped := time.Duration(0); ; {
		enabled = w.enabled(enabled[:0])
		if !slices.ContainsFunc(enabled, func(a action) bool { return a.kind != lates && a.kind != leaves }) {
			if w.rests() || napped >= patience {
				break
			}
			time.Sleep(nap)
			synctest.Wait()
			w.mu.Lock()
			w.expire()
			w.times[w.step] = time.Now()
			w.mu.Unlock()
			w.check()
			napped += nap
			continue
		}
		a, ok := choose(enabled)
		if !ok {
			completed = false
			break
		}
		w.do(a)
		synctest.Wait()
		w.check()
	}
	w.finish()
	if completed {
		w.judge()
	}
	return w, completed
}

// repeat runs the program by a schedule, as world.schedule returns it.
func repeat(p program, faults int, schedule string) (*world, error) {
	actions := strings.Fields(schedule)
	var err error
	w, _ := execute(p, faults, true, func(enabled []action) (action, bool) {
		if len(actions) == 0 {
			err = fmt.Errorf("the schedule is too short: %v can happen", enabled)
			return action{}, false
		}
		i := slices.IndexFunc(enabled, func(a action) bool { return a.String() == actions[0] })
		if i < 0 {
			err = fmt.Errorf("%s cannot happen, but %v", actions[0], enabled)
			return action{}, false
		}
		actions = actions[1:]
		return enabled[i], true
	})
	if err == nil && len(actions) > 0 {
		err = fmt.Errorf("the program ends before %v", actions)
	}
	return w, err
}

// schedule returns the schedule of the run, as text.
func (w *world) schedule() string {
	var names []string
	for _, a := range w.actions {
		if a.kind != 0 {
			names = append(names, a.String())
		}
	}
	return strings.Join(names, " ")
}
