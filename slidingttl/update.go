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
//
// It is a compare-and-swap, counts as an access and keeps created_at. If another writer was
// faster, f is called again with that writer's value, so f must be free of side effects. If
// versions of the backing store do not distinguish touches from writes, a touch has that effect
// too. f must not change what its argument points to.
//
// If f returns an error, nothing is written and the error is returned unchanged; if f panics,
// nothing is written and the panic passes on. ErrNotFound: absent, dead, or past the cap of the
// new value's policy. ErrConflict: too many races lost.
func (s *Store[T]) Update(ctx context.Context, key string, f func(T) (T, error)) (T, error) {
	e, err := s.update(ctx, key, nil, f)
	return e.Value, err
}

// UpdateEntry is Update, and begins with the record as it was read, in e.
//
// That is one trip less if the record was not written since. It returns the record as written.
func (s *Store[T]) UpdateEntry(ctx context.Context, key string, e Entry[T], f func(T) (T, error)) (Entry[T], error) {
	return s.update(ctx, key, &e, f)
}

func (s *Store[T]) update(ctx context.Context, key string, first *Entry[T], f func(T) (T, error)) (e Entry[T], err error) {
	err = s.callKey(ctx, opUpdate, key, func() (err error) {
		if driver.MayUndo(ctx) { // what it writes is not to be remembered
			defer s.memo.Deleting(key)()
		}
		if f == nil {
			return &InvalidError{Field: "f", Value: "nil", Rule: "is required"}
		}
		attempts := updateAttempts
		if driver.MayUndo(ctx) { // the driver reads with a lock, or the transaction begins again
			attempts = 2
		}
		reads := s.reads
		for attempt := range attempts {
			e, err = s.updateOnce(ctx, reads, key, first, f)
			mayBeStale := first != nil || attempt == 0 && s.stale
			if again := errors.Is(err, ErrConflict) || mayBeStale && errors.Is(err, ErrNotFound); !again {
				return err
			}
			if err := pause(ctx, attempt); err != nil {
				return err
			}
			first, reads = nil, s.latest
		}
		return err
	})
	return e, err
}

// updateOnce is one attempt of update, from first unless that is nil or dead, else from reads.
func (s *Store[T]) updateOnce(ctx context.Context, reads driver.Driver[T], key string, first *Entry[T], f func(T) (T, error)) (e Entry[T], err error) {
	r := readResult[T]{op: opUpdate, since: s.memo.Clock()}
	if first != nil && s.mayBeAlive(key, first) {
		r.value, r.meta = &first.Value, first.Meta
	} else if err = s.read(ctx, reads, key, &r); err != nil {
		return e, err
	}
	if r.meta.CreatedAt == 0 && s.opts.Foreign != Adopt {
		return e, ErrForeign
	}
	v, err := f(*r.value)
	if err != nil {
		return e, own{err}
	}
	m, err := s.replace(ctx, key, v, r.meta, r.since)
	if err != nil {
		return e, err
	}
	return Entry[T]{Value: v, Meta: m}, nil
}

// mayBeAlive reports whether the record is alive according to e.
func (s *Store[T]) mayBeAlive(key string, e *Entry[T]) bool {
	r, err := s.rulesOf(key, &e.Value)
	return err == nil && r.Alive(e.Life, driver.Floor(s.clock.Now()))
}

// replace writes v over the record that was read, and returns what is then stored. Touches
// meanwhile do not matter; another value is a conflict.
func (s *Store[T]) replace(ctx context.Context, key string, v T, read driver.Meta, since uint64) (driver.Meta, error) {
	r, err := s.rulesOf(key, &v)
	if err != nil {
		return read, err
	}
	w := s.rewrite(key, r, &read, s.clock.Now())
	defer w.release()
	m, err := s.retryAfterTouch(read, func(was driver.Meta) (m driver.Meta, err error) {
		w.meets(&was)
		now := s.clock.Now()
		w.planned = driver.Floor(now)
		m.Life = w.over(was.Life, now)
		if err = ErrNotFound; r.Alive(m.Life, driver.Floor(now)) {
			m.Version, err = s.driver.Replace(s.planned(ctx), key, v, was, m.Life, driver.Floor(now))
		}
		return m, err
	})
	return w.ended(ctx, m, err, since)
}

// pause waits a random time that grows with the races lost, so that many writers all succeed.
func pause(ctx context.Context, lost int) error {
	if lost < 2 {
		return ctx.Err()
	}
	most := min(time.Millisecond<<min(lost-2, 10), updatePause)
	return driver.Sleep(ctx, rand.N(most))
}
