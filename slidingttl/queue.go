package slidingttl

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// queue holds touches that wait, at most one a record. Its zero value is ready for
// use once size is set.
type queue struct {
	size int

	mu      sync.Mutex // guards the rest
	waiting map[life]*queued
	nearest deaths // nearest death first
	last    deaths // farthest first
}

// life names one life of a key: two of them have nothing to say to each other.
type life struct {
	key     string
	created driver.Instant
}

// queued is a touch that waits.
type queued struct {
	ctx context.Context // values only
	access
	since  time.Time // when it came
	places [2]int    // in the heaps
}

// put queues a touch. One of a record that waits already is merged with it: the later
// access's promise covers both. Where the queue is full the touch farthest from death
// is shed for it, which may be a itself, or if shed is not set a is refused.
func (q *queue) put(ctx context.Context, a access, shed bool) (merged, ok bool, out *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	name := life{a.key, a.was.CreatedAt}
	if w := q.waiting[name]; w != nil {
		if a.at >= w.at {
			w.ctx, w.access = context.WithoutCancel(ctx), a
			heap.Fix(&q.nearest, w.places[0])
			heap.Fix(&q.last, w.places[1])
		}
		return true, true, nil
	}
	w := &queued{ctx: context.WithoutCancel(ctx), access: a, since: time.Now()}
	if q.waiting == nil {
		q.waiting = make(map[life]*queued)
		q.last.farthest = true
	}
	if len(q.waiting) >= q.size {
		if !shed {
			return false, false, nil
		}
		if out = q.last.all[0]; out.dies() <= w.dies() {
			return false, true, w
		}
		q.remove(out)
	}
	q.waiting[name] = w
	heap.Push(&q.nearest, w)
	heap.Push(&q.last, w)
	return false, true, out
}

// take removes the touch nearest to death, nil if there is none.
func (q *queue) take() *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	w := q.nearest.all[0]
	q.remove(w)
	return w
}

func (q *queue) remove(w *queued) {
	heap.Remove(&q.nearest, w.places[0])
	heap.Remove(&q.last, w.places[1])
	delete(q.waiting, life{w.key, w.was.CreatedAt})
}

// drop empties the queue and returns what it held.
func (q *queue) drop() []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	dropped := q.nearest.all
	q.waiting, q.nearest.all, q.last.all = nil, nil, nil
	return dropped
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

// left returns how long each of the touches has until its record dies at, in no order.
func (q *queue) left(now driver.Instant) []time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	left := make([]time.Duration, len(q.nearest.all))
	for i, w := range q.nearest.all {
		left[i] = w.dies().Sub(now)
	}
	return left
}

// first returns how long the touch nearest to death has left.
func (q *queue) first(now driver.Instant) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return 0, false
	}
	return q.nearest.all[0].dies().Sub(now), true
}

// dies is when the record dies that w is to touch.
func (w *queued) dies() driver.Instant {
	if w.was.ExpiresAt == 0 {
		return driver.MaxInstant
	}
	return w.was.ExpiresAt
}

// deaths is a heap of touches by the death of their records.
type deaths struct {
	all      []*queued
	farthest bool // first, instead of the nearest
}

func (h *deaths) place() int {
	if h.farthest {
		return 1
	}
	return 0
}

func (h *deaths) Len() int { return len(h.all) }

func (h *deaths) Less(i, j int) bool {
	if h.farthest {
		i, j = j, i
	}
	return h.all[i].dies() < h.all[j].dies()
}

func (h *deaths) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].places[h.place()], h.all[j].places[h.place()] = i, j
}

func (h *deaths) Push(w any) {
	w.(*queued).places[h.place()] = len(h.all)
	h.all = append(h.all, w.(*queued))
}

func (h *deaths) Pop() any {
	last := len(h.all) - 1
	w := h.all[last]
	h.all[last] = nil
	h.all = h.all[:last]
	return w
}
