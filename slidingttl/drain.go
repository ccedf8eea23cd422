package slidingttl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// drain carries out the touches that wait, nearest death first: those of reads in
// Background mode, those over the budget, and all while the breaker is open. Its
// workers come when there is work and leave when there is none.
type drain struct {
	queue   queue
	budget  *budget
	breaker *breaker
	workers int           // at most
	over    atomic.Bool   // it is said that touches go faster than the budget
	closing chan struct{} // closed when Close is called: no budget holds then

	mu     sync.Mutex // guards the rest
	busy   int        // workers
	parked []*queued  // touches that failed of late, to be tried again if the breaker opens

	probe chan probe // what Close knows of the store while the breaker is open
}

// probe is what one touch for all of those that wait for Close has come to.
type probe int

const (
	unprobed probe = iota
	probeLanded
	probeFailed
)

// lookAfter is how long a touch waits before its record is read again first: by then
// another process may have touched it.
const lookAfter = time.Second

// held reports whether a touch that a read found due is to wait.
func (t *toucher) held() bool {
	return t.drain.breaker.open() || t.drain.budget != nil && (t.drain.queue.len() > 0 || !t.drain.budget.take())
}

// push queues a. False: the queue is full, and nothing is shed for a's sake.
func (t *toucher) push(ctx context.Context, a access, shed bool) bool {
	merged, ok, out := t.drain.queue.put(ctx, a, shed)
	switch {
	case merged:
		t.ended(ctx, &a, TouchShared, nil)
		return true
	case !ok:
		t.stats.add(cQueueFull)
		return false
	case out != nil:
		t.shed(out)
	}
	if !t.hire() {
		t.drop()
	}
	return true
}

// hire sees to it that there is a worker for what waits. False: close has given up.
func (t *toucher) hire() bool {
	d := &t.drain
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy >= d.workers {
		return true
	}
	if !t.start() {
		return false
	}
	d.busy++
	go t.work()
	return true
}

// leave lets a worker go, unless there is work.
func (d *drain) leave() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.queue.len() > 0 {
		return false
	}
	d.busy--
	return true
}

func (t *toucher) work() {
	defer t.running.Done()
	for {
		done := t.turn()
		w := t.drain.queue.take()
		if w == nil {
			done(errUntried)
			if t.drain.leave() {
				return
			}
			continue
		}
		t.carry(w, done)
	}
}

// carry carries out a touch that has waited, and tells done how that went.
func (t *toucher) carry(w *queued, done func(error)) {
	d := &t.drain
	a := w.access
	a.tell = done
	if a.waited = time.Since(w.since) >= lookAfter; a.waited {
		a.retold = true
	}
	if !d.isClosing() || !d.breaker.open() {
		t.share(w.ctx, a, nil)
		done(errUntried) // unless the touch has told more: it may have been another's
		return
	}
	// Close waits for it, and no longer for a store that is down than one touch takes.
	switch known := <-d.probe; known {
	case probeLanded:
		d.probe <- known
		t.share(w.ctx, a, nil)
	case probeFailed:
		d.probe <- known
		t.fail(w.ctx, &a, ErrClosed)
	case unprobed:
		if o := t.share(w.ctx, a, nil); o.failure() != nil {
			known = probeFailed
		} else if o.tried {
			known = probeLanded
		}
		d.probe <- known
	}
}

// turn waits until a touch of those that wait may be carried out, and returns what is
// to be told how that went.
func (t *toucher) turn() (done func(error)) {
	d := &t.drain
	for !d.isClosing() && d.queue.len() > 0 {
		if !d.breaker.open() {
			t.pace()
			wait := d.budget.reserve()
			if left, ok := d.queue.first(t.now()); ok {
				wait = min(wait, max(0, left-t.margin()))
			}
			t.pause(wait)
			done, _ = d.breaker.allow()
			return done
		}
		if done, ok := d.breaker.allow(); ok {
			return done
		}
		t.pause(breakerPause / 4)
	}
	return func(error) {}
}

// pace has the budget follow what waits.
func (t *toucher) pace() {
	d := &t.drain
	if d.budget == nil {
		return
	}
	over, set := d.budget.pace(time.Now(), func() []time.Duration {
		return d.queue.left(t.now().Add(t.margin()))
	})
	if set {
		t.overBudget(over)
	}
}

// margin is how long before its record's death a touch must go at the latest.
func (t *toucher) margin() time.Duration { return t.timeout }

func (t *toucher) now() driver.Instant { return driver.Floor(t.clock.Now()) }

// pause waits for d, or until Close is called.
func (t *toucher) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.drain.closing:
	}
}

// shut ends all waiting.
func (d *drain) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isClosing() {
		close(d.closing)
	}
}

func (d *drain) isClosing() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// later keeps a, which failed, for when the store has recovered: it waits while the
// breaker is open, and is parked in case that opens soon. False: it was only parked.
func (t *toucher) later(ctx context.Context, a access) bool {
	d := &t.drain
	if d.breaker == nil || d.isClosing() {
		return false
	}
	a.tell, a.sent = nil, time.Time{}
	if d.breaker.open() {
		return t.push(ctx, a, true)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.parked) >= breakerLeast*breakerRun {
		d.parked = d.parked[1:]
	}
	d.parked = append(d.parked, &queued{ctx: context.WithoutCancel(ctx), access: a, since: time.Now()})
	return false
}

// unpark queues what failed shortly before the breaker opened.
func (t *toucher) unpark() {
	d := &t.drain
	d.mu.Lock()
	parked := d.parked
	d.parked = nil
	d.mu.Unlock()
	for _, w := range parked {
		if time.Since(w.since) < breakerWindow {
			t.stats.add(cRetried)
			t.push(w.ctx, w.access, true)
		}
	}
}

// shed gives up a touch that waited.
func (t *toucher) shed(w *queued) {
	t.broken(w.ctx, &w.access, TouchShed, ErrShed)
}

// drop gives up what waits.
func (t *toucher) drop() {
	for _, w := range t.drain.queue.drop() {
		t.fail(w.ctx, &w.access, ErrClosed)
	}
}

// breakerChanged follows the breaker. What failed shortly before it opened is not lost.
func (t *toucher) breakerChanged(open bool) {
	if open {
		t.unpark()
	}
	t.hooks.breaker(open)
}

// overBudget is told once a second, while touches wait, whether deadlines have them go
// faster than the budget.
func (t *toucher) overBudget(over bool) {
	if over {
		t.stats.add(cOverBudget)
	}
	if t.drain.over.Swap(over) != over {
		t.hooks.budget(over)
	}
}
