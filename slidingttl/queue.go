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

	mu      sync.Mutex       // guards the rest
	records map[life]*queued // those that wait, and those that are carried out
	nearest deaths           // of those that wait, nearest death first
	last    deaths           // farthest first
	behind  int              // those that wait behind one that is carried out
}

// life names one life of a key: two of them have nothing to say to each other.
type life struct {
	key     string
	created driver.Instant
}

// queued is a touch that waits or is carried out.
type queued struct {
	ctx context.Context // values only
	access
	since   time.Time // when it came
	places  [2]int    // in the heaps
	carried bool
	next    *queued // waits for the end of this one
}

func newQueued(ctx context.Context, a access) *queued {
	return &queued{ctx: context.WithoutCancel(ctx), access: a, since: time.Now()}
}

func (w *queued) name() life { return life{w.key, w.was.CreatedAt} }

// put queues w. If a touch of its record waits already the two are merged: the later
// access's promise covers both. Where the queue is full the touch farthest from death
// is shed for it, which may be w itself, or if shed is not set w is refused.
//
// While a touch of the record is carried out w waits for its end, so that a key whose
// touches are slow does not keep all workers.
func (q *queue) put(w *queued, shed bool) (merged, ok bool, out *queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.records == nil {
		q.records = make(map[life]*queued)
		q.last.farthest = true
	}
	switch old := q.records[w.name()]; {
	case old == nil:
	case !old.carried:
		old.merge(w)
		heap.Fix(&q.nearest, old.places[0])
		heap.Fix(&q.last, old.places[1])
		return true, true, nil
	case old.next != nil:
		old.next.merge(w)
		return true, true, nil
	default:
		old.next = w
		q.behind++
		return false, true, nil
	}
	if q.nearest.Len() >= q.size {
		if !shed {
			return false, false, nil
		}
		if out = q.last.all[0]; out.dies() <= w.dies() {
			return false, true, w
		}
		q.remove(out)
		delete(q.records, out.name())
	}
	q.add(w)
	return false, true, out
}

// merge makes w stand for later as well. Where one of the two is to bring the expiry
// down, and the other not, what is stored decides. The life that a save goes on with is
// that of what it saved.
func (w *queued) merge(later *queued) {
	fails, retold := max(w.fails, later.fails), w.retold || later.retold || w.lowers() != later.lowers()
	first, then := w.access, later.access
	if later.at >= w.at {
		first, then = then, first
		w.ctx, w.access, w.since = later.ctx, later.access, later.since
	}
	if first.was == then.was && first.before.CreatedAt == 0 {
		w.before = then.before
	}
	w.fails, w.retold = fails, retold
}

// take returns the touch nearest to death, to be carried out until done is called, nil
// if there is none.
func (q *queue) take() *queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.nearest.Len() == 0 {
		return nil
	}
	w := q.nearest.all[0]
	q.remove(w)
	w.carried = true
	return w
}

// done ends what take began, and reports whether a touch of the same record waited for it.
func (q *queue) done(w *queued) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.records, w.name())
	if w.next == nil {
		return false
	}
	q.behind--
	q.add(w.next)
	return true
}

func (q *queue) add(w *queued) {
	q.records[w.name()] = w
	heap.Push(&q.nearest, w)
	heap.Push(&q.last, w)
}

func (q *queue) remove(w *queued) {
	heap.Remove(&q.nearest, w.places[0])
	heap.Remove(&q.last, w.places[1])
}

// drop empties the queue and returns what waited, in no order.
func (q *queue) drop() (dropped []*queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for name, w := range q.records {
		switch {
		case !w.carried:
			dropped = append(dropped, w)
			delete(q.records, name)
		case w.next != nil:
			dropped = append(dropped, w.next)
			w.next = nil
		}
	}
	q.nearest.all, q.last.all, q.behind = nil, nil, 0
	return dropped
}

// len returns how many touches wait.
func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.nearest.Len() + q.behind
}

// ready reports whether one of them can be taken.
func (q *queue) ready() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.nearest.Len() > 0
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

// first returns how long the touch that is next has left.
func (q *queue) first(now driver.Instant) (time.Duration, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.nearest.Len() == 0 {
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

// turn is when w comes to its turn, earlier ones first: by its death, and the more often
// it has failed behind the more others, so that records whose touches fail hold none back.
func (w *queued) turn() driver.Instant {
	if w.fails == 0 {
		return w.dies()
	}
	return w.dies().Add(breakerWindow << min(w.fails, 16))
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
		return h.all[i].dies() > h.all[j].dies()
	}
	return h.all[i].turn() < h.all[j].turn()
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
