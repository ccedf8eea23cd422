package rules

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// TestSettled: settled is alive and not due, as far as those can be told without
// rounding.
func TestSettled(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	some := func() driver.Instant { return driver.Instant(r.Int64N(40)) }
	yes := 0
	for range 200_000 {
		p := policy.Policy{
			IdleGrace:   time.Duration(1+some()) * time.Millisecond,
			Slack:       time.Duration(some()) * time.Millisecond,
			MaxLifetime: time.Duration(1+some()) * time.Millisecond,
			Promote:     r.IntN(4) == 0,
		}
		step := time.Duration(1+r.IntN(3)) * time.Millisecond
		rules := New(p, step, 0, false)
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
		got, want := rules.NeedsNoTouch(l, at, at), rules.Alive(l, at) && !rules.Due(l, at) && !beyond
		near := step > time.Millisecond || l.ExpiresAt-at > rules.reach || l.ExpiresAt > rules.Cap(l.CreatedAt) || l.ExpiresAt == 0 || l.CreatedAt > driver.MaxInstant-40
		if got && !want || want && !got && !near {
			t.Fatalf("%+v, step %v, life %+v at %d: settled %t, alive and not due %t", p, step, l, at, got, want)
		}
		early := at - driver.Instant(r.IntN(40))
		if _, beyond := rules.Lowered(l, early); rules.NeedsNoTouch(l, early, at) && (beyond || !got) {
			t.Fatalf("%+v, step %v, life %+v from %d to %d is settled", p, step, l, early, at)
		}
		if got {
			yes++
		}
	}
	if yes < 1000 {
		t.Errorf("only %d of the lives were settled", yes)
	}
}

// TestSlid: what Slid answers is what a touch writes, or what is stored where none is due, of records
// that are alive and not to be lowered.
func TestSlid(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	some := func() driver.Instant { return driver.Instant(r.Int64N(40)) }
	slid, stays, not := 0, 0, 0
	for range 400_000 {
		p := policy.Policy{
			IdleGrace:   time.Duration(1+some()) * time.Millisecond,
			Slack:       time.Duration(max(0, some()-20)) * time.Millisecond,
			MaxLifetime: time.Duration(1+some()) * time.Millisecond,
			Promote:     r.IntN(4) == 0,
		}
		if r.IntN(4) == 0 {
			p.MaxLifetime = policy.NoCap
		}
		p.MaxSlack = p.Slack + time.Duration(max(0, some()-20))*time.Millisecond
		step := time.Duration(1+r.IntN(2)) * time.Millisecond
		rules := New(p, step, 0, false)
		if exact := p.Slack == 0 && !p.Promote && step == time.Millisecond; rules.Exact() != exact {
			t.Fatalf("%+v, step %v: Exact is %t", p, step, !exact)
		} else if !exact {
			continue
		}
		l := driver.Life{CreatedAt: some() - 5, ExpiresAt: some() - 5}
		if r.IntN(20) == 0 { // overflows
			l.CreatedAt += driver.MaxInstant - 60
			l.ExpiresAt += driver.MaxInstant - 60
		}
		at := l.CreatedAt + some() + 1
		if at <= 0 {
			at = driver.MaxInstant
		}
		_, beyond := rules.Lowered(l, at)
		plain := rules.Alive(l, at) && !beyond && l.CreatedAt != 0
		switch to, ok := rules.Slid(l, at); {
		case !ok:
			if plain && l.CreatedAt > 0 && l.CreatedAt < 100 && l.ExpiresAt > 0 && rules.Due(l, at) {
				t.Fatalf("%+v, life %+v at %d: due, and not slid", p, l, at)
			}
			not++
		case !plain:
			t.Fatalf("%+v, life %+v at %d: slid to %d, and is not alive, foreign or beyond the policy", p, l, at, to)
		case to == l.ExpiresAt:
			if rules.Due(l, at) {
				t.Fatalf("%+v, life %+v at %d: due, and stays", p, l, at)
			}
			stays++
		default:
			if touched := rules.Touched(l, at, 0, 0); !rules.Due(l, at) || touched.ExpiresAt != to {
				t.Fatalf("%+v, life %+v at %d: slid to %d; a touch writes %+v", p, l, at, to, touched)
			}
			slid++
		}
	}
	if min(slid, stays, not) < 200 {
		t.Errorf("%d lives slid, %d stayed and %d were for a closer look", slid, stays, not)
	}
}
