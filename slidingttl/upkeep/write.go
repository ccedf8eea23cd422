package upkeep

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Store is a driver whose records can be listed.
type Store[T any] interface {
	driver.Driver[T]
	driver.Scanner
}

// outcome is the result of a write, as the report counts it.
type outcome int

const (
	nothing  outcome = iota // nothing had to be written
	done                    // written, or in a dry run would be
	vanished                // removed, dead or replaced before the write
	locked                  // by another client
	races                   // lost more races than a write may lose
)

// lostRaces bounds the races with live traffic that the write of one record may lose.
const lostRaces = 16

// writer makes conditional writes at a limited pace, some at once.
type writer struct {
	apply  bool
	slots  chan struct{}
	writes *pace
	cost   *pace // shared with the scan
	each   float64
	unit   int
	fails  *failures
	tried  atomic.Int64
	landed atomic.Int64 // where nothing is written, records that did not fail
}

func newWriter(o *WriteOptions) *writer {
	return &writer{
		apply:  o.Apply,
		slots:  make(chan struct{}, o.Writers),
		writes: newPace(o.Limits.Writes),
		cost:   newPace(o.Limits.Cost),
		each:   o.Limits.WriteCost,
		unit:   o.Unit,
		fails:  newFailures(&o.Options),
	}
}

// each calls one for each record of a page, concurrently, and adds the results to into. A failed
// record is counted there. It does not end the page, unless too many records have failed.
func each[R any, S state[R]](ctx context.Context, w *writer, page []driver.Scanned, into S, one func(context.Context, *driver.Scanned) (R, error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.fails.walked.Add(int64(len(page)))
	var group sync.WaitGroup
	var mu sync.Mutex // guards into
	for i := range page {
		select {
		case w.slots <- struct{}{}:
		case <-ctx.Done():
			group.Wait()
			return context.Cause(ctx)
		}
		group.Go(func() {
			defer func() { <-w.slots }()
			found, err := one(ctx, &page[i])
			if err == nil && !w.apply {
				w.landed.Add(1)
			}
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				into.add(&found)
			} else if ctx.Err() == nil {
				err = w.fails.note(into.Sum(), page[i].Key, err, w.landed.Load())
			}
			if err != nil {
				cancel(err)
			}
		})
	}
	group.Wait()
	return context.Cause(ctx)
}

// units returns the write units that a record of this size costs.
func (w *writer) units(size int) int64 { return int64(max(1, (size+w.unit-1)/w.unit)) }

// turn waits until a write may be attempted, and counts it.
func (w *writer) turn(ctx context.Context) error {
	if err := w.writes.wait(ctx, 1); err != nil {
		return err
	}
	if err := w.cost.wait(ctx, w.each); err != nil {
		return err
	}
	w.tried.Add(1)
	return nil
}

// again retries a write until it succeeds or fails for good. It gives up sooner if other writes
// succeed meanwhile, because then the record fails and not the store.
func (w *writer) again(ctx context.Context, write func() error) error {
	before := w.landed.Load()
	return attempt(ctx, func(n int) bool { return n >= attemptsOfOne && w.landed.Load() > before }, write)
}

// writing returns an operation that calls one for each record, and sums the reports.
func writing[R any, S state[R]](name, about string, o *WriteOptions, w *writer, one func(context.Context, *driver.Scanned) (R, error)) job[R, S] {
	return job[R, S]{
		name:  name,
		about: about,
		opts:  o.Options,
		cost:  w.cost,
		wrote: w.tried.Load,
		visit: func(ctx context.Context, _ int, page []driver.Scanned, into S) error {
			return each(ctx, w, page, into, one)
		},
	}
}

// land plans and makes a write for the record was. After a conflict it plans again for the record
// that the store returned, until the write succeeds or there is nothing to do. plan returns
// the life to write, and false if there is none.
func (w *writer) land(ctx context.Context, was driver.Meta, plan func(driver.Meta) (driver.Life, bool, error), write func(driver.Meta, driver.Life) error) (outcome, error) {
	var mine []driver.Life // lives of attempts whose result is unknown
	for range lostRaces {
		for _, l := range mine {
			if was.Life == l {
				return done, nil
			}
		}
		next, due, err := plan(was)
		if errors.Is(err, driver.ErrNotFound) {
			return vanished, nil // it vanished while its plan was made
		}
		if err != nil || !due {
			return nothing, err
		}
		if !w.apply {
			w.tried.Add(1)
			return done, nil
		}
		err = w.again(ctx, func() error {
			if err := w.turn(ctx); err != nil {
				return err
			}
			err := write(was, next)
			if errors.Is(err, driver.ErrAmbiguous) {
				mine = append(mine, next)
			}
			return err
		})
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) {
			return w.became(err)
		}
		was = conflict.Found
	}
	return races, nil
}

// became returns the outcome of a write that ended with err.
func (w *writer) became(err error) (outcome, error) {
	switch {
	case err == nil:
		w.landed.Add(1)
		return done, nil
	case errors.Is(err, driver.ErrNotFound):
		return vanished, nil
	case errors.Is(err, driver.ErrLocked):
		return locked, nil
	case errors.Is(err, driver.ErrConflict):
		return races, nil
	}
	return nothing, err
}
