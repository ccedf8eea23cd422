package hot

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// flight is a read of the store that is under way for all who want the key.
type flight[T any] struct {
	since mark
	done  chan struct{} // closed when there is an answer, which is below

	entry     driver.Entry[T]
	err       error
	abandoned bool // there is none, for who made the trip has left
}

// load reads the record under key from the store, together with others who want it, and
// holds it. The first to come makes the trip. If its context ends before, another
// takes it over: a trip on a goroutine of its own would go on, and cost each miss the
// hand-over.
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

// fly makes the trip.
func (d *Driver[T]) fly(ctx context.Context, key string, f *flight[T]) (driver.Entry[T], error) {
	f.abandoned = true // if the driver panics
	defer d.tier.land(key, f)
	f.entry, f.err = d.latest(ctx, key, f.since)
	f.abandoned = f.err != nil && ctx.Err() != nil
	return f.entry, f.err
}

// board returns the flight for key, and whether it is a new one, because there is none or
// what that brings would be too old.
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

// land has nobody board f any more, and tells those who did.
func (t *tier[T]) land(key string, f *flight[T]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.flights[key] == f {
		delete(t.flights, key)
	}
	close(f.done)
}

// latest reads the record under key from the store as it is now, and holds it, or forgets
// what was held.
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
