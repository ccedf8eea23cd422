package slidingttl

import (
	"context"
	"sync"
)

// queue holds the touches that wait for a worker, at most one a key. Workers
// come when there is work and leave when there is none.
type queue struct {
	size, workers int

	mu      sync.Mutex // guards the rest
	waiting map[string]*queued
	order   []string // keys of waiting, first to come first
	busy    int      // workers
}

type queued struct {
	ctx context.Context // values only
	access
}

// push queues a. An access to a key that waits already is merged: the later one's
// promise covers both. False: the queue is full, or the toucher closed.
func (t *toucher) push(ctx context.Context, a access) bool {
	q := &t.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if w := q.waiting[a.key]; w != nil {
		t.stats.add(cShared)
		if a.at >= w.at {
			*w = queued{context.WithoutCancel(ctx), a}
		}
		return true
	}
	if len(q.waiting) >= q.size {
		t.stats.add(cQueueFull)
		return false
	}
	needWorker := q.busy < q.workers
	if needWorker && !t.enter() {
		return false
	}
	if q.waiting == nil {
		q.waiting = make(map[string]*queued)
	}
	q.waiting[a.key] = &queued{context.WithoutCancel(ctx), a}
	q.order = append(q.order, a.key)
	if needWorker {
		q.busy++
		go t.work()
	}
	return true
}

// pop takes the first of the queue, or lets the worker go.
func (q *queue) pop() (queued, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		q.order = nil
		q.busy--
		return queued{}, false
	}
	key := q.order[0]
	q.order = q.order[1:]
	w := q.waiting[key]
	delete(q.waiting, key)
	return *w, true
}

// drop empties the queue and returns how many touches it held.
func (q *queue) drop() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.waiting)
	q.waiting, q.order = nil, nil
	return n
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiting)
}

func (t *toucher) work() {
	defer t.running.Done()
	for {
		w, ok := t.queue.pop()
		if !ok {
			return
		}
		_, _ = t.share(w.ctx, w.access, func() {}) // a failure was counted and reported
	}
}
