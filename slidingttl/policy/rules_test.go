package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestSettled: settled is alive and not due, as far as those can be told without
// rounding.
func TestSettled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	some := func() driver.Instant { return driver.Instant(r.Int64N(40)) }
	yes := 0
	for range 200_000 {
		p := Policy{
			IdleGrace:   time.Duration(1+some()) * time.Millisecond,
			Slack:       time.Duration(some()) * time.Millisecond,
			MaxLifetime: time.Duration(1+some()) * time.Millisecond,
			Promote:     r.IntN(4) == 0,
		}
		step := time.Duration(1+r.IntN(3)) * time.Millisecond
		rules := NewRules(p, step, 0, false)
		l := driver.Life{CreatedAt: some(), ExpiresAt: some()}
		if r.IntN(20) == 0 { // overflows
			l.CreatedAt += driver.MaxInstant - 40
			l.ExpiresAt += driver.MaxInstant - 40
		}
		at := l.CreatedAt + some()
		if at < 0 {
			at = driver.MaxInstant
		}
		_, beyond := rules.Lowered(l, at)
		got, want := rules.NeedsNoTouch(l, at), rules.Alive(l, at) && !rules.Due(l, at) && !beyond
		near := step > time.Millisecond || l.ExpiresAt-at > rules.reach || l.ExpiresAt > rules.Cap(l.CreatedAt) || l.ExpiresAt == 0 || l.CreatedAt > driver.MaxInstant-40
		if got && !want || want && !got && !near {
			t.Fatalf("%+v, step %v, life %+v at %d: settled %t, alive and not due %t", p, step, l, at, got, want)
		}
		if got {
			yes++
		}
	}
	if yes < 1000 {
		t.Errorf("only %d of the lives were settled", yes)
	}
}

// TestRoundedPolicies: what round makes of a policy in any steps is as long at
// least, by less than a millisecond more, and valid unless the finer one broke a rule.
func TestRoundedPolicies(t *testing.T) {
	computed := Policy{IdleGrace: 33*time.Millisecond + 1, MaxLifetime: math.MaxInt64, Slack: 1, MaxSlack: 2 * time.Millisecond}
	want := Policy{IdleGrace: 34 * time.Millisecond, MaxLifetime: NoCap, Slack: time.Millisecond, MaxSlack: 2 * time.Millisecond}
	if got := computed.Round(); got != want || got.Validate() != nil || got.Round() != got {
		t.Errorf("%+v is rounded to %+v, want %+v", computed, got, want)
	}
	negative := Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour, Slack: -1}
	if got := negative.Round(); got.Validate() == nil {
		t.Errorf("%+v is rounded to a valid %+v", negative, got)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		idle := 1 + r.Int64N(int64(5*time.Millisecond))
		slack := r.Int64N(idle + 1)
		p := Policy{
			IdleGrace:   time.Duration(idle),
			MaxLifetime: time.Duration(idle + r.Int64N(int64(5*time.Millisecond))),
			Slack:       time.Duration(slack),
			MaxSlack:    time.Duration(slack + r.Int64N(idle-slack+1)),
		}
		got := p.Round()
		if err := got.Validate(); err != nil {
			t.Fatalf("%+v is rounded to %+v: %v", p, got, err)
		}
		for i, f := range got.fields()[:4] {
			if more := *f.d - *p.fields()[i].d; more < 0 || more >= time.Millisecond {
				t.Fatalf("%+v is rounded to %+v", p, got)
			}
		}
	}
}
