package touches

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// When a touch that has failed goes before the first of those that have not, which is due in an hour.
func TestGoesBefore(t *testing.T) {
	const timeout = 5 * time.Second
	for name, c := range map[string]struct {
		budget    float64
		workers   int
		firsts    int           // since the last one that had failed
		due       time.Duration // from now
		adopts    bool          // its record does not die
		recovered bool          // the store has since it failed
		want      bool
	}{
		"no share":                                {due: timeout},
		"its share":                               {firsts: retryShare - 1, due: 2 * time.Hour, want: true},
		"recovered":                               {recovered: true, due: 2 * time.Hour, want: true},
		"with a budget, late if it waits":         {budget: 1, due: timeout, want: true},
		"with a budget, in time":                  {budget: 1, firsts: retryShare - 1, due: time.Minute},
		"with a budget, recovered":                {budget: 1, recovered: true, due: time.Minute, want: true},
		"with a budget, recovered, due later":     {budget: 1, recovered: true, due: 2 * time.Hour},
		"with a budget, one worker":               {budget: 1, workers: 1, due: timeout, adopts: true},
		"with a budget, another worker":           {budget: 1, workers: 2, due: timeout, adopts: true, want: true},
		"with a budget, one worker, its share":    {budget: 1, workers: 1, firsts: retryShare - 1, due: timeout, adopts: true, want: true},
		"with a budget, one worker, about to die": {budget: 1, workers: 1, due: timeout, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ts := New(Config{Clock: wallClock{}, Timeout: timeout, Budget: c.budget, Workers: c.workers})
				ts.limits.firsts, ts.pressure.back = c.firsts, 7
				at := func(d time.Duration) driver.Instant { return driver.Floor(time.Now().Add(d)) }
				first := &touch{Access: Access{Was: meta(at(time.Hour))}, by: driver.MaxInstant}
				r := &touch{Access: Access{Was: meta(at(c.due))}, by: driver.MaxInstant, fails: 1, landings: 7}
				if c.adopts {
					r.Was.ExpiresAt, r.by = 0, at(c.due)
				}
				if c.recovered {
					r.landings--
				}
				if got := ts.goesBefore(r, first); got != c.want {
					t.Errorf("goes before: %t, want %t", got, c.want)
				}
			})
		})
	}
}

// What was taken for dead by a clock that was ahead gets its turn again.
func TestPassedIsCalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		f := newFixture(Config{Background: true, Workers: 1})
		f.Clock = aheadClock{&ahead}
		f.slow.Store(true)
		near, far := record(10*time.Second), record(50*time.Second)
		f.stored.Store(&far)
		f.touch(t, "runs", far)
		synctest.Wait()
		f.touch(t, "near", near)
		ahead.Store(int64(10 * time.Minute))
		f.mu.Lock()
		f.dispatch()
		f.mu.Unlock()
		if f.passed.Len() != 1 {
			t.Fatalf("%d touches have been passed", f.passed.Len())
		}
		ahead.Store(0)
		f.touch(t, "far", far)
		if n := f.ready.first(); n == nil || n.Key != "near" {
			t.Errorf("the next one is not the one nearest to death: %+v", n)
		}
		if err := f.check(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

// One that has failed rests first when it is called back, like any that failed: its share of the workers is small.
func TestFailedIsCalledBackToItsRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Background: true, Workers: 1})
		f.slow.Store(true)
		near, far := record(10*time.Second), record(50*time.Second)
		f.stored.Store(&far)
		f.touch(t, "runs", far)
		synctest.Wait()
		f.touch(t, "near", near)
		f.mu.Lock()
		n := f.ready.first()
		f.unqueue(n)
		n.fails = 1
		f.enqueue(n, passed)
		f.callBack()
		f.mu.Unlock()
		if n.state != resting || n.wakes > f.restClock() {
			t.Errorf("it is in state %d and wakes in %v, want a rest that has ended", n.state, n.wakes-f.restClock())
		}
		if err := f.check(); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
}

// A touch that goes on for an hour in a driver that does not look at its context is no measure of those that end.
func TestTakesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Workers: 1})
		f.Write = func(context.Context, string, driver.Meta, driver.Life, driver.Instant) (driver.Version, error) {
			time.Sleep(time.Hour)
			return 2, nil
		}
		f.touch(t, "hangs", record(30*time.Second))
		time.Sleep(2 * time.Hour)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.pressure.landings != 1 || f.pressure.takes > f.Timeout {
			t.Errorf("%d landed, and touches take %v, want at most %v", f.pressure.landings, f.pressure.takes, f.Timeout)
		}
	})
}

// aheadClock is ahead by so much.
type aheadClock struct{ by *atomic.Int64 }

func (c aheadClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())) }

func (c aheadClock) Bounds() (earliest, latest driver.Instant) {
	return driver.Floor(c.Now()), driver.Ceil(c.Now())
}
