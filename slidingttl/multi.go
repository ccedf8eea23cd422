package slidingttl

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// GetMulti returns the values under keys and touches the records that are due, as
// Get does. Keys that are absent or dead are left out. Keys that failed are told by
// a [KeyErrors] in the error, and all others got their answer; with any other error
// it returns what it could read.
func (s *Store[T]) GetMulti(ctx context.Context, keys []string) (map[string]T, error) {
	if err := s.beginMulti(ctx, opGetMulti); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	found, failed, err := s.readMulti(ctx, opGetMulti, keys)
	values := make(map[string]T, len(found))
	var waiting []access
	var places []int
	for i, key := range keys {
		l := found[key]
		if _, twice := values[key]; l == nil || twice {
			continue
		}
		values[key] = *l.value
		if l.settled {
			continue
		}
		var a access
		if s.due(key, l, driver.Life{}, &a) {
			waiting, places = append(waiting, a), append(places, i)
		}
	}
	for i, terr := range s.bringAll(ctx, waiting) {
		if s.opts.Strict && broke(terr) {
			failed = append(failed, &KeyError{Index: places[i], Err: terr})
		}
	}
	return values, wrap(ctx, opGetMulti, errors.Join(err, failed.Err()))
}

// PeekMulti returns the records under keys and touches none. Keys that are absent
// or dead are left out. Errors are as of GetMulti.
func (s *Store[T]) PeekMulti(ctx context.Context, keys []string) (map[string]Entry[T], error) {
	if err := s.beginMulti(ctx, opPeek); err != nil {
		return nil, err
	}
	defer s.gate.leave()
	found, failed, err := s.readMulti(ctx, opPeek, keys)
	entries := make(map[string]Entry[T], len(found))
	for key, l := range found {
		entries[key], _ = l.entry(nil)
	}
	return entries, wrap(ctx, opPeek, errors.Join(err, failed.Err()))
}

// readMulti reads the live records under keys. With err it knows nothing of those
// that are missing.
func (s *Store[T]) readMulti(ctx context.Context, op string, keys []string) (found map[string]*look[T], failed KeyErrors, err error) {
	since, began, read := s.memo.now(), driver.Floor(s.clock.Now()), s.touches.hooks.reading()
	entries, err := driver.GetMulti(ctx, s.reads, keys)
	if errors.As(err, &failed) {
		err = nil // all others are read
	}
	found = make(map[string]*look[T], len(entries))
	asked := make(map[string]bool, len(keys))
	for _, f := range failed {
		asked[keys[f.Index]] = true
	}
	for i, key := range keys {
		e, ok := entries[key]
		if asked[key] || err != nil && !ok {
			continue
		}
		asked[key] = true
		l := &look[T]{op: op, since: since, began: read}
		var kerr error = ErrNotFound
		if ok {
			l.value, l.meta, kerr = &e.Value, e.Meta, nil
		}
		if kerr = s.settle(ctx, key, l, began, kerr); kerr == nil {
			found[key] = l
		} else if !errors.Is(kerr, ErrNotFound) {
			failed = append(failed, &KeyError{Index: i, Err: kerr})
		}
	}
	slices.SortFunc(failed, func(a, b *KeyError) int { return a.Index - b.Index })
	return found, failed, err
}

// bringAll brings about the touches that a call for many found due, some at a time,
// waiting for all of them as long as for one, and returns what became of each.
func (s *Store[T]) bringAll(ctx context.Context, all []access) []error {
	errs := make([]error, len(all))
	late, stop := s.touches.late()
	defer stop()
	s.each(len(all), func(i int) { errs[i] = s.touches.bringUntil(ctx, &all[i], late).err })
	return errs
}

// each calls f for the numbers below n, Options.Workers at a time.
func (s *Store[T]) each(n int, f func(i int)) {
	if s.local != nil {
		for i := range n {
			f(i)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(s.opts.Workers)
	for i := range n {
		group.Go(func() error { f(i); return nil })
	}
	_ = group.Wait()
}

// Item is a key and the value to be written under it.
type Item[T any] struct {
	Key   string
	Value T
}

// UpsertMulti upserts items, Options.Workers at a time. Those that failed are told
// by a [KeyErrors], and all others are written. Of two with one key either may be
// the last.
func (s *Store[T]) UpsertMulti(ctx context.Context, items []Item[T]) error {
	return s.doMulti(ctx, opUpsertMulti, len(items), func(i int) error {
		return s.Upsert(ctx, items[i].Key, items[i].Value)
	})
}

// DeleteMulti deletes the records under keys, Options.Workers at a time. Keys that
// failed are told by a [KeyErrors], and all others are deleted.
func (s *Store[T]) DeleteMulti(ctx context.Context, keys []string) error {
	return s.doMulti(ctx, opDeleteMulti, len(keys), func(i int) error {
		return s.Delete(ctx, keys[i])
	})
}

func (s *Store[T]) doMulti(ctx context.Context, op string, n int, f func(i int) error) error {
	if err := s.beginMulti(ctx, op); err != nil {
		return err
	}
	defer s.gate.leave()
	errs := make([]error, n)
	s.each(n, func(i int) { errs[i] = f(i) })
	var failed KeyErrors
	for i, err := range errs {
		if err != nil {
			failed = append(failed, &KeyError{Index: i, Err: err})
		}
	}
	return wrap(ctx, op, failed.Err())
}
