package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// Upsert writes v under key, over any record.
//
// Over a live record it keeps created_at and counts as an access; over a dead one or none it starts
// a new life. The expiry only moves forward, unless it lies beyond what v's policy allows: see
// [Store.SetPolicy]. ErrConflict: too many others wrote the record meanwhile.
func (s *Store[T]) Upsert(ctx context.Context, key string, v T) error {
	_, err := s.UpsertEntry(ctx, key, v)
	return err
}

// UpsertEntry is Upsert, and returns the record as written.
func (s *Store[T]) UpsertEntry(ctx context.Context, key string, v T) (Entry[T], error) {
	r := readResult[T]{value: &v}
	err := s.callKey(ctx, opUpsert, key, func() (err error) {
		r.meta, err = s.upsert(ctx, key, v)
		return err
	})
	return r.entry(err)
}

func (s *Store[T]) upsert(ctx context.Context, key string, v T) (m driver.Meta, err error) {
	if driver.MayUndo(ctx) { // what it writes is not to be remembered
		defer s.memo.Deleting(key)()
	}
	since := s.memo.Clock()
	r, err := s.rulesOf(key, &v)
	if err != nil {
		return m, err
	}
	if err := s.mayWrite(ctx); err != nil {
		return m, err
	}
	known, now := s.known(key), s.clock.Now()
	claim := s.touches.Lower(r, key, known, driver.Ceil(now))
	plan := func(found *driver.Meta) (driver.Life, error) {
		if err := s.touches.Closed(); err != nil {
			return driver.Life{}, err
		}
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
		return rewritten(r, found.Life, now, claim != 0 && *found == *known), nil
	}
	if claim == 0 {
		m, err = s.write(ctx, key, v, r, known, plan, now)
	} else {
		lowers := false
		m, err = s.write(ctx, key, v, r, known, func(found *driver.Meta) (life driver.Life, err error) {
			if found != nil && *found != *known { // it lowers nothing, and the next access may
				s.touches.Lowered(key, claim, false, nil)
				claim = 0
			}
			life, err = plan(found)
			lowers = found != nil && isLower(life, found.Life)
			return life, err
		}, now)
		s.touches.Lowered(key, claim, lowers && !driver.MayUndo(ctx), err)
	}
	if err != nil {
		s.memo.Forget(key)
		return m, err
	}
	return s.wrote(ctx, key, m, r, since), nil
}

// known returns key's remembered record, unless that would refuse a write.
func (s *Store[T]) known(key string) *driver.Meta {
	if m := s.memo.Known(key); m != nil && (m.CreatedAt != 0 || s.opts.Foreign == Adopt) {
		return m
	}
	return nil
}

// write makes the driver write v at now with the life that plan returns.
func (s *Store[T]) write(ctx context.Context, key string, v T, r *policy.Rules, known *driver.Meta, plan driver.Plan, now time.Time) (driver.Meta, error) {
	landed := func(error) {}
	if s.local == nil {
		ctx = s.countReplaced(ctx, r)
		plan, landed = reportReplaced(ctx, plan)
	}
	if known == nil && s.overwriter != nil { // the server decides
		m, err := s.overwriter.Overwrite(ctx, key, v, r.New(now), r.Overwrite(now), driver.Floor(now))
		for attempt := 1; driver.PlanAgain(err) && attempt < writeAttempts; attempt++ {
			if err = s.touches.Closed(); err != nil {
				return m, err
			}
			now = s.clock.Now()
			m, err = s.overwriter.Overwrite(ctx, key, v, r.New(now), r.Overwrite(now), driver.Floor(now))
		}
		conflict, ok := errors.AsType[*driver.ConflictError](err)
		if !ok {
			return m, err
		}
		known = &conflict.Found // only the plan can judge it
	}
	var m driver.Meta
	var err error
	if s.upserter != nil {
		m, err = s.upserter.Upsert(ctx, key, v, known, plan, driver.Floor(now))
	} else {
		m, err = driver.Upsert(ctx, s.driver, key, v, known, plan, driver.Floor(now))
	}
	landed(err)
	return m, err
}

// rewritten returns the life of the live record l after a write of its value at now. The expiry
// moves forward, or is lowered if that is allowed and it lies beyond the policy.
func rewritten(r *policy.Rules, l driver.Life, now time.Time, mayLower bool) driver.Life {
	if mayLower {
		if life, beyond := r.Lowered(l, driver.Ceil(now)); beyond {
			return life
		}
	}
	return r.Rewritten(l, now)
}

// isLower reports whether life, written over was, lowers the expiry.
func isLower(life, was driver.Life) bool {
	return life.CreatedAt == was.CreatedAt && life.ExpiresAt < was.ExpiresAt
}

// wrote remembers m, a write of the value, and returns what is stored. If only the write's answer
// showed an expiry beyond the policy, it lowers that now.
func (s *Store[T]) wrote(ctx context.Context, key string, m driver.Meta, r *policy.Rules, since uint64) driver.Meta {
	s.memo.Wrote(key, m, since)
	now, _ := s.clock.Bounds()
	if _, beyond := r.Lowered(m.Life, now); !beyond {
		return m
	}
	after := readResult[T]{op: opUpsert, meta: m, rules: r, since: s.memo.Clock(), urgent: true}
	_, _ = s.touchIfDue(ctx, key, &after)
	return after.meta
}
