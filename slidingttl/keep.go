package slidingttl

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Keep is an access to the record under key whose value was read by other means, or
// not at all: it touches the record if that is due, waiting as the TouchMode says.
// What the store last said of a key is remembered, so an access that is not due
// mostly costs no trip; in Background mode one that may be due costs a read.
// ErrNotFound: absent or dead. A touch that failed is reported as after a Get.
func (s *Store[T]) Keep(ctx context.Context, key string) error { return s.keep(ctx, key, 0) }

// keep is the access behind a value that was read by other means: it has the
// record under key touched if that is due, and fails only if the record is dead or
// as Options.Strict says.
func (s *Store[T]) keep(ctx context.Context, key string, created driver.Instant) error {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return err
	}
	if m := s.memo.known(key); m != nil && s.opts.PolicyOf == nil {
		now := s.clock.Now()
		if s.rules.alive(m.Life, driver.Floor(now)) && !s.rules.due(m.Life, driver.Ceil(now)) {
			s.stats.add(cHits)
			return nil
		}
	}
	a, due, err := s.readForTouch(ctx, key, created)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrForeign) && s.opts.Foreign == Reject:
		return err
	case errors.Is(err, ErrForeign):
		return nil
	case err != nil:
		s.stats.add(cTouchFails)
		s.touches.report(ctx, key, err)
		if s.opts.Strict {
			return err
		}
		return nil
	case !due:
		return nil
	}
	return wrap(ctx, opTouch, s.settle(ctx, a, nil))
}

// settle brings about or queues the touch a, as the mode says, and sets m, if it
// is not nil, to what is then known to be stored. The error is for the caller only
// if Options.Strict asks for it.
func (s *Store[T]) settle(ctx context.Context, a access, m *driver.Meta) error {
	if s.opts.Touches == Background && !s.touches.local && s.touches.push(ctx, a) {
		return nil
	}
	now, err := s.touches.wait(ctx, a)
	switch {
	case err == nil:
		if m != nil {
			*m = now
		}
	case s.opts.Strict && err != errLost:
		return err
	}
	return nil
}

// lastKnown returns what is stored under key, as remembered or else as read: the
// zero Meta if there is no live record.
func (s *Store[T]) lastKnown(ctx context.Context, key string) (driver.Meta, error) {
	if err := s.begin(ctx, opPeek, key); err != nil {
		return driver.Meta{}, err
	}
	if m := s.memo.known(key); m != nil && s.rules.alive(m.Life, driver.Floor(s.clock.Now())) {
		return *m, nil
	}
	var l look[T]
	err := s.read(ctx, opPeek, key, &l)
	if errors.Is(err, ErrNotFound) {
		return driver.Meta{}, nil
	}
	return l.meta, err
}
