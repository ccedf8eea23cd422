package touches

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

// BenchmarkFigureWaiting has a million touches wait for a budget: how long an access then waits at the
// most in some seconds, and Close with a context of 1 ms.
func BenchmarkFigureWaiting(b *testing.B) {
	const n = 1 << 20
	month := rules.New(policy.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}, time.Millisecond, time.Second, true)
	for b.Loop() {
		t := New(Config{
			Write: func(context.Context, string, driver.Meta, driver.Life, driver.Instant) (driver.Version, error) {
				return 1, nil
			},
			Read: func(context.Context, string) (driver.Meta, *rules.Rules, error) {
				return driver.Meta{}, month, driver.ErrNotFound
			},
			Changed: func(State) {}, Clock: wallClock{}, Tally: new(tally.Tally), Memo: NewMemo(1 << 10),
			Timeout: time.Second, Wait: 100 * time.Millisecond, MaxSkew: time.Second, Queue: 2 * n, Budget: 100,
		})
		access := func(i int) {
			now := time.Now()
			m := driver.Meta{Life: driver.Life{CreatedAt: driver.Floor(now).Add(-time.Hour), ExpiresAt: driver.Floor(now).Add(24*time.Hour + time.Duration(i)*time.Second)}}
			var a Access
			if t.Due(&a, now, fmt.Sprint(i), m, month, driver.Life{}, 0) {
				t.TouchOrQueue(b.Context(), &a, time.Time{}, false)
			}
		}
		for i := range n {
			access(i)
		}
		var most time.Duration
		for began := time.Now(); time.Since(began) < 5*time.Second; {
			at := time.Now()
			access(n)
			most = max(most, time.Since(at))
			time.Sleep(100 * time.Microsecond)
		}
		b.ReportMetric(most.Seconds()*1000, "ms-most")
		ctx, cancel := context.WithTimeout(b.Context(), time.Millisecond)
		calls := make(chan struct{})
		close(calls)
		at := time.Now()
		givenUp, _, _, _ := t.Close(ctx, calls, noCalls)
		b.ReportMetric(time.Since(at).Seconds()*1000, "ms-close")
		cancel()
		if givenUp < n/2 {
			b.Errorf("%d given up", givenUp)
		}
		_, _, _, _ = t.Close(b.Context(), calls, noCalls)
	}
}
