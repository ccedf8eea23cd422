package couchbase

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// maxUnderWay limits the concurrent lookups of a driver's GetMulti calls and scans. gocb's queue to a
	// node holds 2,048 operations and refuses more.
	maxUnderWay = 256
	// maxReaders limits those of one call.
	maxReaders = 64
	// mostFailures in a row end a GetMulti: they show that the store does not answer, and not a part of it only.
	// Of such a part as many may fail at once as a call reads at once.
	mostFailures = 2 * maxReaders
)

// GetMulti implements driver.BatchGetter, with pipelined lookups. gocb's bulk calls have no
// sub-document operations.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	distinct := make([]int, 0, len(keys)) // their indexes in keys
	for i := range driver.Distinct(keys) {
		distinct = append(distinct, i)
	}
	found := make(map[string]driver.Entry[T], len(keys))
	var mu sync.Mutex // guards found and the rest
	var invalid driver.KeyErrors
	var failed error // the first
	inRow := 0
	ctx, end := context.WithCancel(ctx)
	defer end()
	ended := each(ctx, d.slots, len(distinct), func(i int) (driver.Entry[T], error) {
		return d.Get(ctx, keys[distinct[i]])
	}, func(i int, e driver.Entry[T], err error) {
		mu.Lock()
		defer mu.Unlock()
		inRow++
		switch {
		case err == nil:
			found[keys[distinct[i]]], inRow = e, 0
		case errors.Is(err, driver.ErrNotFound):
			inRow = 0
		case errors.Is(err, driver.ErrInvalid), errors.Is(err, hook.ErrExited), errors.As(err, new(*driver.PanicError)):
			invalid, inRow = append(invalid, &driver.KeyError{Index: distinct[i], Err: err}), 0
		default:
			failed = cmp.Or(failed, err)
		}
		if inRow == mostFailures {
			end()
		}
	})
	if failed = cmp.Or(failed, ended); failed != nil {
		return found, failed
	}
	return found, invalid.Err()
}

// each calls f concurrently for 0 to n-1, and then take with what f returns, limited by the driver's slots, until ctx
// ends, which is the error. A call gives its slot up after patience: those that wait for a node without an answer
// would keep out the others. A panic in f, as of a Transcoder, UnmarshalJSON or Options.ParentSpan, is f's error.
func each[R any](ctx context.Context, shared chan struct{}, n int, f func(i int) (R, error), take func(i int, r R, err error)) error {
	var calls sync.WaitGroup
	defer calls.Wait()
	readers := make(chan struct{}, maxReaders)
	for i := range n {
		for _, slots := range []chan struct{}{readers, shared} {
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		free := sync.OnceFunc(func() { <-readers; <-shared })
		late := time.AfterFunc(patience, free)
		calls.Go(func() {
			defer free()
			defer late.Stop()
			var r R
			hook.Try(func() (err error) {
				r, err = f(i)
				return err
			}, func(err error) { take(i, r, err) })
		})
	}
	return nil
}
