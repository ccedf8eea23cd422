package memory

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// wantBounds fails if the time does not lie within the driver's bounds.
func wantBounds(t *testing.T, d *Driver[int]) {
	t.Helper()
	earliest, latest := d.Bounds()
	if now := d.Now(); earliest > driver.Floor(now) || latest < driver.Ceil(now) {
		t.Fatalf("bounds %d to %d at %d", earliest, latest, now.UnixMilli())
	}
}

func (c *clock) parked() bool { return c.coarse.Load() == 0 }

func TestNowIsTheSystemsTime(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for range 100 {
			time.Sleep(time.Duration(rand.Int64N(int64(90 * time.Minute))))
			if now, want := d.Now(), time.Now(); !now.Equal(want) {
				t.Fatalf("Now is %v, want %v", now, want)
			}
			if got, want := d.instant(), driver.Floor(time.Now()); got != want {
				t.Fatalf("instant is %d, want %d", got, want)
			}
		}
	})
}

func TestBoundsAreExactWhileParked(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for range 100 {
			for range coarseWorth - 1 {
				now := d.Now()
				earliest, latest := d.Bounds()
				if earliest != driver.Floor(now) || latest != driver.Ceil(now) {
					t.Fatalf("bounds %d to %d at %v", earliest, latest, now)
				}
			}
			time.Sleep(time.Millisecond + time.Duration(rand.IntN(1e6)))
		}
		synctest.Wait()
		if !d.clock.parked() {
			t.Error("the coarse clock ticks for a few calls")
		}
	})
}

func TestCoarseClockWakesAndParks(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for round := range 3 {
			for range coarseWorth {
				wantBounds(t, d)
			}
			synctest.Wait()
			if d.clock.parked() {
				t.Fatalf("round %d: the coarse clock sleeps through %d calls in a millisecond", round, coarseWorth)
			}
			// It keeps up while it ticks.
			for range int(coarseRun/coarseTick) - 1 {
				time.Sleep(coarseTick)
				synctest.Wait()
				now := d.instant()
				if earliest, latest := d.Bounds(); earliest != now || latest != now+coarseGuard {
					t.Fatalf("round %d: coarse bounds %d to %d at %d", round, earliest, latest, now)
				}
			}
			// And parks though it was used to the end.
			time.Sleep(coarseTick)
			synctest.Wait()
			if !d.clock.parked() {
				t.Fatalf("round %d: the coarse clock still ticks after %v", round, coarseRun)
			}
			time.Sleep(time.Hour)
		}
	})
}

// TestIdleDriverSleeps: in an idle driver nothing is awake, so that virtual years
// pass in no time. The bubble counts how often time stood still for someone.
func TestIdleDriverSleeps(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for range 10 * coarseWorth {
			d.Bounds()
		}
		mustInsert(t, d, "k", 1, lasting(d.instant(), 100*24*time.Hour))
		time.Sleep(time.Second) // the coarse clock parks
		sweeps := 0
		for end := d.instant().Add(90 * 24 * time.Hour); d.instant() < end; sweeps++ {
			synctest.Wait()
			// A moment after the sweeper next wakes, or the end.
			next := min(driver.Instant(d.sweeper.at.Load())+1, end)
			time.Sleep(next.Time().Sub(d.Now()))
		}
		if sweeps > 64 {
			t.Errorf("the sweeper woke %d times in 90 days for one record", sweeps)
		}
		if !d.clock.parked() {
			t.Error("the coarse clock ticks")
		}
		mustGet(t, d, "k")
		time.Sleep(11 * 24 * time.Hour)
		wantGone(t, d, "k")
	})
}

func TestCloseStopsATickingClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := open[int](t, nil)
		for range coarseWorth {
			d.Bounds()
		}
		time.Sleep(10 * coarseTick)
		if d.clock.parked() {
			t.Fatal("the coarse clock does not tick")
		}
		began := time.Now()
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("Close took %v", took)
		}
		wantBounds(t, d)
	})
}
