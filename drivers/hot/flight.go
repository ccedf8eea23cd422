package hot

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// flight is a read of the store that callers of one key share.
type flight[T any] struct {
	since mark
	done  chan struct{} // closed once the fields below are set

	entry     driver.Entry[T]
	err       error
	abandoned bool // no answer: the context of the caller making the trip ended
}

// load reads the record under key from the store and holds it. Concurrent callers share one trip,
// which the first caller makes. If that caller's context ends, another caller takes the trip over.
// A goroutine per trip would outlive its callers, and cost each miss the hand-over.
func (d *Driver[T]) load(ctx context.Context, key string) (driver.Entry[T], error) {
	for {
		f, first := d.tier.board(key)
		if first {
			return d.fly(ctx, key, f)
		}
		select {
		case <-f.done:
			if !f.abandoned {
				return f.entry, f.err
			}
		case <-ctx.Done():
			return driver.Entry[T]{}, ctx.Err()
		}
	}
}

func (d *Driver[T]) fly(ctx context.Context, key string, f *flight[T]) (driver.Entry[T], error) {
	f.abandoned = true // if the driver panics
	defer d.tier.land(key, f)
	f.entry, f.err = d.latest(ctx, key, f.since)
	f.abandoned = f.err != nil && ctx.Err() != nil
	return f.entry, f.err
}

// board returns the flight for key. It starts a new one if there is none, or if the current one's
// result would be too old.
func (t *tier[T]) board(key string) (f *flight[T], first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, now := t.flights[key], t.markLocked()
	if f != nil && now.at-f.since.at < t.staleness {
		return f, false
	}
	f = &flight[T]{since: now, done: make(chan struct{})}
	t.flights[key] = f
	return f, true
}

// land removes f and wakes the callers that wait for it.
func (t *tier[T]) land(key string, f *flight[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[key] == f {
		delete(t.flights, key)
	}
	close(f.done)
}

// latest reads the record's latest state from the store, and holds it or forgets the key.
func (d *Driver[T]) latest(ctx context.Context, key string, since mark) (driver.Entry[T], error) {
	e, err := driver.GetLatest(ctx, d.inner, key)
	switch {
	case err == nil:
		d.tier.read(key, e, since)
	case errors.Is(err, driver.ErrNotFound):
		d.tier.absent(key, since)
	}
	return e, err
}
