package touches

import (
	"context"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// slot is a key with a touch under way or waiting.
type slot struct {
	key     string
	running *job
	waiting []*job // at most one for each life
}

// find returns the waiting job for the life that began at created.
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
		s = &slot{key: strings.Clone(key)} // key may be part of a long string
		t.keys[s.key] = s
	}
	return s
}

// job is a touch of one life of a key, shared by all accesses before it starts. It waits in the
// queue, or until another touch of its key ends.
type job struct {
	Access
	ctx       context.Context               // the caller's values if the caller waits for it
	lead      func(context.Context) Outcome // replaces the touch by a read and touch in one
	done      chan struct{}                 // closed at the end
	outcome   Outcome                       // valid once done is closed
	came      time.Time                     // time of its access
	readFirst bool                          // Was may be stale: read again before the touch
	fails     int                           // number of failures
	queued    bool                          // it is in the queue
	waited    bool                          // it was queued
	rest      *time.Timer                   // runs while it rests after a failure
	wakes     time.Time                     // end of the rest
	places    [2]int                        // indexes in the heaps; -1: in none
	carried   bool                          // it left the queue and holds a worker
	probe     bool                          // it tests a failing store for Close or Flush
	late      bool                          // it has run longer than reads wait
	landings  int                           // pressure.landings when it began
}

func (t *Touches) newJob(s *slot, a *Access) *job {
	t.active.Add(1)
	j := &job{Access: *a, ctx: context.Background(), done: make(chan struct{}), came: time.Now(), places: [2]int{-1, -1}}
	j.Key = s.key
	return j
}

// merge makes j serve later as well. The later access's promise covers both. If only one of the two
// lowers the expiry, the record is read again. A life that a save carries over stays with the Meta
// of what it saved.
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

// covered reports whether a touch that ended with o did what j needs. If not, j is planned again
// from the record which that touch left.
func (j *job) covered(o Outcome, byValue bool) bool {
	switch {
	case o.lost():
		return o.Was == j.Was // it was planned for the same record
	case o.Err != nil:
		return true
	case j.Was.CreatedAt != 0 && o.Meta.CreatedAt != j.Was.CreatedAt:
		return false
	case o.Was != j.Was && o.Replaced != j.Was:
		j.readFirst = true // j's access may have read a later expiry than this touch wrote
		return false
	case j.keeps(o.Meta):
		return true
	}
	j.Was, j.readFirst = o.Meta, byValue
	return false
}

// deepen grows the goroutine's stack once, to the size that a driver's call needs. Otherwise the
// stack grows several times deep in that call and all frames are copied each time: a fifth of the
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
