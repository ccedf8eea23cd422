package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

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
