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
func (s *Store[T]) UpdateEntry(ctx context.Context, key string, e Entry[T], f func(T) (T, error)) (Entry[T], error) {
	return s.update(ctx, key, &e, f)
}

func (s *Store[T]) update(ctx context.Context, key string, first *Entry[T], f func(T) (T, error)) (Entry[T], error) {
	if err := s.begin(ctx, opUpdate, key); err != nil {
		return Entry[T]{}, err
	}
	defer s.gate.leave()
	if f == nil {
		return Entry[T]{}, wrap(ctx, opUpdate, &InvalidError{Field: "f", Value: "nil", Rule: "is required"})
	}
	var err error
	for attempt := range updateAttempts {
		var l look[T]
		if attempt == 0 && first != nil && s.live(key, first) {
			l.value, l.meta = &first.Value, first.Meta
		} else if err = s.read(ctx, opUpdate, key, &l); err != nil {
			return Entry[T]{}, err
		}
		if l.meta.CreatedAt == 0 && s.opts.Foreign != Adopt {
			return Entry[T]{}, wrap(ctx, opUpdate, ErrForeign)
		}
		v, ferr := f(*l.value)
		if ferr != nil {
			return Entry[T]{}, ferr
		}
		l.value = &v
		if l.rules, err = s.rulesOf(key, &v); err != nil {
			return Entry[T]{}, wrap(ctx, opUpdate, err)
		}
		if err = s.replace(ctx, key, &l); err == nil {
			return l.entry(nil)
		}
		if old := attempt == 0 && first != nil; !errors.Is(err, ErrConflict) && !(old && errors.Is(err, ErrNotFound)) {
			return Entry[T]{}, wrap(ctx, opUpdate, err)
		}
		if err := pause(ctx, attempt); err != nil {
			return Entry[T]{}, err
		}
	}
	return Entry[T]{}, wrap(ctx, opUpdate, err)
}

// live reports whether the record that was read as e is alive for all that it tells.
func (s *Store[T]) live(key string, e *Entry[T]) bool {
	r, err := s.rulesOf(key, &e.Value)
	return err == nil && r.alive(e.Life, driver.Floor(s.clock.Now()))
}

// replace writes l's value over the record that was read as l, and keeps in l what is
// then stored. It follows the record through touches, and ends with a conflict when
// the value itself is another.
func (s *Store[T]) replace(ctx context.Context, key string, l *look[T]) error {
	read, lowers := l.meta, driver.Instant(0)
	m, err := follow(read, func(was driver.Meta) (m driver.Meta, err error) {
		now := s.clock.Now()
		m.Life, lowers = s.rewritten(key, &l.rules, was.Life, now, was == read)
		if err = ErrNotFound; l.rules.alive(m.Life, driver.Floor(now)) {
			m.Version, err = s.d.Replace(ctx, key, *l.value, was, m.Life, driver.Floor(now))
		}
		if lowers != 0 {
			s.touches.lowered(key, lowers, err)
		}
		return m, err
	})
	if err != nil {
		s.memo.forget(key)
		return err
	}
	l.meta = m
	s.wrote(ctx, key, l, lowers != 0)
	return nil
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
