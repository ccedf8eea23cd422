package explore

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

// delays runs programs through the schedules that differ from one in a few places.
//
// That one takes what can happen in the order in which it became possible, and lets time pass when
// nothing else can happen. A schedule differs from it where an action waits until nothing else can
// happen, and where a fault happens in an action's place. Most faults in the order of a few
// goroutines need one or two such places; all schedules are too many as soon as each lock is a step.
type delays struct {
	delays, faults int // how many a schedule may have
	most           int // schedules of one program; zero: all

	programs, schedules, steps, cut, diverged int
	seen                                      map[uint64]bool
}

// deviation is a place in which a schedule differs.
type deviation struct {
	at    int    // step
	fault string // the action in its place; empty: a delay
}

// ranks order what can happen.
type ranks struct {
	seen  map[string]int // when it became possible
	lower map[string]int // how often another was delayed before it was, plus one
}

// class is when an action's turn comes: usual, when time may pass, or later.
func (r *ranks) class(w *world, a action) int {
	switch low := r.lower[a.String()]; {
	case low > 0:
		return 1 + low
	case a.kind == begins && w.runs[a.on[0]-'0'].p == nil:
		return 1
	}
	return 0
}

// sort sorts the actions that are no faults by their turn, and returns the faults apart.
func (r *ranks) sort(w *world, enabled []action) (usual, faults []action) {
	for _, a := range enabled {
		if _, ok := r.seen[a.String()]; !ok {
			r.seen[a.String()] = len(r.seen)
		}
		if a.fault() || a.kind == lates {
			faults = append(faults, a)
		} else {
			usual = append(usual, a)
		}
	}
	slices.SortStableFunc(usual, func(a, b action) int {
		return cmp.Or(cmp.Compare(r.class(w, a), r.class(w, b)), cmp.Compare(r.seen[a.String()], r.seen[b.String()]))
	})
	return usual, faults
}

var hashSeed = maphash.MakeSeed()

// run calls judged with each run of p. It is called in a bubble. from is where the last deviation is.
func (s *delays) run(p program, judged func(*world)) {
	s.programs++
	s.seen = make(map[uint64]bool)
	began := s.schedules
	// Schedules of few deviations come first. Of those that are too many, some of all places are run.
	for level := [][]deviation{nil}; len(level) > 0; {
		if left := s.most - (s.schedules - began); s.most > 0 && len(level) > left {
			some := make([][]deviation, max(0, left))
			for i := range some {
				some[i] = level[i*len(level)/left]
			}
			level = some
			s.cut++
		}
		var next [][]deviation
		for _, devs := range level {
			next = append(next, s.one(p, devs, judged)...)
		}
		level = next
	}
}

// one runs p once, and returns the schedules with one deviation more.
func (s *delays) one(p program, devs []deviation, judged func(*world)) (next [][]deviation) {
	for range 20 {
		r := ranks{seen: make(map[string]int), lower: make(map[string]int)}
		step, done, diverged := 0, 0, false
		var children []deviation
		w, completed := execute(p, s.faults, false, func(enabled []action) (action, bool) {
			usual, faults := r.sort(running, enabled)
			if len(usual) == 0 {
				return action{}, false
			}
			defer func() { step++; s.steps++ }()
			for ; done < len(devs) && devs[done].at == step; done++ {
				if fault := devs[done].fault; fault != "" {
					i := slices.IndexFunc(faults, func(a action) bool { return a.String() == fault })
					if i < 0 {
						diverged = true
						return action{}, false
					}
					done++
					return faults[i], true
				}
				if len(usual) < 2 {
					diverged = true
					return action{}, false
				}
				r.lower[usual[0].String()] = len(r.lower) + 1
				usual, _ = r.sort(running, enabled)
			}
			if done == len(devs) {
				if len(usual) > 1 {
					children = append(children, deviation{at: step})
				}
				for _, f := range faults {
					if f.on == usual[0].on || f.kind == leaves || f.kind == lates {
						children = append(children, deviation{at: step, fault: f.String()})
					}
				}
			}
			return usual[0], true
		})
		if diverged || !completed || done < len(devs) {
			continue
		}
		h := maphash.String(hashSeed, w.schedule())
		if s.seen[h] {
			return nil
		}
		s.seen[h] = true
		s.schedules++
		judged(w)
		n := 0
		for _, d := range devs {
			if d.fault == "" {
				n++
			}
		}
		for _, c := range children {
			if c.fault != "" || n < s.delays {
				next = append(next, append(slices.Clip(devs), c))
			}
		}
		return next
	}
	s.diverged++
	return nil
}

// finding is the first run that broke a rule.
type finding struct {
	programs int
	text     string
}

// lockExplorer explores programs by delays and reports the promises that they break.
type lockExplorer struct {
	delays
	broken map[string]*finding
	order  []string
	last   []string // rules that the last program broke
}

func (x *lockExplorer) found(p program, faults int, w *world) {
	for _, v := range w.broken {
		if slices.Contains(x.last, v.rule) {
			continue
		}
		x.last = append(x.last, v.rule)
		f := x.broken[v.rule]
		if f == nil {
			f = &finding{text: fmt.Sprintf("%v\n  -run TestReplay -v -explore.faults=%d -explore.program='%v' -explore.schedule='%s'", v, faults, p, w.schedule())}
			x.broken[v.rule] = f
			x.order = append(x.order, v.rule)
		}
		f.programs++
	}
}

// explore runs p. It ends with the first schedule whose goroutines do not end, for its bubble
// cannot go on.
func (x *lockExplorer) explore(t *testing.T, p program) (broke bool) {
	t.Helper()
	if x.broken == nil {
		x.broken = make(map[string]*finding)
	}
	running, x.last = nil, nil
	hung := inBubble(t, func() {
		x.run(p, func(w *world) {
			broke = broke || len(w.broken) > 0
			x.found(p, x.faults, w)
		})
	})
	if hung != "" {
		broke = true
		if len(running.broken) == 0 {
			running.violated("ends", "goroutines remain: %s", hung)
		}
		x.found(p, x.faults, running)
	}
	return broke
}

// inBubble runs f in a bubble, and returns how that ended if goroutines of it remained blocked.
func inBubble(t *testing.T, f func()) (hung string) {
	defer func() {
		if r := recover(); r != nil {
			if hung = fmt.Sprint(r); !strings.Contains(hung, "deadlock") {
				panic(r)
			}
		}
	}()
	synctest.Test(t, func(*testing.T) { f() })
	return ""
}

func (x *lockExplorer) report(t *testing.T) {
	t.Helper()
	t.Logf("%d programs, %d schedules of %d steps, %d cut, %d diverged", x.programs, x.schedules, x.steps, x.cut, x.diverged)
	for _, rule := range x.order {
		t.Errorf("%d programs break %s", x.broken[rule].programs, x.broken[rule].text)
	}
}
