package drivertest

import (
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// apartBy is the difference between a process's and its store's clock. It exceeds the records' idle
// grace.
const apartBy = 10 * time.Minute

var apartPolicies = map[string]slidingttl.Policy{
	"exact":   {IdleGrace: 5 * time.Minute, MaxLifetime: 2 * time.Hour},
	"slack":   {IdleGrace: 5 * time.Minute, MaxLifetime: 2 * time.Hour, Slack: time.Minute},
	"promote": {IdleGrace: 5 * time.Minute, MaxLifetime: 20 * time.Minute, Promote: true},
}

// eachApart calls f for each policy, once with the store's clock ahead and once behind, with a
// driver that has not learned the difference. Then it corrects the clock and calls again, after
// which the driver must have learned the correction.
func (t *trial) eachApart(f func(when string, s *slidingttl.Store[Value], p slidingttl.Policy, key string), again func(s *slidingttl.Store[Value]) error) {
	defer t.b.Apart(0)
	for name, p := range apartPolicies {
		for _, by := range []time.Duration{apartBy, -apartBy} {
			t.b.Apart(by)
			when := fmt.Sprintf("with the store's clock %v ahead, %s", by, name)
			d := t.b.Again()
			s, err := slidingttl.New(d, p, &slidingttl.Options[Value]{TouchWait: touchWait})
			t.ok("slidingttl.New", err)
			f(when, s, p, t.key(when))
			t.b.Apart(0)
			when += ", put right"
			t.agrees(when, d, func() error { return again(s) })
			key := t.key(when)
			t.upsert(s, key, 1)
			t.reads(when, s, key, 1)
			if err := s.Close(t.ctx); err != nil {
				t.Errorf("%s: Close: %v", when, err)
			}
		}
	}
}

// agrees wants the driver's clock to agree with the store's after a minute of calls. Records that
// these write may be dead at once: a driver asks for the time only now and then.
func (t *trial) agrees(when string, d driver.Driver[Value], call func() error) {
	clock, ok := driver.As[driver.Clock](d)
	if !ok {
		t.Fatalf("a driver of Backend.Again is no driver.Clock")
	}
	off := func() time.Duration { return clock.Now().Sub(t.backendNow()).Abs() }
	for start := time.Now(); off() >= t.skew(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("%s: a minute later the driver's clock is %v off", when, off())
		}
		t.ok(when, call())
	}
}

// skew is the tolerance for a clock that a driver has learned.
func (t *trial) skew() time.Duration { return time.Second + t.step }

// lasts wants the record under key to have been accessed at the store's time, between since
// and now.
func (t *trial) lasts(when, key string, p slidingttl.Policy, since time.Time) {
	e, err := t.d.Get(t.ctx, key)
	if err != nil {
		t.Errorf("%s: Driver.Get: %v", when, err)
		return
	}
	promoted := p.Promote
	p.Promote = false // which begins with a touch
	least := p.Deadline(e.CreatedAt, driver.Floor(since.Add(-t.skew())))
	most := p.Deadline(e.CreatedAt, driver.Ceil(t.backendNow().Add(p.Slack+t.skew())))
	if promoted {
		most = p.Cap(e.CreatedAt)
	}
	if e.ExpiresAt < least || e.ExpiresAt > most.Add(t.step) {
		t.Errorf("%s: the record has %s, by a store whose time is %v", when, describe(e.Life), t.backendNow().UTC())
	}
	if born := e.CreatedAt.Time(); born.Before(since.Add(-t.skew())) || born.After(t.backendNow().Add(t.skew())) {
		t.Errorf("%s: created_at is %v, by a store whose time is %v", when, born, since.UTC())
	}
}

var apartCases = []testCase{{
	name:        "apart/reads",
	explanation: "Promises 3 and 7: a process whose clock is off finds each record that is alive by the store's clock, from its first read, and its touches neither shorten that life nor have it swept.",
	needs:       []Feature{Apart, Clock},
	run: func(t *trial) {
		t.eachApart(func(when string, s *slidingttl.Store[Value], p slidingttl.Policy, key string) {
			since := t.backendNow()
			now := driver.Floor(since)
			_, err := t.d.Insert(t.ctx, key, value(1), driver.Life{CreatedAt: now, ExpiresAt: t.at(p.Deadline(now, now))}, now)
			t.ok(when+": Insert", err)
			for range 3 {
				t.reads(when, s, key, 1)
				t.swept()
			}
			t.lasts(when, key, p, since)
			t.reads(when+", after a sweep", s, key, 1)
		}, func(s *slidingttl.Store[Value]) error {
			if _, err := s.Get(t.ctx, t.key("never")); !errors.Is(err, slidingttl.ErrNotFound) {
				return fmt.Errorf("a Get of an absent key: %w", err)
			}
			return nil
		})
	},
}, {
	name:        "apart/writes",
	explanation: "Promise 5: a write first learns the store's time. By a clock that is behind it would write records that are already dead and swept at once; by one that is ahead, records that outlive their deadline.",
	needs:       []Feature{Apart, Clock},
	run: func(t *trial) {
		t.eachApart(func(when string, s *slidingttl.Store[Value], p slidingttl.Policy, key string) {
			since := t.backendNow()
			t.ok(when+": Insert", s.Insert(t.ctx, key, value(1)))
			t.swept()
			t.lasts(when+", after Insert", key, p, since)
			t.upsert(s, key, 2)
			t.upsert(s, key+" new", 2)
			t.swept()
			t.lasts(when+", after Upsert", key, p, since)
			t.lasts(when+", after Upsert of a new key", key+" new", p, since)
			_, err := s.Update(t.ctx, key, func(Value) (Value, error) { return value(3), nil })
			t.ok(when+": Update", err)
			t.swept()
			t.lasts(when+", after Update", key, p, since)
			t.reads(when, s, key, 3)
		}, func(s *slidingttl.Store[Value]) error {
			return s.Upsert(t.ctx, t.key("again"), value(1))
		})
	},
}, {
	name:        "apart/checked",
	explanation: "If the driver cannot learn the store's time, the clocks must agree, and Check must report that they do not. Otherwise records die early or late without a sign.",
	needs:       []Feature{Apart, Checker},
	run: func(t *trial) {
		if has[driver.Clock](t.b) {
			return // its clock is the store's
		}
		defer t.b.Apart(0)
		for _, by := range []time.Duration{apartBy, -apartBy} {
			t.b.Apart(by)
			c, ok := driver.As[driver.Checker](t.b.Again())
			if !ok {
				t.Fatalf("a driver of Backend.Again is no driver.Checker")
			}
			if err := c.Check(t.ctx, day); err == nil {
				t.Errorf("Check says nothing while the store's clock is %v ahead", by)
			}
		}
	},
}}
