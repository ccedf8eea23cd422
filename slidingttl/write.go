package slidingttl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// writeAttempts bounds the races that one write may lose.
const writeAttempts = 16

// Insert writes v under key as a new record. ErrExists: a live record is there,
// and stays as it is.
func (s *Store[T]) Insert(ctx context.Context, key string, v T) error {
	_, err := s.InsertEntry(ctx, key, v)
	return err
}

// InsertEntry is Insert, and returns the record as written.
func (s *Store[T]) InsertEntry(ctx context.Context, key string, v T) (Entry[T], error) {
	if err := s.begin(ctx, opInsert, key); err != nil {
		return Entry[T]{}, err
	}
	defer s.gate.leave()
	r, err := s.rulesOf(key, &v)
	if err != nil {
		return Entry[T]{}, wrap(ctx, opInsert, err)
	}
	since := s.memo.now()
	m, err := s.insert(ctx, key, v, &r)
	if err != nil {
		return Entry[T]{}, wrap(ctx, opInsert, err)
	}
	s.memo.wrote(key, m, since)
	return Entry[T]{Value: v, Meta: m}, nil
}

// insert writes v under key unless a live record is there.
func (s *Store[T]) insert(ctx context.Context, key string, v T, r *rules) (driver.Meta, error) {
	for range writeAttempts {
		now := s.clock.Now()
		life := r.fresh(now)
		version, err := s.d.Insert(ctx, key, v, life, driver.Floor(now))
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) {
			return driver.Meta{Life: life, Version: version}, err
		}
		dead, err := s.deadByCap(ctx, key, &conflict.Found, r)
		switch {
		case errors.Is(err, ErrNotFound):
			continue // deleted meanwhile
		case err != nil:
			return driver.Meta{}, err
		case !dead:
			return driver.Meta{}, exists(conflict)
		}
		now = s.clock.Now()
		life = r.fresh(now)
		version, err = s.d.Replace(ctx, key, v, conflict.Found, life, driver.Floor(now))
		if err == nil || !errors.Is(err, ErrConflict) && !errors.Is(err, ErrNotFound) {
			return driver.Meta{Life: life, Version: version}, err
		}
	}
	return driver.Meta{}, ErrConflict
}

// deadByCap reports whether the record found in an insert's way is past its cap,
// which a store cannot tell. Where the policy depends on the value that is read, and
// found is then what was.
func (s *Store[T]) deadByCap(ctx context.Context, key string, found *driver.Meta, r *rules) (bool, error) {
	was := *r
	if s.opts.PolicyOf != nil {
		var l look[T]
		err := s.load(ctx, s.fresh, key, &l)
		if err == nil {
			was, err = s.rulesOf(key, l.value)
		}
		if err != nil {
			return false, err
		}
		*found = l.meta
	}
	return !was.alive(found.Life, driver.Floor(s.clock.Now())), nil
}

// exists is ErrExists with the store's own error, if it had one.
func exists(c *driver.ConflictError) error {
	if c.Err == nil {
		return ErrExists
	}
	return fmt.Errorf("%w: %w", ErrExists, c.Err)
}

// GetOrInsert returns the value under key as Get does, or writes what v returns as
// a new record and returns that. inserted says which. Of several that find nothing
// at once one inserts, and the others return what it wrote; each may have called v.
// An error of v's is returned as it is, and nothing written.
func (s *Store[T]) GetOrInsert(ctx context.Context, key string, v func(ctx context.Context) (T, error)) (value T, inserted bool, err error) {
	for range writeAttempts {
		var l look[T]
		if err = s.access(ctx, opGetOrInsert, key, &l); err == nil {
			return *l.value, false, nil
		} else if !errors.Is(err, ErrNotFound) {
			return value, false, err
		}
		made, err := v(ctx)
		if err != nil {
			return value, false, err
		}
		if err = s.Insert(ctx, key, made); err == nil {
			return made, true, nil
		} else if !errors.Is(err, ErrExists) {
			return value, false, err
		}
	}
	return value, false, wrap(ctx, opGetOrInsert, ErrConflict)
}

// Upsert writes v under key. Over a live record it keeps created_at and counts as
// an access; over none, or a dead one, it starts a new life. The expiry moves
// forward only, unless it lies beyond what v's policy allows: see [Store.SetPolicy].
// ErrConflict: too many others wrote the record meanwhile.
func (s *Store[T]) Upsert(ctx context.Context, key string, v T) error {
	_, err := s.UpsertEntry(ctx, key, v)
	return err
}

// UpsertEntry is Upsert, and returns the record as written.
func (s *Store[T]) UpsertEntry(ctx context.Context, key string, v T) (Entry[T], error) {
	if err := s.begin(ctx, opUpsert, key); err != nil {
		return Entry[T]{}, err
	}
	defer s.gate.leave()
	l := look[T]{value: &v, since: s.memo.now()}
	var err error
	if l.rules, err = s.rulesOf(key, &v); err != nil {
		return Entry[T]{}, wrap(ctx, opUpsert, err)
	}
	known := s.memo.known(key)
	if known != nil && known.CreatedAt == 0 && s.opts.Foreign != Adopt {
		known = nil // what is remembered must not refuse a write
	}
	var lowers driver.Instant // the claim to do so
	plan := func(found *driver.Meta) (life driver.Life, err error) {
		now := s.clock.Now()
		if lowers != 0 {
			s.touches.lowered(key, lowers, ErrConflict) // it was planned before, and has not landed
		}
		switch lowers = 0; {
		case found == nil || !l.rules.alive(found.Life, driver.Floor(now)):
			return l.rules.fresh(now), nil
		case found.CreatedAt == 0 && s.opts.Foreign != Adopt:
			return driver.Life{}, ErrForeign
		}
		life, lowers = s.rewritten(key, &l.rules, found.Life, now, known != nil && *found == *known)
		return life, nil
	}
	now, over := s.clock.Now(), known
	var conflict *driver.ConflictError       // with what only the plan can judge
	decided := known == nil && s.over != nil // by the driver
	if decided {
		l.meta, err = s.over.Overwrite(ctx, key, v, l.rules.fresh(now), l.rules.overwrite(now), driver.Floor(now))
		if errors.As(err, &conflict) {
			over, decided = &conflict.Found, false
		}
	}
	if !decided {
		l.meta, err = driver.Upsert(ctx, s.d, key, v, over, plan, driver.Floor(now))
	}
	if lowers != 0 {
		s.touches.lowered(key, lowers, err)
	}
	if err != nil {
		s.memo.forget(key)
		return Entry[T]{}, wrap(ctx, opUpsert, err)
	}
	s.wrote(ctx, key, &l, lowers != 0)
	return l.entry(nil)
}

// rewritten is the life that a write of the value at now gives the live record l:
// its expiry moves forward, or where it is read, and lies beyond the policy, down.
func (s *Store[T]) rewritten(key string, r *rules, l driver.Life, now time.Time, read bool) (life driver.Life, lowers driver.Instant) {
	if read {
		life, lowers = s.touches.lower(r, key, l, driver.Ceil(now))
	}
	if lowers == 0 {
		life = r.rewritten(l, now)
	}
	return life, lowers
}

// wrote remembers a write of the value that lowered the expiry or not. If that lies
// beyond the policy still, because only the write told what it was, it comes down now.
func (s *Store[T]) wrote(ctx context.Context, key string, l *look[T], lowered bool) {
	s.memo.wrote(key, l.meta, l.since)
	now := driver.Ceil(s.clock.Now())
	if lowered || !s.touches.tight(&l.rules, key, l.meta.Life, now) {
		return
	}
	l.since = s.memo.now()
	var a access
	if s.due(key, l, driver.Life{}, &a) {
		if o := s.touches.wait(ctx, &a); o.err == nil {
			l.follow(o)
		}
	}
}

// Delete removes the record under key. An absent key is no error. A touch that is
// under way does not bring it back.
func (s *Store[T]) Delete(ctx context.Context, key string) error {
	if err := s.begin(ctx, opDelete, key); err != nil {
		return err
	}
	defer s.gate.leave()
	s.memo.forget(key)
	return wrap(ctx, opDelete, s.d.Delete(ctx, key))
}

// DeleteEntry removes the record that was read as e, if it is still the same value
// in the same life. ErrNotFound: it is gone or dead. ErrConflict: another value was
// written; on a store whose versions change with a touch, a touch does that too.
func (s *Store[T]) DeleteEntry(ctx context.Context, key string, e Entry[T]) error {
	if err := s.begin(ctx, opDelete, key); err != nil {
		return err
	}
	defer s.gate.leave()
	s.memo.forget(key)
	_, err := follow(e.Meta, func(was driver.Meta) (driver.Meta, error) {
		return was, driver.Remove(ctx, s.d, key, was, driver.Floor(s.clock.Now()))
	})
	return wrap(ctx, opDelete, err)
}

// follow makes a write on condition that the record is was, and again where only a
// touch was in the way.
func follow(was driver.Meta, write func(was driver.Meta) (driver.Meta, error)) (driver.Meta, error) {
	for {
		m, err := write(was)
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) || conflict.Found.Version != was.Version ||
			conflict.Found.CreatedAt != was.CreatedAt || conflict.Found == was {
			return m, err
		}
		was = conflict.Found
	}
}
