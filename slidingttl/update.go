package slidingttl

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	// updateAttempts bounds the races that one Update may lose.
	updateAttempts = 64
	// updatePause bounds the pause after a lost race.
	updatePause = 32 * time.Millisecond
)

// Update reads the value under key, writes what f makes of it, and returns that.
// It is a compare-and-swap: if another writer was faster, f is called again with
// the value that writer left, so f must be free of side effects. A touch by
// someone else is no reason to call f again unless the backing store's versions
// cannot tell the two apart. f must not change the value it is given in place
// where that holds pointers.
//
// An update counts as an access and keeps created_at. If f returns an error,
// nothing is written and the error is returned as it is; if f panics, nothing is
// written and the panic passes on. ErrNotFound: absent or dead, or past the cap of
// the policy that the new value brings. ErrConflict: too many races lost.
func (s *Store[T]) Update(ctx context.Context, key string, f func(T) (T, error)) (T, error) {
	e, err := s.update(ctx, key, nil, f)
	return e.Value, err
}

// UpdateEntry is Update, beginning with the record as it was read, in e, by
// [Store.Peek], [Store.Entry] or [Store.TouchEntry]: one trip less where nobody
// has written since. It returns the record as written.
func (s *Store[T]) UpdateEntry(ctx context.Context, key string, e driver.Entry[T], f func(T) (T, error)) (driver.Entry[T], error) {
	return s.update(ctx, key, &e, f)
}

func (s *Store[T]) update(ctx context.Context, key string, first *driver.Entry[T], f func(T) (T, error)) (driver.Entry[T], error) {
	var zero driver.Entry[T]
	if err := s.begin(ctx, opUpdate, key); err != nil {
		return zero, err
	}
	if f == nil {
		return zero, wrap(ctx, opUpdate, &InvalidError{Field: "f", Value: "nil", Rule: "is required"})
	}
	var err error
	for attempt := range updateAttempts {
		var l look[T]
		if attempt == 0 && first != nil {
			l.value, l.meta = &first.Value, first.Meta
			if l.rules, err = s.rulesOf(l.value); err != nil {
				return zero, wrap(ctx, opUpdate, err)
			}
			if !l.rules.alive(l.meta.Life, driver.Floor(s.clock.Now())) {
				return zero, wrap(ctx, opUpdate, ErrNotFound)
			}
		} else if err = s.read(ctx, opUpdate, key, &l); err != nil {
			return zero, err
		}
		if l.meta.CreatedAt == 0 && s.opts.Foreign != Adopt {
			return zero, wrap(ctx, opUpdate, ErrForeign)
		}
		v, ferr := f(*l.value)
		if ferr != nil {
			return zero, ferr
		}
		r, rerr := s.rulesOf(&v)
		if rerr != nil {
			return zero, wrap(ctx, opUpdate, rerr)
		}
		var m driver.Meta
		if m, err = s.replace(ctx, key, v, l.meta, r, *r != *l.rules); err == nil {
			return driver.Entry[T]{Value: v, Meta: m}, nil
		}
		if !errors.Is(err, ErrConflict) {
			return zero, wrap(ctx, opUpdate, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return zero, err
		}
	}
	return zero, wrap(ctx, opUpdate, err)
}

// replace writes v over the record was and returns what is then stored. It follows
// was through touches, and ends with a conflict when the value itself is another.
func (s *Store[T]) replace(ctx context.Context, key string, v T, was driver.Meta, r *rules, exactly bool) (driver.Meta, error) {
	for {
		now := s.clock.Now()
		life := r.rewritten(was.Life, now, exactly)
		if !r.alive(life, driver.Floor(now)) {
			return driver.Meta{}, ErrNotFound
		}
		version, err := s.d.Replace(ctx, key, v, was, life, driver.Floor(now))
		if err == nil {
			m := driver.Meta{Life: life, Version: version}
			s.memo.wrote(key, m)
			return m, nil
		}
		s.memo.forget(key)
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || conflict.Found.Version != was.Version || conflict.Found.CreatedAt != was.CreatedAt {
			return driver.Meta{}, err
		}
		if conflict.Found == was {
			return driver.Meta{}, err // a driver that conflicts with nothing must not hold us here
		}
		was = conflict.Found
	}
}

// pause waits a random moment that grows with the races lost, so that many
// writers of one record all come through.
func pause(ctx context.Context, lost int) error {
	if lost < 2 {
		return ctx.Err()
	}
	most := min(time.Millisecond<<min(lost-2, 10), updatePause)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
