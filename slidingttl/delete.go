package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// undoTime is how long after a call that may be undone its transaction may take to be committed.
// Reads until then may still see a record that it deletes.
const undoTime = time.Minute

// deleting prepares a call by ctx that ends the life of key's record, and returns what it does at its end with
// its error. own: no error tells whether the record is gone.
func (s *Store[T]) deleting(ctx context.Context, key string, err *error, own bool) (end func()) {
	began := s.touches.Deletes(key)
	deleted := s.memo.Deleting(key)
	*err = ErrAmbiguous // until it returns: it may panic
	return func() {
		switch {
		case s.memo != nil && driver.MayUndo(ctx):
			time.AfterFunc(undoTime, deleted)
		case s.memo != nil && s.stale:
			time.AfterFunc(staleness, deleted)
		default:
			deleted()
		}
		found := errors.Is(*err, ErrNotFound)
		gone := *err == nil || found
		if gone || own || ctx.Err() != nil || errors.Is(*err, ErrAmbiguous) {
			s.touches.Deleted(ctx, key, began, gone && !driver.MayUndo(ctx), found)
		}
	}
}

// Delete removes the record under key. An absent key is no error. A touch under way of a record without
// created_at is waited for, at most Options.TouchTimeout.
func (s *Store[T]) Delete(ctx context.Context, key string) error {
	return s.callKey(ctx, opDelete, key, func() (err error) {
		defer s.deleting(ctx, key, &err, false)()
		return s.driver.Delete(ctx, key)
	})
}

// DeleteEntry removes the record that was read as e, if it still has that value and life.
//
// ErrNotFound: it is gone, or its expiry has passed. ErrConflict: another value was written, or, on a store whose
// versions change with a touch, the record was touched.
func (s *Store[T]) DeleteEntry(ctx context.Context, key string, e Entry[T]) error {
	return s.callKey(ctx, opDelete, key, func() (err error) {
		defer s.deleting(ctx, key, &err, false)()
		_, err = s.retryAfterTouch(e.Meta, func(was driver.Meta) (driver.Meta, error) {
			return was, driver.Remove(s.planned(ctx), s.driver, key, was, driver.Floor(s.clock.Now()))
		})
		return err
	})
}

// retryAfterTouch makes a write over the record was, and repeats it after a conflict with a touch. A
// record without created_at was not touched.
func (s *Store[T]) retryAfterTouch(was driver.Meta, write func(was driver.Meta) (driver.Meta, error)) (driver.Meta, error) {
	for {
		if err := s.touches.Closed(); err != nil {
			return was, err
		}
		m, err := write(was)
		conflict, ok := errors.AsType[*driver.ConflictError](err)
		if !ok || conflict.Found.CreatedAt == 0 || conflict.Found.Version != was.Version || conflict.Found.CreatedAt != was.CreatedAt || conflict.Found == was {
			return m, err
		}
		was = conflict.Found
	}
}

// Retire ends the life of the record under key now, for every process, whatever the policy.
//
// A caller that has just read it may get ErrNotFound. Keep and Wrapped.Get of another process learn of
// it when the expiry that they remember comes due. Nothing is deleted: the record dies as if of
// idleness. A store that retains dead records, for longer than Options.MaxSkew, returns it by History,
// and archives get it like others. An Insert or Upsert begins a new life. The expiry becomes now less Options.MaxSkew, rounded
// down to the store's resolution, so that it has passed for processes whose clocks are behind too.
// It may lie before created_at.
//
// ErrNotFound: absent, or its expiry has passed; one past its cap may live by another process's policy, and is ended.
// ErrConflict: too many others wrote the record meanwhile.
func (s *Store[T]) Retire(ctx context.Context, key string) error {
	return s.callKey(ctx, opRetire, key, func() (err error) {
		defer s.deleting(ctx, key, &err, false)()
		for range writeAttempts {
			r := readResult[T]{op: opRetire}
			err := s.read(ctx, s.latest, key, &r)
			now := driver.Floor(s.clock.Now())
			if pastCap := errors.Is(err, ErrNotFound) && r.value != nil && r.meta.Alive(now); err != nil && !pastCap {
				return err // past this policy's cap it may be alive by another's
			}
			if r.meta.CreatedAt == 0 && s.opts.Foreign != Adopt {
				return ErrForeign
			}
			if err := s.touches.Closed(); err != nil {
				return err
			}
			end := driver.Life{CreatedAt: r.meta.CreatedAt, ExpiresAt: r.rules.Retired(now)}
			_, err = s.retryAfterTouch(r.meta, func(was driver.Meta) (driver.Meta, error) {
				_, err := s.writeLife(ctx, key, was, end, now)
				return was, err
			})
			if !errors.Is(err, ErrConflict) {
				return err
			}
		}
		return ErrConflict
	})
}
