package slidingttl

import (
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
		rules := newRules(p, step)
		l := driver.Life{CreatedAt: some(), ExpiresAt: some()}
		if r.IntN(20) == 0 { // overflows
			l.CreatedAt += driver.MaxInstant - 40
			l.ExpiresAt += driver.MaxInstant - 40
		}
		at := l.CreatedAt + some()
		if at < 0 {
			at = driver.MaxInstant
		}
		got, want := rules.settled(l, at), rules.alive(l, at) && !rules.due(l, at)
		near := step > time.Millisecond || l.ExpiresAt == 0 || l.CreatedAt > driver.MaxInstant-40
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
