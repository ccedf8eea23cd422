package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
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
	w := s.rewrite(key, r, known, now)
	defer w.release()
	m, err = s.write(ctx, key, v, r, known, func(found *driver.Meta) (driver.Life, error) {
		w.meets(found)
		if err := s.touches.Closed(); err != nil {
			return driver.Life{}, err
		}
		now := now
		if s.local == nil || found != nil { // there may have been trips since
			now = s.clock.Now()
		}
		w.planned = driver.Floor(now)
		switch {
		case found == nil || !r.Alive(found.Life, driver.Floor(now)):
			return r.New(now), nil
		case found.CreatedAt == 0 && s.opts.Foreign != Adopt:
			return driver.Life{}, ErrForeign
		}
		return w.over(found.Life, now), nil
	}, now)
	return w.ended(ctx, m, err, since)
}

// known returns key's remembered record, unless that would refuse a write.
func (s *Store[T]) known(key string) *driver.Meta {
	if m := s.memo.Known(key); m != nil && (m.CreatedAt != 0 || s.opts.Foreign == Adopt) {
		return m
	}
	return nil
}

// write makes the driver write v at now with the life that plan returns.
func (s *Store[T]) write(ctx context.Context, key string, v T, r *rules.Rules, known *driver.Meta, plan driver.Plan, now time.Time) (driver.Meta, error) {
	landed := func(error) {}
	if s.local == nil {
		ctx = s.countReplaced(ctx, r)
		plan, landed = reportReplaced(ctx, plan)
	}
	var m driver.Meta
	var err error
	if known == nil && s.overwriter != nil { // the server decides
		err = s.planAgain(func(now time.Time) error {
			m, err = s.overwriter.Overwrite(ctx, key, v, r.New(now), r.Overwrite(now), driver.Floor(now))
			return err
		})
		conflict, ok := errors.AsType[*driver.ConflictError](err)
		if !ok {
			return m, err
		}
		known = &conflict.Found // only the plan can judge it
	}
	if s.upserter != nil {
		m, err = s.upserter.Upsert(ctx, key, v, known, plan, driver.Floor(now))
	} else {
		m, err = driver.Upsert(ctx, s.driver, key, v, known, plan, driver.Floor(now))
	}
	landed(err)
	return m, err
}

// rewrite is a write of a value over a live record. If the expiry that its caller knows lies beyond the
// policy, it may lower that one.
type rewrite[T any] struct {
	s       *Store[T]
	key     string
	rules   *rules.Rules
	known   *driver.Meta
	claim   driver.Instant // to lower known's expiry; zero: none
	lowers  bool           // so the last plan does
	planned driver.Instant // when the last plan was made
}

func (s *Store[T]) rewrite(key string, r *rules.Rules, known *driver.Meta, now time.Time) rewrite[T] {
	return rewrite[T]{s: s, key: key, rules: r, known: known, planned: driver.Floor(now), claim: s.touches.Lower(r, key, known, driver.Ceil(now))}
}

// meets begins a plan over found, nil for none.
func (w *rewrite[T]) meets(found *driver.Meta) {
	if w.lowers = false; w.claim != 0 && found != nil && *found != *w.known { // it lowers nothing, and the next access may
		w.release()
	}
}

// release ends the claim of a write that lowers nothing.
func (w *rewrite[T]) release() {
	w.s.touches.Lowered(w.key, w.claim, false, nil)
	w.claim = 0
}

// over plans the life that the write gives the record l at now.
func (w *rewrite[T]) over(l driver.Life, now time.Time) (life driver.Life) {
	if w.claim != 0 {
		life, w.lowers = w.rules.Lowered(l, driver.Ceil(now))
	}
	if !w.lowers {
		life = w.rules.Rewritten(l, now)
	}
	return life
}

// ended remembers m, which the write stored unless err is set, and returns what is then stored. If only
// the answer showed an expiry beyond the policy, that is lowered now.
func (w *rewrite[T]) ended(ctx context.Context, m driver.Meta, err error, since uint64) (driver.Meta, error) {
	s := w.s
	if err != nil {
		s.memo.Forget(w.key)
	} else {
		s.memo.Wrote(w.key, m, since, w.planned, w.lowers)
	}
	s.touches.Lowered(w.key, w.claim, w.lowers && !driver.MayUndo(ctx), err)
	if w.claim = 0; err != nil {
		return m, err
	}
	now, latest := s.clock.Bounds()
	_, beyond := w.rules.Lowered(m.Life, now)
	if s.touches.Seen(m.CreatedAt, latest); !beyond {
		return m, nil
	}
	after := readResult[T]{op: opUpsert, meta: m, rules: w.rules, since: s.memo.Clock(), urgent: true}
	_, _ = s.touchIfDue(ctx, w.key, &after)
	return after.meta, nil
}
