package slidingttl_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// A hook may call the store for the key that it gets.
func TestHookTouchesItsKey(t *testing.T) {
	for name, mode := range map[string]slidingttl.TouchMode{"wait": slidingttl.Wait, "background": slidingttl.Background} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				set := failTouches(d, all)
				set(true)
				var s *slidingttl.Store[int]
				var err error
				var took time.Duration
				s = open(t, d, session, &slidingttl.Options[int]{Touches: mode, OnTouchError: func(ctx context.Context, key string, _ error) {
					set(false)
					began := time.Now()
					_, err = s.Touch(ctx, key)
					took = time.Since(began)
				}})
				plant(under, "k", time.Minute)
				read(t, s, "k")
				time.Sleep(10 * time.Second)
				synctest.Wait()
				if err != nil || took > 0 {
					t.Errorf("Touch by the hook: %v after %v", err, took)
				}
				if e := stored(t, under, "k"); e.ExpiresAt.Sub(instant(time.Now())) < 25*time.Minute {
					t.Error("it was not touched")
				}
			})
		})
	}
}

// A hook that ends its goroutine, as t.FailNow does, blocks no call.
func TestHookThatEndsItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" {
				return errDown
			}
			return nil
		}
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{
			Strict:       true,
			OnTouchError: func(context.Context, string, error) { runtime.Goexit() },
		})
		must(t, err)
		plant(under, "k", time.Minute)
		began := time.Now()
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, errDown)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, s.Close(ctx))
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
	})
}
