package touches

import (
	"container/heap"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// readAfter is the wait after which a touch reads its record again first, because another process
// may have touched it.
const readAfter = time.Second

const (
	shortestRest = time.Second // after the first failure
	longestRest  = 30 * time.Second
	leastRest    = 50 * time.Millisecond // for a record that is about to die
)

// enqueue adds the job j of slot s to the queue. If the queue is full, it drops the job farthest
// from death, perhaps j itself, and returns it.
func (t *Touches) enqueue(s *slot, j *job) (shed *job) {
	if t.farthest.Len() >= t.Queue {
		if shed = t.farthest.jobs[0]; shed.dies() <= j.dies() {
			shed = j
		}
		t.drop(shed, ErrShed, Shed)
		if shed == j {
			return shed
		}
	}
	j.queued, j.waited = true, true
	t.waiting++
	if s.running == nil {
		t.add(j)
	}
	return shed
}

// drop removes the waiting job j. The caller must finish it.
func (t *Touches) drop(j *job, err error, r Result) {
	t.unqueue(j)
	s := t.keys[j.Key]
	s.waiting = slices.DeleteFunc(s.waiting, func(w *job) bool { return w == j })
	if len(s.waiting) == 0 && s.running == nil {
		delete(t.keys, j.Key)
	}
	t.broke(&j.Access)
	j.outcome = Outcome{Was: j.Was, Meta: j.Was, Err: err, result: r}
}

// unqueue removes j from the queue. It may still wait for a running touch of its key.
func (t *Touches) unqueue(j *job) {
	if j.queued {
		t.remove(j)
		j.wake()
		t.waiting--
		j.queued = false
	}
}

func (t *Touches) add(j *job) {
	if j.places[0] >= 0 {
		return
	}
	heap.Push(&t.next, j)
	heap.Push(&t.farthest, j)
}

func (t *Touches) remove(j *job) {
	if j.places[0] >= 0 {
		heap.Remove(&t.next, j.places[0])
		heap.Remove(&t.farthest, j.places[1])
	}
}

// fix restores j's order in the heaps after a change.
func (t *Touches) fix(j *job) {
	if j.places[0] >= 0 {
		heap.Fix(&t.next, j.places[0])
		heap.Fix(&t.farthest, j.places[1])
	}
}

// rest delays the failed job j, by at most half of the time that its record has left.
func (t *Touches) rest(j *job) {
	d := min(shortestRest<<min(j.fails-1, 5), longestRest)
	if j.Was.ExpiresAt != 0 {
		d = max(min(d, j.dies().Sub(t.now())/2), leastRest)
	}
	j.wakes = time.Now().Add(d)
	j.rest = time.AfterFunc(d, func() {
		t.lock()
		defer t.mu.Unlock()
		j.rest = nil
		t.fix(j)
		t.dispatch()
	})
}

// wakeAll ends all rests.
func (t *Touches) wakeAll() {
	for _, j := range t.next.jobs {
		j.wake()
	}
	heap.Init(&t.next)
}

// wake ends j's rest. If j is in a heap, its place must then be fixed.
func (j *job) wake() {
	if j.rest != nil {
		j.rest.Stop()
		j.rest = nil
	}
}

// dispatch starts the touches whose turn has come. Every change that may bring a turn calls it.
func (t *Touches) dispatch() {
	hurry := t.closing || t.flushing > 0
	t.flights.note(false)
	for t.next.Len() > 0 && !t.halted {
		j := t.next.jobs[0]
		switch free := t.flights.free(); {
		case t.pressure.Failing && hurry:
			if t.flights.running > 0 {
				return // wait for the store only as long as one touch takes
			}
			j.probe = true
		case t.pressure.Failing:
			if wait := t.Timeout/8 - time.Since(t.pressure.probed); wait > 0 {
				t.wakeIn(wait)
				return
			}
			t.pressure.probed = time.Now()
		case j.rest != nil && !hurry:
			return
		case !free:
			t.flights.note(true)
			return
		case !hurry:
			if wait := t.pace(); wait > 0 {
				t.wakeIn(wait)
				return
			}
		}
		j.carried, j.readFirst = true, j.readFirst || time.Since(j.came) >= readAfter
		t.start(t.keys[j.Key], j)
	}
}

// wakeIn calls dispatch in d.
func (t *Touches) wakeIn(d time.Duration) {
	if t.wake != nil {
		t.wake.Reset(d)
		return
	}
	t.wake = time.AfterFunc(d, func() {
		t.lock()
		t.dispatch()
		t.mu.Unlock()
		t.tell()
	})
}

// pace returns how long the next touch must wait for the budget, at most until shortly before its
// record dies.
func (t *Touches) pace() time.Duration {
	if t.budget == nil {
		return 0
	}
	margin := t.Timeout // a touch must start this long before its record dies
	now := t.now()
	overBudget, set := t.budget.pace(time.Now(), func() []time.Duration {
		left := make([]time.Duration, len(t.next.jobs))
		for i, j := range t.next.jobs {
			left[i] = j.dies().Sub(now.Add(margin))
		}
		return left
	})
	if set {
		t.pressure.OverBudget = overBudget
	}
	if set && overBudget {
		t.Tally.Add(tally.OverBudget)
	}
	return min(t.budget.next(), max(0, t.next.jobs[0].dies().Sub(now)-margin))
}

// isBefore reports whether j's turn is before k's: nearest death first, then jobs that have failed,
// last those that rest.
func (j *job) isBefore(k *job) bool {
	if (j.rest != nil) != (k.rest != nil) {
		return k.rest != nil
	}
	if j.rest != nil && j.wakes != k.wakes {
		return j.wakes.Before(k.wakes)
	}
	if (j.fails > 0) != (k.fails > 0) {
		return k.fails > 0
	}
	return j.dies() < k.dies()
}

// jobHeap is a heap of waiting jobs.
type jobHeap struct {
	jobs  []*job
	place int
	less  func(a, b *job) bool
}

func (h *jobHeap) Len() int           { return len(h.jobs) }
func (h *jobHeap) Less(i, j int) bool { return h.less(h.jobs[i], h.jobs[j]) }

func (h *jobHeap) Swap(i, j int) {
	h.jobs[i], h.jobs[j] = h.jobs[j], h.jobs[i]
	h.jobs[i].places[h.place], h.jobs[j].places[h.place] = i, j
}

func (h *jobHeap) Push(j any) {
	j.(*job).places[h.place] = len(h.jobs)
	h.jobs = append(h.jobs, j.(*job))
}

func (h *jobHeap) Pop() any {
	last := len(h.jobs) - 1
	j := h.jobs[last]
	j.places[h.place] = -1
	h.jobs[last] = nil
	h.jobs = h.jobs[:last]
	return j
}
