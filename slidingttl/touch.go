package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// Touch touches the record under key if that is due, and returns when it would die.
//
// That is its expiry, or its cap if that is earlier. Touch waits for the touch in either
// mode. ErrNotFound: absent, dead, or gone before the touch.
func (s *Store[T]) Touch(ctx context.Context, key string) (dies time.Time, err error) {
	err = s.callKey(ctx, opTouch, key, func() error {
		l, err := s.touchKey(ctx, key, nil, false)
		dies = l.ExpiresAt.Time()
		return err
	})
	return dies, err
}

// Keep is an access to the record under key, whose value was read by other means or not at all.
//
// It touches the record if that is due, and waits as the TouchMode says. If no touch is due, it
// mostly costs no trip, because the store remembers keys. With Options.PolicyOf, and in Background
// mode if a touch may be due, it costs a read, which lasts until ctx ends if the store hangs. ErrNotFound:
// absent or dead; of what another process deleted or retired, and perhaps made anew, it learns when the
// remembered expiry comes due, with Policy.Promote at the cap. A failed touch is reported as by Get. A life
// that cannot be read is an error only if the record is remembered, and past its cap.
func (s *Store[T]) Keep(ctx context.Context, key string) error {
	return s.callKey(ctx, opTouch, key, func() error { return s.keep(ctx, opTouch, key, 0, time.Time{}) })
}

// TouchEntry makes a Peek an access, for callers that must see a value before it counts.
//
// It touches the record that was read as e, if that is due, and returns it as Entry would.
// If the record died or was replaced since, it is not touched, and e is returned unchanged. With a Budget, an entry
// whose expiry has passed costs a read, for which the call waits as for a touch.
//
// What other processes have done since e was read TouchEntry learns only where a touch is due, and not if this store
// has touched the record since. An expiry that was beyond the policy when it was read or has come to be so since, as
// after SetPolicy, may have been lowered: read such an entry again.
func (s *Store[T]) TouchEntry(ctx context.Context, key string, e Entry[T]) (Entry[T], error) {
	r := readResult[T]{value: &e.Value, meta: e.Meta}
	err := s.callKey(ctx, opTouch, key, func() (err error) {
		if r.rules, err = s.rulesOf(key, r.value); err != nil || e.CreatedAt == 0 && s.opts.Foreign != Adopt {
			return err
		}
		if err = s.touchEntry(ctx, key, &r); errors.Is(err, ErrNotFound) {
			return nil
		}
		return err
	})
	return r.entry(err)
}

// touchEntry touches entry's record, which may have been touched since it was read, or lowered: the earlier of its expiry
// and the remembered one says whether that is due. By an unknown expiry a touch has no place among those that wait for
// the Budget.
func (s *Store[T]) touchEntry(ctx context.Context, key string, entry *readResult[T]) error {
	r := readResult[T]{op: opTouch, meta: entry.meta, rules: entry.rules, since: s.memo.Clock(), exact: true}
	created := r.meta.CreatedAt
	if created != 0 {
		switch m := s.memo.Known(key); {
		case m == nil:
			r.since = 0 // of the lowerings that this store has made, whichever may have been since
		case m.CreatedAt == created && m.ExpiresAt < r.meta.ExpiresAt && s.opts.PolicyOf == nil:
			r.meta = *m
		}
	}
	if s.opts.Budget > 0 && created != 0 && !r.rules.Alive(r.meta.Life, driver.Floor(s.clock.Now())) {
		within, cancel := context.WithTimeout(ctx, s.opts.TouchWait)
		defer cancel()
		var err error
		if r.meta, r.rules, err = s.readLatest(within, key); err != nil {
			if !errors.Is(err, ErrNotFound) { // as a touch that failed: the caller has the value
				s.touches.Fail(ctx, key, wrap(ctx, opTouch, err))
			}
			return nil
		}
		if r.meta.CreatedAt != created || !r.rules.Alive(r.meta.Life, driver.Floor(s.clock.Now())) {
			return nil
		}
	}
	asked := r.meta
	o, err := s.touchIfDue(ctx, key, &r)
	if o.Meta != asked { // else entry may be the later one
		entry.follow(&o)
	}
	return err
}

// touchIfDue touches the record that was read if that is due, and updates r. The error is for a
// read: the record is gone, or the store is Strict and the touch failed. In a transaction only what it
// saved is touched.
func (s *Store[T]) touchIfDue(ctx context.Context, key string, r *readResult[T]) (touches.Outcome, error) {
	var a touches.Access
	if driver.MayUndo(ctx) && !r.saved || !s.touches.Due(&a, s.clock.Now(), key, r.meta, r.rules, r.before, r.since) {
		return touches.Outcome{Meta: r.meta, Cap: r.rules.Cap(r.meta.CreatedAt)}, nil
	}
	s.stats.Add(tally.Due)
	if a.Exact, a.Saved = r.exact, r.saved; r.exact && r.meta.CreatedAt != 0 {
		a.Since = 0 // whatever touch has replaced what was read, its outcome is later
	}
	urgent, late := r.urgent || s.opts.Strict, r.late
	switch {
	case urgent:
		late = time.Time{}
	case late.IsZero() && s.local == nil:
		late = s.touches.Late()
	}
	o := s.touches.TouchOrQueue(ctx, &a, late, urgent)
	switch {
	case o.Err == nil:
		r.follow(&o)
	case r.urgent:
	case o.Err == touches.ErrGone:
		return o, ErrNotFound
	case o.Err == touches.ErrReplaced:
		if s.opts.Strict && o.Broke() && !r.exact {
			return o, ErrShed
		}
	case s.opts.Strict && o.Broke():
		return o, o.Err
	}
	return o, nil
}

// follow updates r by o, unless another writer may have replaced the value since.
func (r *readResult[T]) follow(o *touches.Outcome) {
	if o.Err == nil && (o.Replaced == r.meta || o.Meta.Version == r.meta.Version && o.Meta.CreatedAt == r.meta.CreatedAt) {
		r.meta = o.Meta
	}
}

// isPastCap reports whether a record of key with that created_at has reached its cap.
func (s *Store[T]) isPastCap(key string, created driver.Instant) bool {
	if created == 0 || s.opts.PolicyOf != nil {
		return false
	}
	r, err := s.rulesOf(key, nil)
	return err == nil && r.Cap(created) <= driver.Floor(s.clock.Now())
}

// keep is Keep. created, unless zero, becomes the created_at of a record without one. late, unless zero, is until when
// it waits for the touch.
func (s *Store[T]) keep(ctx context.Context, op, key string, created driver.Instant, late time.Time) error {
	since := s.memo.Clock()
	m, stored := s.memo.KnownAt(key)
	if m != nil && s.opts.PolicyOf == nil && !s.touches.Lowers(key, since) && s.keeps(key, m, stored) {
		s.stats.Add(tally.Hits)
		return nil
	}
	r := readResult[T]{op: op, before: driver.Life{CreatedAt: created}, late: late}
	err := s.readForAccess(ctx, key, &r, false)
	if err == nil {
		err = s.mayTouch(&r)
	}
	switch {
	case err == nil:
		_, err = s.touchIfDue(ctx, key, &r)
		return err
	case errors.Is(err, ErrForeign) && s.opts.Foreign != Reject:
		return nil
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrForeign), r.value != nil && r.rules == nil: // the policy function failed
		return err
	case op == opTouch && ctx.Err() != nil:
		return ctx.Err()
	}
	err = wrap(ctx, op, err)
	s.touches.Fail(ctx, key, err)
	if s.opts.Strict || s.isPastCap(key, created) || m != nil && s.isPastCap(key, m.CreatedAt) {
		return err
	}
	return nil
}

// keeps reports whether key's record, remembered as m since it was stored, keeps the promise of an access now.
func (s *Store[T]) keeps(key string, m *driver.Meta, stored driver.Instant) bool {
	r, err := s.rulesOf(key, nil)
	at := driver.Ceil(s.clock.Now())
	if err != nil || !r.Alive(m.Life, at) {
		return false
	}
	return r.Lasts(m.Life, min(stored, at)) && !r.Due(m.Life, s.touches.DueFrom(r, key, m.Life, at))
}

// touchKeyAttempts bounds the touches of one call whose record was replaced.
const touchKeyAttempts = 16

// touchKey touches the record under key and returns its life, whose expiry is at most the cap.
// written: it was just written by other means, so a stale read would mislead. was, unless nil, returns
// the life before that write, which continues if the record that is then read has none, or why not to touch it.
func (s *Store[T]) touchKey(ctx context.Context, key string, was func(r *readResult[T]) (driver.Life, error), written bool) (driver.Life, error) {
	saved, replaced := written, false
	for attempt := range touchKeyAttempts {
		r := readResult[T]{op: opTouch, urgent: true, saved: written}
		var err error
		if written || attempt > 0 {
			err = s.read(ctx, s.latest, key, &r)
		} else {
			err = s.readForAccess(ctx, key, &r, true)
		}
		if err == nil && was != nil {
			r.before, err = was(&r)
		}
		if err == nil {
			err = s.mayTouch(&r)
		}
		if err != nil {
			return driver.Life{}, err
		}
		if saved && attempt > 0 {
			return r.meta.Life, nil // another save's record, which has its own touch
		}
		r.saved = saved
		o, _ := s.touchIfDue(ctx, key, &r)
		switch o.Err {
		case nil:
			o.Meta.ExpiresAt = min(o.Meta.ExpiresAt, o.Cap)
			return o.Meta.Life, nil
		case touches.ErrGone, touches.ErrReplaced:
			if replaced = o.Err == touches.ErrReplaced; replaced && saved {
				return driver.Life{}, nil // another save has written over it, or a deletion and a save
			}
			was, written = nil, false // the next one is another record
		default:
			return driver.Life{}, o.Err
		}
	}
	if replaced {
		return driver.Life{}, ErrConflict
	}
	return driver.Life{}, ErrNotFound
}

// isPast reports whether a record of created would have reached its cap by clock, under the rules of what was read.
func (r *readResult[T]) isPast(created driver.Instant, clock driver.Clock) bool {
	return r.rules.Cap(created) <= driver.Floor(clock.Now())
}

// mayTouch says why a touch may not write to the record that was read.
func (s *Store[T]) mayTouch(r *readResult[T]) error {
	switch created := r.before.CreatedAt; {
	case r.meta.CreatedAt != 0:
	case s.opts.Foreign != Adopt && !r.saved:
		return ErrForeign
	case created != 0 && !r.saved && r.isPast(created, s.clock):
		return ErrNotFound
	}
	return nil
}

// writeLife is the driver's Touch. A panic in it, as of a client's hook, is an error: a touch runs on a goroutine of
// the store's.
func (s *Store[T]) writeLife(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = s.recovered(func() (err error) {
		version, err = s.driver.Touch(s.planned(ctx), key, was, life, now)
		return err
	})
	return version, err
}

// readForTouch reads the live record under key, with the rules that it is then under.
func (s *Store[T]) readForTouch(ctx context.Context, key string) (driver.Meta, *rules.Rules, error) {
	var r readResult[T]
	err := s.recovered(func() error { return s.readAlive(ctx, key, &r) }) // decoding may panic
	_, now := s.clock.Bounds()
	s.touches.Seen(r.meta.CreatedAt, now)
	if err == ErrForeign {
		err = nil // it is not the record that was accessed
	}
	return r.meta, r.rules, err
}

// readLatest reads the record under key, dead or alive, with the rules that it is under.
func (s *Store[T]) readLatest(ctx context.Context, key string) (driver.Meta, *rules.Rules, error) {
	var r readResult[T]
	err := s.load(ctx, s.latest, key, &r)
	if err == nil {
		r.rules, err = s.rulesOf(key, r.value)
	}
	return r.meta, r.rules, err
}
