package touches

import (
	"context"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// slot is a key whose touch is under way or waits.
type slot struct {
	key     string
	running *job
	waiting []*job // at most one a life: two of them have nothing to say to each other
}

// find returns the job that waits for the life created at created.
func (s *slot) find(created driver.Instant) *job {
	for _, j := range s.waiting {
		if j.Was.CreatedAt == created {
			return j
		}
	}
	return nil
}

func (t *Touches) slot(key string) *slot {
	s := t.keys[key]
	if s == nil {
		s = &slot{key: strings.Clone(key)} // it may be part of a long string
		t.keys[s.key] = s
	}
	return s
}

// job is a touch of one life of a key, for all accesses that come before it begins. It waits
// for its turn, or for the end of another touch of its key.
type job struct {
	Access
	ctx       context.Context               // whose values the touch has: its caller's if that waits for it
	lead      func(context.Context) Outcome // in place of a touch: a read and touch in one
	done      chan struct{}                 // closed at the end
	outcome   Outcome                       // once done is closed
	came      time.Time                     // when its access came
	readFirst bool                          // what was read does not say what is stored now
	fails     int                           // how often it has failed
	queued    bool                          // it waits for its turn
	waited    bool                          // it did
	rest      *time.Timer                   // ends its rest after a failure
	wakes     time.Time                     // when that is
	places    [2]int                        // in the heaps; -1: in none
	carried   bool                          // its turn has come
	probe     bool                          // it is tried for all that wait to be drained
	late      bool                          // it has run for longer than reads wait
	landings  int                           // touches that had landed when it began
}

func (t *Touches) newJob(s *slot, a *Access) *job {
	t.active.Add(1)
	j := &job{Access: *a, ctx: context.Background(), done: make(chan struct{}), came: time.Now(), places: [2]int{-1, -1}}
	j.Key = s.key
	return j
}

// merge has j serve later as well. The later access's promise covers both. Where only one of
// the two lowers the expiry, what is stored decides. The life that
// a save goes on with is that of what it saved.
func (j *job) merge(later Access) {
	j.readFirst = j.readFirst || j.lowers() != later.lowers()
	later.Key = j.Key
	first := j.Access
	if later.At >= j.At {
		j.Access, j.came = later, time.Now()
	} else {
		first = later
	}
	if first.Was == j.Was && j.Before.CreatedAt == 0 {
		j.Before = first.Before
	}
	j.Exact = j.Exact && first.Exact
}

// covered reports whether a touch that ended with o did what j needs. If not, j is planned
// again for what that touch found.
func (j *job) covered(o Outcome, byValue bool) bool {
	switch {
	case o.lost():
		return o.Was == j.Was // it knew what j knows
	case o.Err != nil:
		return true
	case j.Was.CreatedAt != 0 && o.Meta.CreatedAt != j.Was.CreatedAt:
		return false
	case o.Was != j.Was && o.Replaced != j.Was:
		j.readFirst = true // it may have landed before the expiry moved to where j's access found it
		return false
	case j.keeps(o.Meta):
		return true
	}
	j.Was, j.readFirst = o.Meta, byValue
	return false
}

// deepen grows the goroutine's stack once, to what a driver's call takes. Otherwise it grows
// several times deep in that call, and all frames are moved each time: a fifth of the
// processor time of a due read over Redis.
//
//go:noinline
func deepen(at int) byte {
	var frame [12 << 10]byte
	return frame[at]
}

// servedSince reports whether a touch that has landed since j's access read did what j needs.
func (t *Touches) servedSince(j *job) bool {
	replaced, m, landed := t.Memo.landedSince(j.Key, j.Since)
	o := Outcome{Was: replaced, Replaced: replaced, Meta: m, Cap: j.Rules.Cap(m.CreatedAt), result: Shared}
	if !landed || j.lowers() || !j.covered(o, t.ByValue) {
		return false
	}
	j.outcome = o
	return true
}
