package slidingttl

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// GetMulti returns the values under keys and touches the records that are due, as Get does.
//
// Keys that are absent or dead are left out. Keys that failed are in a [KeyErrors] in
// the error, and all others got their answer; with any other error it returns what it could
// read.
func (s *Store[T]) GetMulti(ctx context.Context, keys []string) (values map[string]T, err error) {
	err = s.call(ctx, opGetMulti, func() (err error) {
		values, err = s.getMulti(ctx, keys)
		return err
	})
	return values, err
}

func (s *Store[T]) getMulti(ctx context.Context, keys []string) (map[string]T, error) {
	found, failed, err := s.readMulti(ctx, opGetMulti, keys)
	late := s.touches.Late()
	var due []int // places of the keys whose touch may be
	for i, key := range keys {
		if r := found[key]; r != nil && !r.needsNoTouch {
			r.needsNoTouch, r.late = true, late // once
			due = append(due, i)
		}
	}
	for _, f := range s.each(ctx, len(due), func(i int) error {
		_, err := s.touchIfDue(ctx, keys[due[i]], found[keys[due[i]]])
		return err
	}) {
		if f.Index = due[f.Index]; errors.Is(f, ErrNotFound) {
			delete(found, keys[f.Index])
		} else {
			failed = append(failed, f)
		}
	}
	values := make(map[string]T, len(found))
	for key, r := range found {
		values[key] = *r.value
	}
	return values, errors.Join(err, failed.Err())
}

// PeekMulti returns the records under keys and touches none.
//
// Keys that are absent or dead are left out. Errors are as of GetMulti.
func (s *Store[T]) PeekMulti(ctx context.Context, keys []string) (entries map[string]Entry[T], err error) {
	err = s.call(ctx, opPeek, func() error {
		found, failed, err := s.readMulti(ctx, opPeek, keys)
		entries = make(map[string]Entry[T], len(found))
		for key, r := range found {
			entries[key], _ = r.entry(nil)
		}
		return errors.Join(err, failed.Err())
	})
	return entries, err
}

// readMulti reads the live records under keys. With an error, missing ones are unknown.
func (s *Store[T]) readMulti(ctx context.Context, op string, keys []string) (found map[string]*readResult[T], failed KeyErrors, err error) {
	since, began, asking := s.memo.Clock(), driver.Floor(s.clock.Now()), s.hooks.reading()
	ctx, cancel := s.touches.UntilClosed(ctx)
	defer cancel()
	entries, err := driver.GetMulti(ctx, s.reads, keys)
	if err != nil {
		err = cmp.Or(s.touches.Closed(), err)
	}
	if errors.As(err, &failed) {
		err = nil // all others are read
	}
	found = make(map[string]*readResult[T], len(entries))
	unread := make(map[string]error, len(failed))
	for _, f := range failed {
		unread[keys[f.Index]] = f.Err
	}
	for i, key := range driver.Distinct(keys) {
		e, ok := entries[key]
		if cause := cmp.Or(unread[key], err); unread[key] != nil || err != nil && !ok {
			s.hooks.read(ctx, op, asking, ReadFailed, cause)
			continue
		}
		r := &readResult[T]{op: op, since: since, began: asking}
		var kerr error = ErrNotFound
		if ok {
			r.value, r.meta, kerr = &e.Value, e.Meta, nil
		}
		if kerr = s.judge(ctx, key, r, began, kerr); kerr == nil {
			found[key] = r
		} else if !errors.Is(kerr, ErrNotFound) {
			failed = append(failed, &KeyError{Index: i, Err: cmp.Or(s.touches.Closed(), kerr)})
		}
	}
	return found, failed, err
}

// each calls f for the numbers below n, Options.Parallel at a time, and returns the errors. In a
// transaction of ctx, which takes one call at a time, it makes one after the other. On a goroutine of
// the store's, a panic or runtime.Goexit in a caller's function is that number's error.
func (s *Store[T]) each(ctx context.Context, n int, f func(i int) error) (failed KeyErrors) {
	errs := make([]error, n)
	var group errgroup.Group
	group.SetLimit(s.opts.Parallel)
	alone := s.local != nil || driver.MayUndo(ctx)
	for i := range n {
		if alone {
			errs[i] = f(i)
			continue
		}
		errs[i] = touches.ErrExited
		group.Go(func() error {
			errs[i] = s.recovered(func() error { return f(i) })
			return nil
		})
	}
	_ = group.Wait()
	for i, err := range errs {
		if err != nil {
			failed = append(failed, &KeyError{Index: i, Err: err})
		}
	}
	return failed
}

// recovered calls f, and returns a panic in it as a *PanicError.
func (s *Store[T]) recovered(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.stats.Add(tally.Panics)
			err = &PanicError{Value: v, Stack: debug.Stack(), Count: 1}
		}
	}()
	return f()
}

// Item is a key and the value to be written under it.
type Item[T any] struct {
	Key   string
	Value T
}

// UpsertMulti upserts items, Options.Parallel at a time, in a caller's transaction one at a time.
//
// Items that failed are in a [KeyErrors], and all others are written. Those of one key are written one after
// the other, in any order.
func (s *Store[T]) UpsertMulti(ctx context.Context, items []Item[T]) error {
	return s.call(ctx, opUpsertMulti, func() error {
		one := make(map[string]chan bool, len(items)) // the items of a key would only lose races with each other
		for _, item := range items {
			one[item.Key] = make(chan bool, 1)
		}
		return s.each(ctx, len(items), func(i int) error {
			key := items[i].Key
			one[key] <- true
			defer func() { <-one[key] }()
			err := driver.CheckKey(key, 0)
			if err == nil {
				_, err = s.upsert(ctx, key, items[i].Value)
			}
			return err
		}).Err()
	})
}
