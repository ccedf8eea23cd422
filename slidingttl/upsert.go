package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

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
	m, err := s.upsert(ctx, key, v)
	if err != nil {
		return Entry[T]{}, wrap(ctx, opUpsert, err)
	}
	return Entry[T]{Value: v, Meta: m}, nil
}

func (s *Store[T]) upsert(ctx context.Context, key string, v T) (m driver.Meta, err error) {
	since := s.memo.Clock()
	r, err := s.rulesOf(key, &v)
	if err != nil {
		return m, err
	}
	known := s.memo.Known(key)
	if known != nil && known.CreatedAt == 0 && s.opts.Foreign != Adopt {
		known = nil // what is remembered must not refuse a write
	}
	now, lowered := s.clock.Now(), false
	if known == nil {
		m, err = s.upsertUnknown(ctx, key, v, r, now)
	} else {
		m, lowered, err = s.upsertKnown(ctx, key, v, r, known, now)
	}
	if err != nil {
		s.memo.Forget(key)
		return m, err
	}
	return s.wrote(ctx, key, m, r, since, now, lowered), nil
}

// upsertUnknown is upsert at now. Nothing is remembered of the key.
func (s *Store[T]) upsertUnknown(ctx context.Context, key string, v T, r *policy.Rules, now time.Time) (m driver.Meta, err error) {
	var over *driver.Meta
	if s.overwriter != nil { // the driver decides
		m, err = s.overwriter.Overwrite(ctx, key, v, r.New(now), r.Overwrite(now), driver.Floor(now))
		conflict, ok := errors.AsType[*driver.ConflictError](err)
		if !ok {
			return m, err
		}
		over = &conflict.Found // what only the plan can judge
	}
	plan := func(found *driver.Meta) (driver.Life, error) {
		now := now
		if s.local == nil || found != nil { // there may have been trips since
			now = s.clock.Now()
		}
		switch {
		case found == nil || !r.Alive(found.Life, driver.Floor(now)):
			return r.New(now), nil
		case found.CreatedAt == 0 && s.opts.Foreign != Adopt:
			return driver.Life{}, ErrForeign
		}
		return r.Rewritten(found.Life, now), nil
	}
	if s.upserter != nil {
		return s.upserter.Upsert(ctx, key, v, over, plan, driver.Floor(now))
	}
	return driver.Upsert(ctx, s.driver, key, v, over, plan, driver.Floor(now))
}

// upsertKnown is upsert at now where known is remembered of key. It may bring the expiry
// down.
func (s *Store[T]) upsertKnown(ctx context.Context, key string, v T, r *policy.Rules, known *driver.Meta, now time.Time) (m driver.Meta, lowered bool, err error) {
	var claim driver.Instant
	plan := func(found *driver.Meta) (life driver.Life, err error) {
		now := s.clock.Now()
		if claim != 0 {
			s.touches.Lowered(key, claim, ErrConflict) // it was planned before, and has not landed
		}
		switch claim = 0; {
		case found == nil || !r.Alive(found.Life, driver.Floor(now)):
			return r.New(now), nil
		case found.CreatedAt == 0 && s.opts.Foreign != Adopt:
			return driver.Life{}, ErrForeign
		}
		life, claim = s.rewritten(key, r, found.Life, now, *found == *known)
		return life, nil
	}
	m, err = driver.Upsert(ctx, s.driver, key, v, known, plan, driver.Floor(now))
	if claim != 0 {
		s.touches.Lowered(key, claim, err)
	}
	return m, claim != 0, err
}

// rewritten is the life that a write of the value at now gives the live record l:
// its expiry moves forward, or where it is read, and lies beyond the policy, down.
func (s *Store[T]) rewritten(key string, r *policy.Rules, l driver.Life, now time.Time, read bool) (life driver.Life, claim driver.Instant) {
	if read {
		life, claim = s.touches.Lower(r, key, l, driver.Ceil(now))
	}
	if claim == 0 {
		life = r.Rewritten(l, now)
	}
	return life, claim
}

// wrote remembers m, a write of the value begun at began that lowered the expiry or not,
// and returns what is stored. If that lies beyond the policy still, because only the write
// told what it was, it comes down now.
func (s *Store[T]) wrote(ctx context.Context, key string, m driver.Meta, r *policy.Rules, since uint64, began time.Time, lowered bool) driver.Meta {
	s.memo.Wrote(key, m, since)
	// What was not beyond it then is not now, and most are not.
	if _, beyond := r.Lowered(m.Life, driver.Ceil(began)); lowered || !beyond ||
		!s.touches.Lowers(r, key, m.Life, driver.Ceil(s.clock.Now())) {
		return m
	}
	after := readResult[T]{meta: m, rules: r, since: s.memo.Clock(), urgent: true}
	_, _ = s.touchIfDue(ctx, opUpsert, key, &after, driver.Life{}, nil)
	return after.meta
}
