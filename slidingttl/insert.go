package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
)

// writeAttempts bounds the races that one write may lose.
const writeAttempts = 16

// Insert writes v under key as a new record.
//
// ErrExists: the key has a live record, which is unchanged.
func (s *Store[T]) Insert(ctx context.Context, key string, v T) error {
	_, err := s.InsertEntry(ctx, key, v)
	return err
}

// InsertEntry is Insert, and returns the record as written.
func (s *Store[T]) InsertEntry(ctx context.Context, key string, v T) (Entry[T], error) {
	r := readResult[T]{value: &v}
	err := s.callKey(ctx, opInsert, key, func() (err error) {
		r.meta, err = s.insert(ctx, key, v)
		return err
	})
	return r.entry(err)
}

// insert writes v under key unless a live record is there.
func (s *Store[T]) insert(ctx context.Context, key string, v T) (m driver.Meta, err error) {
	r, err := s.rulesOf(key, &v)
	if err != nil {
		return m, err
	}
	if driver.MayUndo(ctx) { // what it writes is not to be remembered
		defer s.memo.Deleting(key)()
	}
	if err := s.mayWrite(ctx); err != nil {
		return m, err
	}
	since := s.memo.Clock()
	ctx = s.countReplaced(ctx, r)
	err = s.planAgain(func(now time.Time) error {
		m.Life = r.New(now)
		m.Version, err = s.driver.Insert(ctx, key, v, m.Life, driver.Floor(now))
		return err
	})
	if conflict, ok := errors.AsType[*driver.ConflictError](err); ok {
		m, err = s.insertOver(ctx, key, v, r, &conflict.Found)
	}
	if err == nil {
		s.memo.Wrote(key, m, since, m.CreatedAt, false)
	}
	return m, err
}

// planAgain makes a write that is planned at now, and again as long as the driver asks for that.
func (s *Store[T]) planAgain(write func(now time.Time) error) (err error) {
	for range writeAttempts {
		if err = s.touches.Closed(); err != nil {
			break
		}
		if err = write(s.clock.Now()); !errors.Is(err, driver.ErrLate) || errors.Is(err, driver.ErrAmbiguous) {
			break
		}
	}
	return err
}

// insertOver is insert over found, which may be dead by its policy, mostly past its cap. A store
// cannot know that. So this is an upsert whose plan refuses a live record, but not the driver's
// own Upsert, whose plan must not read.
func (s *Store[T]) insertOver(ctx context.Context, key string, v T, r *rules.Rules, found *driver.Meta) (m driver.Meta, err error) {
	plan := func(found *driver.Meta) (driver.Life, error) {
		theirs, err := r, error(nil)
		if found != nil && s.opts.PolicyOf != nil { // by the stored value
			*found, theirs, err = s.readLatest(ctx, key)
		}
		now := s.clock.Now()
		if err == nil {
			err = s.touches.Closed()
		}
		if err == nil && found != nil && theirs.Alive(found.Life, driver.Floor(now)) {
			err = ErrExists
		}
		return r.New(now), err
	}
	plain := struct{ driver.Driver[T] }{s.driver}
	plan, landed := reportReplaced(ctx, plan)
	for range writeAttempts {
		m, err = driver.Upsert(ctx, plain, key, v, found, plan, driver.Floor(s.clock.Now()))
		landed(err)
		if !errors.Is(err, ErrNotFound) {
			return m, err
		}
		found = nil // deleted meanwhile
	}
	return m, ErrConflict
}

// GetOrInsert returns the value under key as Get does, or inserts what v returns.
//
// inserted says which. If several calls find no record at once, one inserts, and the others return
// what it wrote; each may have called v. An error of v is returned unchanged, and nothing is
// written.
func (s *Store[T]) GetOrInsert(ctx context.Context, key string, v func(ctx context.Context) (T, error)) (value T, inserted bool, err error) {
	err = s.callKey(ctx, opGetOrInsert, key, func() error {
		if v == nil {
			return &InvalidError{Field: "v", Value: "nil", Rule: "is required"}
		}
		for attempt := range writeAttempts {
			r := readResult[T]{op: opGetOrInsert, latest: attempt > 0}
			err := s.readAndTouch(ctx, key, &r)
			if err == nil {
				value = *r.value
			}
			if !errors.Is(err, ErrNotFound) {
				return err
			}
			made, err := v(ctx)
			if err != nil {
				return own{err}
			}
			if _, err = s.insert(ctx, key, made); err == nil {
				value, inserted = made, true
			}
			if !errors.Is(err, ErrExists) {
				return wrap(ctx, opInsert, err)
			}
		}
		return ErrConflict
	})
	return value, inserted, err
}
