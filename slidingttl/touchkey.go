package slidingttl

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Touch moves the expiry of the record under key, if that is due, without reading
// its value where the driver can. It waits for the touch in either mode, and
// returns until when the record lives if nobody accesses it again. ErrNotFound:
// absent, dead, or gone before the touch.
func (s *Store[T]) Touch(ctx context.Context, key string) (time.Time, error) {
	l, err := s.touchKey(ctx, key, 0)
	return l.ExpiresAt.Time(), err
}

// keyTouchAttempts bounds how often a touch by key follows a record that was
// deleted and created anew under it.
const keyTouchAttempts = 3

// touchKey touches the record under key and returns its life, the expiry no later
// than the cap. created, unless zero, becomes the created_at of a record that
// carries none.
func (s *Store[T]) touchKey(ctx context.Context, key string, created driver.Instant) (driver.Life, error) {
	if err := s.begin(ctx, opTouch, key); err != nil {
		return driver.Life{}, err
	}
	err := errLost
	for i := 0; err == errLost && i < keyTouchAttempts; i++ {
		a, due, rerr := s.readForTouch(ctx, key, created)
		if rerr != nil {
			return driver.Life{}, rerr
		}
		m := a.was
		if err = nil; due {
			m, err = s.touches.wait(ctx, a)
		}
		if err == nil {
			m.ExpiresAt = min(m.ExpiresAt, a.rules.limit(m.CreatedAt))
			return m.Life, nil
		}
	}
	if err == errLost {
		err = ErrNotFound
	}
	return driver.Life{}, wrap(ctx, opTouch, err)
}

// readForTouch reads the record under key and returns the touch it needs, or false
// and the record as it was read.
func (s *Store[T]) readForTouch(ctx context.Context, key string, created driver.Instant) (access, bool, error) {
	var l look[T]
	if err := s.read(ctx, opTouch, key, &l); err != nil {
		return access{}, false, err
	}
	if l.meta.CreatedAt == 0 {
		if s.opts.Foreign != Adopt {
			return access{}, false, wrap(ctx, opTouch, ErrForeign)
		}
		if created != 0 && !l.rules.alive(driver.Life{CreatedAt: created}, driver.Floor(s.clock.Now())) {
			return access{}, false, wrap(ctx, opTouch, ErrNotFound)
		}
	}
	a, due := s.due(key, &l.meta, l.rules, l.since)
	if !due {
		return access{was: l.meta, rules: l.rules}, false, nil
	}
	if created != 0 {
		a.created = created
	}
	return a, true, nil
}
