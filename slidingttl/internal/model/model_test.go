package model

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	modelSeed  = flag.Uint64("model.seed", 0, "run only this history")
	modelFirst = flag.Uint64("model.first", 1000, "the seed to begin with; 0: any")
	modelOps   = flag.Int64("model.ops", 30_000, "calls of clients to make")
	modelAll   = flag.Bool("model.all", false, "go on after a violation")
)

// TestModel runs random histories, each from its own seed, on all cores.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		if w := run(t, *modelSeed, true); len(w.broken) > 0 {
			t.Fatal(w.story())
		}
		return
	}
	first := *modelFirst
	if first == 0 {
		first = rand.Uint64() >> 16
	}
	t.Logf("histories from seed %d on", first)
	var next, calls atomic.Int64
	var broken atomic.Bool
	began := time.Now()
	done := make(chan struct{})
	var progress sync.WaitGroup
	progress.Go(func() {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fmt.Printf("%v: %d calls in %d histories\n", time.Since(began).Round(time.Second), calls.Load(), next.Load())
			case <-done:
				return
			}
		}
	})
	t.Run("histories", func(t *testing.T) {
		for core := range runtime.GOMAXPROCS(0) {
			t.Run(fmt.Sprint("core ", core), func(t *testing.T) {
				t.Parallel()
				for calls.Load() < *modelOps && (*modelAll || !broken.Load()) {
					seed := first + uint64(next.Add(1))
					w := run(t, seed, false)
					calls.Add(int64(w.calls))
					if len(w.broken) == 0 {
						continue
					}
					t.Errorf("seed %d: %v", seed, w.broken)
					if !broken.Swap(true) {
						t.Log(again(t, seed))
					}
				}
			})
		}
	})
	close(done)
	progress.Wait()
	t.Logf("%d calls in %d histories, %v", calls.Load(), next.Load(), time.Since(began).Round(time.Millisecond))
}

// run runs the history of a seed.
func run(t *testing.T, seed uint64, told bool) (w *world) {
	synctest.Test(t, func(t *testing.T) {
		w = draw(seed)
		w.told = told
		w.live(t)
	})
	return w
}

// again returns the story of a seed that broke a promise. What the store draws at random, or
// happens at one instant, may turn out differently this time.
func again(t *testing.T, seed uint64) string {
	for range 20 {
		if w := run(t, seed, true); len(w.broken) > 0 {
			return w.story()
		}
	}
	return fmt.Sprintf("seed %d broke nothing in 20 more runs", seed)
}
