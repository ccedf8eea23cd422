package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Repository is the part of an existing repository that Wrap needs.
type Repository[K, V any] interface {
	// Get returns the value under id, or the repository's own error.
	Get(ctx context.Context, id K) (V, error)
	// Upsert writes v under id, over whatever is there.
	Upsert(ctx context.Context, id K, v V) error
}

// WrapOptions adjusts Wrap. The zero value, and a nil pointer, mean the defaults.
type WrapOptions[V any] struct {
	// CreatedAt gives a value's creation time, for values that carry their own.
	// It is used where the stored record has none that the driver reads, above
	// all after an Upsert that wrote the record whole. The zero time means
	// unknown. Nil: created_at comes from the store alone.
	CreatedAt func(V) time.Time
}

// Wrapped is a repository whose records slide. It is itself a Repository, and safe
// for concurrent use if the wrapped one is.
type Wrapped[K, V, T any] struct {
	repo Repository[K, V]
	s    *Store[T]
	key  func(K) string
	opts WrapOptions[V]
}

// Wrap gives the records of repo a sliding expiry, for teams that keep their own
// repository. s is a store over the same records: key turns an id into the key
// under which repo keeps it there. Only life is read and written through s, never
// a value. opts may be nil.
//
// A value and its expiry are then read, and written, by two calls instead of one,
// so less can be promised than with the Store's own Get and Upsert:
//
//   - Get promises what Store.Get does. A value that the repository still returns
//     although its record is dead is ErrNotFound. What the store last said of a
//     key is remembered, so a read whose touch is not due mostly costs no second
//     trip; another process that writes the record past its wrapper is noticed when
//     the remembered expiry comes due.
//   - Upsert writes the value first and its expiry next. Between the two, and for
//     good if the process dies there, the record has the expiry that the repository
//     gave it; the next access through a wrapper mends that. The repository should
//     therefore write no expiry, or none beyond the idle grace: a longer one that
//     stays below the cap is kept.
//   - An Upsert that writes the record whole may wipe the life beside it. created_at
//     and an expiry that was later are put back from what is read just before; with
//     nothing to read, as when two Upserts race, a new life begins. A delete by someone
//     else between that read and the write is not seen: the new record then continues
//     the old one's life. With CreatedAt nothing is read, and the expiry is the saving
//     process's: what slack had grown by under another's budget, or another's clock was
//     ahead, is given up, and a process that goes by the longer expiry it remembers
//     promises as much too much.
//   - Two Upserts at once are the repository's to order.
//   - A touch never creates or revives a record, here too. The repository's Upsert may.
func Wrap[K, V, T any](repo Repository[K, V], s *Store[T], key func(K) string, opts *WrapOptions[V]) (*Wrapped[K, V, T], error) {
	for _, required := range []struct {
		name    string
		missing bool
	}{{"repo", repo == nil}, {"store", s == nil}, {"key", key == nil}} {
		if required.missing {
			return nil, &InvalidError{Field: required.name, Value: "nil", Rule: "is required"}
		}
	}
	w := &Wrapped[K, V, T]{repo: repo, s: s, key: key}
	if opts != nil {
		w.opts = *opts
	}
	return w, nil
}

// Get returns what the repository holds under id and touches the record if that is
// due, waiting as the store's TouchMode says. The repository's errors pass
// unchanged. ErrNotFound: the record is dead, whatever the repository returned.
func (w *Wrapped[K, V, T]) Get(ctx context.Context, id K) (V, error) {
	v, err := w.repo.Get(ctx, id)
	key := w.key(id)
	if err != nil {
		w.s.memo.forget(key) // it may say that the record is gone
		return v, err
	}
	if err := w.s.keep(ctx, key, w.createdAt(v)); err != nil {
		var zero V
		return zero, err
	}
	return v, nil
}

// Upsert writes v through the repository, then its expiry, and waits for both. The
// repository's errors pass unchanged. An *[Error] of op "touch" says that the value
// is written and its expiry is not; the next access, or Upsert again, mends it.
func (w *Wrapped[K, V, T]) Upsert(ctx context.Context, id K, v V) error {
	key, was := w.key(id), driver.Life{CreatedAt: w.createdAt(v)}
	if was.CreatedAt == 0 {
		m, err := w.s.stored(ctx, key)
		if err != nil {
			return err
		}
		was = m.Life
	}
	if err := w.repo.Upsert(ctx, id, v); err != nil {
		return err
	}
	w.s.memo.forget(key)
	_, err := w.s.touchKey(ctx, key, was, true)
	return err
}

// stored returns what is stored under key now: the zero Meta if there is no live record.
func (s *Store[T]) stored(ctx context.Context, key string) (driver.Meta, error) {
	if err := s.begin(ctx, opPeek, key); err != nil {
		return driver.Meta{}, err
	}
	defer s.gate.leave()
	var l look[T]
	if err := s.readFrom(ctx, s.fresh, opPeek, key, &l); err != nil && !errors.Is(err, ErrNotFound) {
		return driver.Meta{}, err
	} else if err != nil {
		return driver.Meta{}, nil
	}
	return l.meta, nil
}

// Deleter is a repository with a delete of its own, which [Wrapped.Delete] calls.
type Deleter[K any] interface {
	// Delete removes what is stored under id.
	Delete(ctx context.Context, id K) error
}

// Delete removes what is stored under id, by the repository's own Delete if it is a
// [Deleter], else by the store's. What is saved under id afterwards begins a new life.
func (w *Wrapped[K, V, T]) Delete(ctx context.Context, id K) error {
	key := w.key(id)
	d, ok := w.repo.(Deleter[K])
	if !ok {
		return w.s.Delete(ctx, key)
	}
	defer w.s.memo.forget(key)
	return d.Delete(ctx, id)
}

func (w *Wrapped[K, V, T]) createdAt(v V) driver.Instant {
	if w.opts.CreatedAt == nil {
		return 0
	}
	return driver.Floor(w.opts.CreatedAt(v))
}
