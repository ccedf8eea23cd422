package slidingttl

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Touches may end while a change is told: each change is told once, and none is lost.
func TestBreakerTellsEachChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		var told []bool
		var meanwhile []func(error)
		b := newBreaker(func(open bool) {
			told = append(told, open)
			for _, done := range meanwhile {
				done(down)
			}
		})
		allow := func(n int) (dones []func(error)) {
			for range n {
				done, ok := b.allow()
				if !ok {
					t.Fatal("the breaker is open")
				}
				dones = append(dones, done)
			}
			return dones
		}
		for range 3 {
			dones := allow(breakerRun + 3)
			meanwhile = dones[breakerRun:]
			for _, done := range dones[:breakerRun] {
				done(down)
			}
			meanwhile = nil
			time.Sleep(breakerPause + time.Millisecond)
			allow(1)[0](nil)
		}
		if want := []bool{true, false, true, false, true, false}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}
