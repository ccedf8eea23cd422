package touches

import (
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// The speed is what the deadlines of those that wait need, to the touch.
func TestBudgetPace(t *testing.T) {
	for name, c := range map[string]struct {
		left []time.Duration
		want rate.Limit
		over bool
	}{
		"nothing waits":        {nil, 2, false},
		"as the budget allows": {[]time.Duration{5 * time.Second, time.Second, 4 * time.Second}, 2, false},
		"one too many":         {[]time.Duration{time.Second, time.Second, time.Second}, 3, true},
		"later, but more":      {[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second, 2 * time.Second}, 2.5, true},
		"one that is past":     {[]time.Duration{-time.Minute}, 2, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, left := newBudget(2), new(timesLeft)
			for _, d := range c.left {
				left.add(d)
			}
			if over := b.set(time.Now(), left); over != c.over || b.tokens.Limit() != c.want {
				t.Errorf("%s: %v a second, over %v, want %v, %v", name, b.tokens.Limit(), over, c.want, c.over)
			}
			for range 60 {
				if b.set(time.Now(), left); b.backlog > float64(len(c.left))/2 {
					t.Fatalf("%s: a backlog of %v s, of %d touches at 2 a second", name, b.backlog, len(c.left))
				}
			}
			if b.backlog < 0.99*float64(len(c.left))/2 {
				t.Errorf("%s: a backlog of %v s after a minute, of %d touches at 2 a second", name, b.backlog, len(c.left))
			}
		})
	}
}

// What has been passed, because it comes too late, is not to hurry the others.
func TestPassedNeedsNoBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Background: true, Workers: 1, Budget: 2})
		f.slow.Store(true)
		m := record(30 * time.Second)
		f.stored.Store(&m)
		f.touch(t, "runs", m)
		synctest.Wait()
		f.mu.Lock()
		for i := range 50 {
			n := f.add(&Access{Key: strconv.Itoa(i), Was: record(6 * time.Second), Rules: minute, At: f.now(), DueFrom: f.now()})
			f.enqueue(n, passed)
		}
		f.mu.Unlock()
		if f.pace(); f.pressure.OverBudget || f.budget.tokens.Limit() != 2 {
			t.Errorf("%v a second, over budget %t", f.budget.tokens.Limit(), f.pressure.OverBudget)
		}
		time.Sleep(time.Minute)
	})
}

// A touch that may take for ever does not wait for the budget, even if its record is dead.
func TestBudgetWithoutTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Timeout: math.MaxInt64})
		for _, left := range []time.Duration{time.Hour, -time.Hour} {
			if wait := f.leeway(record(left).ExpiresAt, f.now()); wait != 0 {
				t.Errorf("with %v left it may wait %v", left, wait)
			}
		}
	})
}
