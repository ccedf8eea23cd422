package hot_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Reads that find nothing share a trip. If the goroutine making the trip gives up, another takes it over.
func TestMissesShareATrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", time.Hour)
		began := time.Now()
		r.holds(func(ctx context.Context) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		})
		first, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		var wg sync.WaitGroup
		read := func(who string, ctx context.Context, want error, after time.Duration) {
			wg.Go(func() {
				e, err := h.Get(ctx, key)
				if !errors.Is(err, want) || err == nil && e.Value != "kept" || time.Since(began) != after {
					t.Errorf("%s: %q, %v after %v; want %v after %v", who, e.Value, err, time.Since(began), want, after)
				}
			})
		}
		n := r.during(func() {
			read("who makes the trip and leaves", first, context.DeadlineExceeded, 500*time.Millisecond)
			synctest.Wait()
			soon, leave := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer leave()
			read("who waits and leaves", soon, context.DeadlineExceeded, 200*time.Millisecond)
			for range 20 {
				read("who stays", t.Context(), nil, 1500*time.Millisecond)
			}
			wg.Wait()
		})
		if n != 2 {
			t.Errorf("22 reads made %d trips; want 2", n)
		}
	})
}

// A read does not join a trip whose answer would be too old for it.
func TestNoJoiningOfOldTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "first", time.Hour)
		slow(r, func() {
			if e, err := h.Get(t.Context(), key); err != nil || e.Value != "first" {
				t.Errorf("the slow Get: %q, %v", e.Value, err)
			}
		}, func() {
			r.put(t, key, "second", time.Hour)
			time.Sleep(staleness)
			reads(t, r, h, "second", 1)
		})
		reads(t, r, h, "second", 0)
	})
}

// A trip that reads no longer join does not affect its successor.
func TestLandingLeavesTheNextTripAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", time.Hour)
		r.holds(func(context.Context) { time.Sleep(time.Second) })
		var wg sync.WaitGroup
		n := r.during(func() {
			for i := range 3 { // at 0, 0.6 and 1.2 s; the first lands at 1, the second at 1.6
				wg.Go(func() {
					_, err := h.Get(t.Context(), key)
					ok(t, "Get", err)
				})
				synctest.Wait()
				if i == 0 {
					h.Forget(key)
				}
				time.Sleep(600 * time.Millisecond)
			}
			wg.Wait()
		})
		if n != 2 {
			t.Errorf("%d trips; want 2", n)
		}
	})
}

// A driver's panic is the panic of the call that makes the trip; waiting calls make their own.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", time.Hour)
		var wg sync.WaitGroup
		r.holds(func(context.Context) {
			r.holds(nil)
			wg.Go(func() { reads(t, r, h, "kept", 1) })
			synctest.Wait() // it waits for this trip
			panic("in the codec")
		})
		func() {
			defer func() {
				if v := recover(); v != "in the codec" {
					t.Errorf("recovered %v", v)
				}
			}()
			_, _ = h.Get(t.Context(), key)
			t.Error("Get returned")
		}()
		wg.Wait()
	})
}

// All waiting calls get a trip's error, and it is not held.
func TestErrorIsNotHeld(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	for range 2 {
		if n := r.during(func() {
			if _, err := h.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("Get of an absent key: %v", err)
			}
		}); n != 1 {
			t.Errorf("%d trips; want 1", n)
		}
	}
	r.put(t, key, "kept", time.Hour)
	reads(t, r, h, "kept", 1)
}
