package hot

import (
	"context"
	"errors"
	"runtime/debug"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// flight is a read of the store that is under way for all who want the key.
type flight[T any] struct {
	cancel  context.CancelFunc
	since   mark
	waiting int // guarded by tier.mu

	done     chan struct{} // closed when there is an answer, which is below
	entry    driver.Entry[T]
	err      error
	panicked error
}

var errEnded = errors.New("the read of the store has ended its goroutine")

// load reads the record under key from the store, together with others who want it, and
// holds it. It returns when ctx ends; the trip goes on for the others.
func (d *Driver[T]) load(ctx context.Context, key string) (driver.Entry[T], error) {
	f := d.board(ctx, key)
	select {
	case <-f.done:
	case <-ctx.Done():
		d.tier.leave(key, f)
		return driver.Entry[T]{}, ctx.Err()
	}
	if f.panicked != nil {
		panic(f.panicked)
	}
	return f.entry, f.err
}

// board returns the flight for key, which it starts if there is none, or if what that brings
// would be too old.
func (d *Driver[T]) board(ctx context.Context, key string) *flight[T] {
	d.tier.mu.Lock()
	defer d.tier.mu.Unlock()
	f, now := d.tier.flights[key], d.tier.markLocked()
	if f == nil || now.at-f.since.at >= d.tier.staleness {
		f = &flight[T]{since: now, done: make(chan struct{}), err: errEnded}
		ctx, f.cancel = context.WithCancel(context.WithoutCancel(ctx))
		d.tier.flights[key] = f
		go d.fly(ctx, key, f)
	}
	f.waiting++
	return f
}

// leave gives up waiting for f, and ends it if nobody else does.
func (t *tier[T]) leave(key string, f *flight[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		t.landed(key, f)
	}
}

// landed has nobody join f any more.
func (t *tier[T]) landed(key string, f *flight[T]) {
	if t.flights[key] == f {
		delete(t.flights, key)
	}
}

// fly makes the trip.
func (d *Driver[T]) fly(ctx context.Context, key string, f *flight[T]) {
	defer func() {
		if v := recover(); v != nil { // who waits is told, as if he had read by himself
			f.panicked = &driver.PanicError{Value: v, Stack: debug.Stack(), Count: 1}
		}
		f.cancel()
		d.tier.mu.Lock()
		d.tier.landed(key, f)
		d.tier.mu.Unlock()
		close(f.done)
	}()
	f.entry, f.err = d.latest(ctx, key, f.since)
}

// latest reads the record under key from the store as it is now, and holds it, or forgets
// what was held.
func (d *Driver[T]) latest(ctx context.Context, key string, since mark) (driver.Entry[T], error) {
	e, err := driver.GetLatest(ctx, d.inner, key)
	switch {
	case err == nil:
		d.tier.read(key, e, since)
	case errors.Is(err, driver.ErrNotFound):
		d.tier.absent(key)
	}
	return e, err
}
