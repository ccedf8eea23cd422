package drivertest

import (
	"context"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The policies of most cases above the driver.
var (
	exact   = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour}
	slack   = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour, Slack: 3 * time.Minute}
	long    = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}
	promote = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 2 * time.Hour, Promote: true}
)

// touchWait is long enough for a read's touch on any machine.
const touchWait = time.Hour

// open returns a store over d, with the caller's clock or opts.Now, whose reads wait for their
// touches. It is closed when the case ends; Close must then return no error.
func (t *trial) open(d driver.Driver[Value], p slidingttl.Policy, opts slidingttl.Options[Value]) *slidingttl.Store[Value] {
	if opts.Now == nil {
		opts.Now = t.clock.Now
	}
	if opts.TouchWait == 0 {
		opts.TouchWait = touchWait
	}
	s, err := slidingttl.New(d, p, &opts)
	t.ok("slidingttl.New", err)
	t.cleanup(func() {
		if err := s.Close(context.WithoutCancel(t.ctx)); err != nil {
			t.Errorf("Close of a store: %v", err)
		}
	})
	return s
}

func (t *trial) store(p slidingttl.Policy) *slidingttl.Store[Value] {
	return t.open(t.d, p, slidingttl.Options[Value]{})
}

// upsert writes value(n) through s.
func (t *trial) upsert(s *slidingttl.Store[Value], key string, n int) {
	t.ok("Store.Upsert", s.Upsert(t.ctx, key, value(n)))
}

// reads wants s.Get to return value(n).
func (t *trial) reads(when string, s *slidingttl.Store[Value], key string, n int) {
	v, err := s.Get(t.ctx, key)
	if err != nil {
		t.Errorf("%s: Store.Get: %v", when, err)
	} else if !v.equal(value(n)) {
		t.Errorf("%s: Store.Get returns %s; want %s", when, spell(v), spell(value(n)))
	}
}

// has wants the record under key to be stored with that life, the expiry rounded up.
func (t *trial) has(when, key string, created, expiry driver.Instant) {
	want := driver.Life{CreatedAt: created, ExpiresAt: t.at(expiry)}
	e, err := t.d.Get(t.ctx, key)
	if err != nil {
		t.Errorf("%s: Driver.Get: %v", when, err)
	} else if e.Life != want {
		t.Errorf("%s: stored is %s; want %s", when, describe(e.Life), describe(want))
	}
}

// dead wants each call of s that creates no record to find none alive under key.
func (t *trial) dead(when string, s *slidingttl.Store[Value], key string) {
	_, get := s.Get(t.ctx, key)
	_, peek := s.Peek(t.ctx, key)
	_, entry := s.Entry(t.ctx, key)
	_, touch := s.Touch(t.ctx, key)
	_, update := s.Update(t.ctx, key, func(v Value) (Value, error) { return v, nil })
	for call, err := range map[string]error{"Get": get, "Peek": peek, "Entry": entry, "Touch": touch, "Update": update} {
		if !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("%s: Store.%s: the error is %v; want %v", when, call, err, slidingttl.ErrNotFound)
		}
	}
	if found, err := s.GetMulti(t.ctx, []string{key}); err != nil || len(found) != 0 {
		t.Errorf("%s: Store.GetMulti returns %d records and the error %v; want none", when, len(found), err)
	}
	if found, err := s.PeekMulti(t.ctx, []string{key}); err != nil || len(found) != 0 {
		t.Errorf("%s: Store.PeekMulti returns %d records and the error %v; want none", when, len(found), err)
	}
}
