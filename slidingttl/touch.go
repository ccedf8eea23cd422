package slidingttl

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Touch moves the expiry of the record under key, if that is due. It waits for the
// touch in either mode, and returns until when the record lives if nobody accesses
// it again. ErrNotFound: absent, dead, or gone before the touch.
func (s *Store[T]) Touch(ctx context.Context, key string) (time.Time, error) {
	l, err := s.touchKey(ctx, key, driver.Life{}, false)
	return l.ExpiresAt.Time(), err
}

// Keep is an access to the record under key whose value was read by other means, or
// not at all: it touches the record if that is due, waiting as the TouchMode says.
// What the store last said of a key is remembered, so an access that is not due
// mostly costs no trip; with Options.PolicyOf, and in Background mode where it may be
// due, it costs a read. ErrNotFound: absent or dead. A touch that failed is reported
// as after a Get.
func (s *Store[T]) Keep(ctx context.Context, key string) error { return s.keep(ctx, key, 0) }

// TouchEntry is the access behind a Peek, for callers who must look at a value
// before they let it count: it touches the record that was read as e, if that is
// due, and returns it as Entry would. A record that died or was replaced since is
// left alone, and e returned as it is.
func (s *Store[T]) TouchEntry(ctx context.Context, key string, e Entry[T]) (Entry[T], error) {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return Entry[T]{}, err
	}
	defer s.gate.leave()
	l := look[T]{value: &e.Value, meta: e.Meta, since: s.memo.now()}
	var err error
	if l.rules, err = s.rulesOf(key, &e.Value); err != nil {
		return Entry[T]{}, wrap(ctx, opTouch, err)
	}
	if e.CreatedAt == 0 && s.opts.Foreign != Adopt {
		return e, nil
	}
	return l.entry(s.touchRead(ctx, opTouch, key, &l))
}

// touchRead has the record touched that was read, if that is due, waiting for it as
// Options say, and keeps in l what is then stored.
func (s *Store[T]) touchRead(ctx context.Context, op, key string, l *look[T]) error {
	var a access
	if !s.due(key, l, driver.Life{}, &a) {
		return nil
	}
	o := s.touches.bring(ctx, &a, l.late)
	if o.err == nil {
		l.follow(o)
	} else if s.opts.Strict && broke(o.err) {
		return wrap(ctx, op, o.err)
	}
	return nil
}

// broke reports whether a touch that ended with err broke a promise: a record that
// is gone needs none, and one that is locked gets its touch later.
func broke(err error) bool {
	return err != nil && err != errLost && !errors.Is(err, ErrLocked)
}

// due reports whether a touch of the record that was read is due, and tells a what
// that needs to know. before is the life that the record goes on with, zero if it has
// none but its own.
func (s *Store[T]) due(key string, l *look[T], before driver.Life, a *access) bool {
	now := s.clock.Now()
	at := driver.Ceil(now)
	by := s.by(&l.rules, key, l.meta.Life, at)
	if !l.rules.due(l.meta.Life, by) && !l.rules.wiped(l.meta.Life, before, at) && !s.touches.tight(&l.rules, key, l.meta.Life, at) {
		return false
	}
	s.stats.add(cDue)
	*a = access{key: key, was: l.meta, before: before, rules: l.rules, at: at, by: by, created: birth(now), since: l.since}
	return true
}

// by is the instant from which it counts whether life l of the record under key needs
// a touch for an access at at: later than that by the store's share of the slack.
func (s *Store[T]) by(r *rules, key string, l driver.Life, at driver.Instant) driver.Instant {
	if r.share == 0 || l.CreatedAt == 0 || r.due(l, at) || !r.due(l, after(at, r.share)) {
		return at
	}
	return after(at, s.touches.jitter.of(key, l.ExpiresAt, r.stored-r.keep))
}

// keep is Keep. created, unless zero, becomes the created_at of a record that
// carries none.
func (s *Store[T]) keep(ctx context.Context, key string, created driver.Instant) error {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return err
	}
	defer s.gate.leave()
	if m := s.memo.known(key); m != nil && s.opts.PolicyOf == nil {
		r, err := s.rulesOf(key, nil)
		at := driver.Ceil(s.clock.Now())
		_, beyond := r.lowered(m.Life, at)
		if err == nil && r.alive(m.Life, at) && !beyond && !r.due(m.Life, s.by(&r, key, m.Life, at)) {
			s.stats.add(cHits)
			return nil
		}
	}
	var l look[T]
	err := s.readToKeep(ctx, opTouch, key, &l, false)
	if err == nil {
		err = s.touchable(ctx, &l, created)
	}
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrForeign) && s.opts.Foreign == Reject:
		return err
	case errors.Is(err, ErrForeign):
		return nil
	case err != nil:
		s.stats.add(cDue) // for all that is known
		s.touches.fail(ctx, &access{key: key}, err)
		if s.opts.Strict {
			return err
		}
		return nil
	}
	var a access
	if s.due(key, &l, driver.Life{CreatedAt: created}, &a) {
		if o := s.touches.bring(ctx, &a, l.late); s.opts.Strict && broke(o.err) {
			return wrap(ctx, opTouch, o.err)
		}
	}
	return nil
}

// touchKeyAttempts bounds how often a touch by key follows a record that was
// deleted and created anew under it.
const touchKeyAttempts = 3

// touchKey touches the record under key and returns its life, the expiry no later
// than the cap. written says that it was written just now by other means, so that a
// stale read would mislead; was, unless zero, is the life that it had before. If it has
// none now it goes on with that.
func (s *Store[T]) touchKey(ctx context.Context, key string, was driver.Life, written bool) (driver.Life, error) {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return driver.Life{}, err
	}
	defer s.gate.leave()
	err := errLost
	for i := 0; err == errLost && i < touchKeyAttempts; i++ {
		var l look[T]
		if i == 0 && !written {
			err = s.readToKeep(ctx, opTouch, key, &l, true)
		} else {
			err = s.readFrom(ctx, s.fresh, opTouch, key, &l)
		}
		if err == nil {
			err = s.touchable(ctx, &l, was.CreatedAt)
		}
		if err != nil {
			return driver.Life{}, err
		}
		o := outcome{meta: l.meta, cap: l.rules.limit(l.meta.CreatedAt)}
		var a access
		if s.due(key, &l, was, &a) {
			o = s.touches.wait(ctx, &a)
		}
		if err = o.err; err == nil {
			o.meta.ExpiresAt = min(o.meta.ExpiresAt, o.cap)
			return o.meta.Life, nil
		}
	}
	if err == errLost {
		err = ErrNotFound
	}
	return driver.Life{}, wrap(ctx, opTouch, err)
}

// touchable says why a touch may not write to the record that was read.
func (s *Store[T]) touchable(ctx context.Context, l *look[T], created driver.Instant) error {
	if l.meta.CreatedAt != 0 {
		return nil
	}
	if s.opts.Foreign != Adopt {
		return wrap(ctx, opTouch, ErrForeign)
	}
	if created != 0 && l.rules.limit(created) <= driver.Floor(s.clock.Now()) {
		return wrap(ctx, opTouch, ErrNotFound)
	}
	return nil
}

// again reads the record under key once more for a touch of its generation was,
// and returns it with the rules it is then under.
func (s *Store[T]) again(ctx context.Context, key string, was driver.Instant) (driver.Meta, rules, error) {
	var l look[T]
	err := s.load(ctx, s.fresh, key, &l)
	if err == nil {
		l.rules, err = s.rulesOf(key, l.value)
	}
	if err == nil && was != 0 && l.meta.CreatedAt != was {
		err = errLost
	}
	return l.meta, l.rules, err
}
