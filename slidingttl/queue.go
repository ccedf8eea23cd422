package slidingttl

import (
	"container/heap"
	"context"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// queue holds the touches that wait for a worker, at most one a record, nearest
// death first. Workers come when there is work and leave when there is none.
type queue struct {
	size, workers int

	mu      sync.Mutex // guards the rest
	waiting map[life]*queued
	order   byDeath
	busy    int // workers
}

// life names one life of a key: two of them have nothing to say to each other.
type life struct {
	key     string
	created driver.Instant
}

type queued struct {
	ctx context.Context // values only
	access
	index int // in the order
}

// push queues a. An access to a record that waits already is merged: the later
// one's promise covers both. False: the queue is full, or closed.
func (t *toucher) push(ctx context.Context, a access) bool {
	q := &t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	name := life{a.key, a.was.CreatedAt}
	if w := q.waiting[name]; w != nil {
		t.stats.add(cShared)
		if a.at >= w.at {
			w.ctx, w.access = context.WithoutCancel(ctx), a
			heap.Fix(&q.order, w.index)
		}
		return true
	}
	if len(q.order) >= q.size {
		t.stats.add(cQueueFull)
		return false
	}
	needWorker := q.busy < q.workers
	if needWorker && !t.start() {
		return false
	}
	if q.waiting == nil {
		q.waiting = make(map[life]*queued)
	}
	w := &queued{ctx: context.WithoutCancel(ctx), access: a}
	q.waiting[name] = w
	heap.Push(&q.order, w)
	if needWorker {
		q.busy++
		go t.work()
	}
	return true
}

// pop takes the first of the queue, or lets the worker go.
func (q *queue) pop() (*queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		q.busy--
		return nil, false
	}
	w := heap.Pop(&q.order).(*queued)
	delete(q.waiting, life{w.key, w.was.CreatedAt})
	return w, true
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.order)
}

func (t *toucher) work() {
	defer t.running.Done()
	for {
		w, ok := t.queue.pop()
		if !ok {
			return
		}
		t.wait(w.ctx, w.access) // a failure was counted and reported
	}
}

// drop gives up what is queued.
func (t *toucher) drop() {
	t.queue.mu.Lock()
	dropped := t.queue.order
	t.queue.order, t.queue.waiting = nil, nil
	t.queue.mu.Unlock()
	for _, w := range dropped {
		t.fail(w.ctx, w.key, ErrClosed)
	}
}

// byDeath is a heap of touches by the expiry of their records.
type byDeath []*queued

func (h byDeath) Len() int           { return len(h) }
func (h byDeath) Less(i, j int) bool { return h[i].was.ExpiresAt < h[j].was.ExpiresAt }
func (h byDeath) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *byDeath) Push(w any) {
	w.(*queued).index = len(*h)
	*h = append(*h, w.(*queued))
}
func (h *byDeath) Pop() any {
	old := *h
	last := len(old) - 1
	w := old[last]
	old[last] = nil
	*h = old[:last]
	return w
}
