package slidingttl

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// drain carries out the touches that wait, nearest death first: those of reads in
// Background mode, those over the budget, and all while the breaker is open.
type drain struct {
	queue   queue
	budget  *budget
	breaker *breaker
	parked  parked
	workers chan struct{} // held by each touch that is carried out
	news    chan struct{} // told when a touch comes or has been carried out
	over    atomic.Bool   // it is said that touches go faster than the budget

	closing context.Context // ends when Close is called: no budget holds then
	shut    context.CancelFunc
	refused error // why the store did not take a touch that was tried for all

	mu   sync.Mutex // guards runs
	runs bool       // there is a goroutine that sees to what waits
}

func (d *drain) init(size, workers int) {
	d.queue.size = size
	d.workers, d.news = make(chan struct{}, workers), make(chan struct{}, 1)
	d.closing, d.shut = context.WithCancel(context.Background())
}

func (d *drain) isClosing() bool { return d.closing.Err() != nil }

// lookAfter is how long a touch waits before its record is read again first: by then
// another process may have touched it.
const lookAfter = time.Second

// held reports whether a touch that a read found due is to wait for the breaker or the
// budget.
func (t *toucher) held() bool {
	d := &t.drain
	return d.breaker.open() || d.budget != nil && (t.background || d.queue.len() > 0 || !d.budget.take())
}

// push queues a. False: the queue is full, and nothing is shed for a's sake.
func (t *toucher) push(ctx context.Context, a access, shed bool) bool {
	a.tell, a.sent, a.probes = nil, time.Time{}, false
	merged, ok, out := t.drain.queue.put(newQueued(ctx, a), shed)
	switch {
	case merged:
		t.ended(ctx, &a, TouchShared, nil)
		return true
	case !ok:
		t.stats.add(cQueueFull)
		return false
	case out != nil:
		t.broken(out.ctx, &out.access, TouchShed, ErrShed)
	}
	t.drain.tell()
	t.run()
	return true
}

// tell ends a pause.
func (d *drain) tell() {
	select {
	case d.news <- struct{}{}:
	default:
	}
}

// run sees to it that what waits is carried out.
func (t *toucher) run() {
	d := &t.drain
	d.mu.Lock()
	start := !d.runs && t.start()
	d.runs = d.runs || start
	given := !d.runs // close has given up
	d.mu.Unlock()
	if start {
		go t.carryAll()
	}
	if given {
		t.drop()
	}
}

// rest reports whether there is nothing to carry out. Then somebody else has to run.
func (d *drain) rest() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs = d.queue.ready()
	return !d.runs
}

// carryAll carries out what waits, each when its turn has come, as long as there is any.
func (t *toucher) carryAll() {
	defer t.running.Done()
	d := &t.drain
	for !d.rest() {
		d.workers <- struct{}{}
		done := t.turn()
		w := d.queue.take()
		switch {
		case w == nil:
			done(errUntried)
			<-d.workers
		case d.isClosing() && d.breaker.down():
			// Close waits no longer for a store that is down than one touch takes.
			if err := t.carry(w, done).failure(); err != nil {
				d.refused = err
				t.drop()
			}
		default:
			t.running.Add(1)
			go func() {
				defer t.running.Done()
				t.carry(w, done)
			}()
		}
	}
}

// carry carries out a touch that has waited, and tells done how that went.
func (t *toucher) carry(w *queued, done func(error)) outcome {
	a := w.access
	a.tell, a.waited, a.probes = done, true, t.drain.breaker.open()
	a.retold = a.retold || time.Since(w.since) >= lookAfter
	o := t.share(w.ctx, a, nil)
	done(errUntried) // unless the touch has told more: it may have been another's
	<-t.drain.workers
	t.drain.tell()
	if t.drain.queue.done(w) {
		t.run()
	}
	return o
}

// turn waits until a touch of those that wait may be carried out, and returns what is
// to be told how that went.
func (t *toucher) turn() (done func(error)) {
	d := &t.drain
	for !d.isClosing() && d.queue.ready() {
		if d.breaker.down() {
			if done, ok := d.breaker.allow(); ok {
				return done
			}
			t.pause(breakerPause / 4)
		} else if wait := t.pace(); wait > 0 {
			t.pause(wait)
		} else {
			break
		}
	}
	done, _ = d.breaker.allow()
	return done
}

// pace returns in how long the next of the touches that wait may go: as the budget has
// it, unless its record would die.
func (t *toucher) pace() time.Duration {
	d := &t.drain
	if d.budget == nil {
		return 0
	}
	margin := t.timeout // before its record's death a touch must go
	over, set := d.budget.pace(time.Now(), func() []time.Duration { return d.queue.left(t.now().Add(margin)) })
	if set {
		t.overBudget(over)
	}
	wait := d.budget.next()
	if left, ok := d.queue.first(t.now()); ok {
		wait = min(wait, max(0, left-margin))
	}
	return wait
}

func (t *toucher) now() driver.Instant { return driver.Floor(t.clock.Now()) }

// pause waits for d, or until there are news or Close is called.
func (t *toucher) pause(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.drain.news:
	case <-t.drain.closing.Done():
	}
}

// drop gives up what waits.
func (t *toucher) drop() {
	for _, w := range t.drain.queue.drop() {
		t.fail(w.ctx, &w.access, ErrClosed)
	}
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
