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

// Reads that find nothing share a trip, which goes on when he leaves who began it.
func TestMissesShareATrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", time.Hour)
		r.holds(func(ctx context.Context) {
			time.Sleep(time.Second)
			if err := ctx.Err(); err != nil {
				t.Errorf("the trip was ended while some waited: %v", err)
			}
		})
		first, leave := context.WithTimeout(t.Context(), time.Millisecond)
		defer leave()
		n := r.during(func() {
			var wg sync.WaitGroup
			wg.Go(func() {
				if _, err := h.Get(first, key); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Get by one who leaves: %v", err)
				}
			})
			synctest.Wait()
			for range 20 {
				wg.Go(func() {
					if e, err := h.Get(t.Context(), key); err != nil || e.Value != "kept" {
						t.Errorf("Get by one who stays: %q, %v", e.Value, err)
					}
				})
			}
			wg.Wait()
		})
		if n != 1 {
			t.Errorf("21 reads made %d trips; want 1", n)
		}
	})
}

// A trip ends with the last who waits for it, and nobody joins it then.
func TestTripEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", time.Hour)
		var ended time.Duration
		began := time.Now()
		r.holds(func(ctx context.Context) {
			<-ctx.Done()
			ended = time.Since(began)
			time.Sleep(time.Second) // before it notices
		})
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Millisecond)
				defer cancel()
				if _, err := h.Get(ctx, key); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Get: %v", err)
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if ended != 3*time.Millisecond {
			t.Errorf("the trip ended after %v; want 3ms", ended)
		}
		r.holds(nil)
		reads(t, r, h, "kept", 1)
		time.Sleep(time.Second)
	})
}

// Nobody joins a trip whose answer would be too old for him.
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

// A trip that nobody joins any more leaves alone the one that took its place.
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

// A driver that panics does so in all who read, and not elsewhere, and ends nothing else.
func TestPanic(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	r.put(t, key, "kept", time.Hour)
	r.holds(func(context.Context) { panic("in the codec") })
	func() {
		defer func() {
			v, _ := recover().(error)
			var p *driver.PanicError
			if !errors.As(v, &p) || p.Value != "in the codec" {
				t.Errorf("recovered %v", v)
			}
		}()
		_, _ = h.Get(t.Context(), key)
		t.Error("Get returned")
	}()
	r.holds(nil)
	reads(t, r, h, "kept", 1)
}

// What a trip failed with is told to all who wait, and not held.
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
