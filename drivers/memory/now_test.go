package memory

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hand is a clock that is moved by hand.
type hand struct{ ns atomic.Int64 }

func newHand(t time.Time) *hand {
	h := new(hand)
	h.ns.Store(t.UnixNano())
	return h
}

func (h *hand) Now() time.Time       { return time.Unix(0, h.ns.Load()).UTC() }
func (h *hand) move(d time.Duration) { h.ns.Add(int64(d)) }

// swept lets the sweeper look at the clock.
func swept() {
	time.Sleep(sweepStep)
	synctest.Wait()
}

// TestGivenNow: judgement and sweeping follow Options.Now and no other clock, wherever
// in time it stands.
func TestGivenNow(t *testing.T) {
	for _, start := range []time.Time{
		time.Date(1990, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2200, 1, 1, 0, 0, 0, 999_999_999, time.UTC),
	} {
		clock := newHand(start)
		var reported []string
		opts := &Options[int]{
			MaxEntries: 100,
			Now:        clock.Now,
			OnExpiry:   func(key string, _ driver.Entry[int], _ Reason) { reported = append(reported, key) },
		}
		bubble(t, opts, func(t *testing.T, d *Driver[int]) {
			for i := range 100 {
				mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), 30*24*time.Hour))
			}
			time.Sleep(time.Minute)
			if n := d.Len(); n != 100 || reported != nil {
				t.Fatalf("%d records left while the clock stood still", n)
			}
			if now := d.Now(); !now.Equal(start) {
				t.Errorf("Now is %v, want %v", now, start)
			}
			for i := range 10 * coarseWorth {
				if i%coarseWorth == 0 {
					synctest.Wait() // lets the coarse clock tick if it was woken
				}
				earliest, latest := d.Bounds()
				if earliest != driver.Floor(start) || latest != driver.Ceil(start) {
					t.Fatalf("bounds %d to %d at %v", earliest, latest, start)
				}
			}
			clock.move(30*24*time.Hour - time.Millisecond)
			swept()
			if n := d.Len(); n != 100 {
				t.Fatalf("%d records left before their time", n)
			}
			clock.move(time.Millisecond)
			for range d.All() {
				t.Fatal("a dead record is seen")
			}
			// Without waiting for the sweeper: there is room at once.
			mustInsert(t, d, "next", 1, lasting(d.instant(), time.Hour))
			swept()
			if n := d.Len(); n != 1 || len(reported) != 100 {
				t.Fatalf("%d records left, reported of %d", n, len(reported))
			}
			clock.move(50 * 365 * 24 * time.Hour)
			swept()
			wantGone(t, d, "next")
		})
	}
}

// TestNowSetBack: what lives by the earlier time is not removed, and in the end all is.
func TestNowSetBack(t *testing.T) {
	clock := newHand(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
	bubble(t, &Options[int]{Now: clock.Now}, func(t *testing.T, d *Driver[int]) {
		mustInsert(t, d, "before", 1, lasting(d.instant(), time.Hour))
		swept()
		clock.move(-24 * time.Hour)
		m := mustInsert(t, d, "after", 2, lasting(d.instant(), time.Hour))
		for range 10 {
			clock.move(6 * time.Minute)
			swept()
		}
		clock.move(-time.Millisecond)
		mustGet(t, d, "after")
		later := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: m.ExpiresAt.Add(time.Hour)}
		if _, err := d.Touch(t.Context(), "after", m, later, d.instant()); err != nil {
			t.Fatal(err)
		}
		clock.move(time.Hour)
		swept()
		mustGet(t, d, "after")
		clock.move(24 * time.Hour)
		swept()
		if n := d.Len(); n != 0 {
			t.Errorf("%d records left", n)
		}
	})
}

// TestGivenNowSleeps: the driver's goroutine calls at the clock only while there is
// something that expires.
func TestGivenNowSleeps(t *testing.T) {
	var calls atomic.Int64
	synctest.Test(t, func(t *testing.T) {
		d := open(t, &Options[int]{Now: func() time.Time { calls.Add(1); return time.Now() }})
		mustInsert(t, d, "for ever", 1, driver.Life{})
		mustInsert(t, d, "k", 1, lasting(d.instant(), time.Second))
		time.Sleep(time.Minute)
		if _, err := d.Get(t.Context(), "k"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get: %v", err)
		}
		calls.Store(0)
		time.Sleep(1000 * time.Hour)
		if n := calls.Load(); n != 0 {
			t.Errorf("%d calls at the clock", n)
		}
	})
}
