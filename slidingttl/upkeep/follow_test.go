package upkeep_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// queue serves so many calls a second, one after the other.
type queue struct {
	mu   sync.Mutex
	each time.Duration
	free time.Time
}

func (q *queue) serve() (took time.Duration) {
	q.mu.Lock()
	began := time.Now()
	if q.free.Before(began) {
		q.free = began
	}
	q.free = q.free.Add(q.each)
	took = q.free.Sub(began)
	q.mu.Unlock()
	time.Sleep(took)
	return took
}

// queued is a store whose writes are served by a queue.
type queued struct {
	*fixture
	*queue
}

func (q queued) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	q.serve()
	return q.fixture.Touch(ctx, key, was, next, now)
}

// besideLive returns the 99th percentile of what live calls take beside an adoption, and its writes a second.
func besideLive(t *testing.T, records int, o upkeep.AdoptOptions) (p99 time.Duration, rate float64) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range records {
			f.add(fmt.Sprint(i), 0, 0)
		}
		q := &queue{each: 2 * time.Millisecond}
		random := rand.New(rand.NewPCG(1, 2))
		var took []time.Duration
		var mu sync.Mutex
		var calls sync.WaitGroup
		done := make(chan struct{})
		calls.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Duration(random.ExpFloat64() * float64(10*time.Millisecond))):
				}
				calls.Go(func() {
					d := q.serve()
					mu.Lock()
					took = append(took, d)
					mu.Unlock()
				})
			}
		})
		began := time.Now()
		if records == 0 {
			time.Sleep(time.Minute)
		} else {
			o.Page, o.Apply = 100, true
			r, err := upkeep.Adopt(t.Context(), queued{f, q}, policy, &o)
			ok(t, err)
			rate = float64(r.Adopted) / time.Since(began).Seconds()
		}
		close(done)
		calls.Wait()
		slices.Sort(took)
		p99 = took[len(took)*99/100]
	})
	return p99, rate
}

// A walk that follows the load lets live calls wait no longer than one would by hand at half of what is left
// of the store, whatever its ceiling, and makes as many writes as it may where that is little.
func TestFollow(t *testing.T) {
	alone, _ := besideLive(t, 0, upkeep.AdoptOptions{})
	t.Logf("alone: p99 %v", alone)
	for _, hand := range []float64{50, 75, 200, 300} {
		o := upkeep.AdoptOptions{}
		o.Limits.Writes = hand
		p99, rate := besideLive(t, int(60*hand), o)
		t.Logf("by hand: p99 %v (%.2f), %.0f a second", p99, float64(p99)/float64(alone), rate)
	}
	for _, ceiling := range []float64{0, 50, 500, 5000} {
		o := upkeep.AdoptOptions{}
		o.Limits.Writes, o.Follow = ceiling, true
		p99, rate := besideLive(t, 9000, o)
		t.Logf("follows below %v: p99 %v (%.2f), %.0f a second", ceiling, p99, float64(p99)/float64(alone), rate)
		if most := 1.6; float64(p99) > most*float64(alone) {
			t.Errorf("below %v writes a second live calls take %v; alone %v", ceiling, p99, alone)
		}
		if least := 40.0; rate < least {
			t.Errorf("below %v it makes %.0f writes a second", ceiling, rate)
		}
	}
}

// A pause ends the writes within a second, whatever the limits, and higher ones count at once.
func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 400 {
			f.add(fmt.Sprint(i), 0, 0)
		}
		var limit atomic.Int64 // negative: a pause
		limit.Store(1)
		o := applied()
		o.Page = 10
		o.Steer = func() (upkeep.Limits, bool) {
			n := limit.Load()
			return upkeep.Limits{Writes: float64(max(n, 0))}, n < 0
		}
		var writes atomic.Int64
		o.Progress = func(p upkeep.Progress) { writes.Store(p.Writes) }
		var ended atomic.Bool
		go func() {
			_, err := upkeep.Adopt(t.Context(), f, policy, o)
			ok(t, err)
			ended.Store(true)
		}()
		time.Sleep(60 * time.Second)
		limit.Store(-1)
		time.Sleep(time.Second)
		before := writes.Load()
		time.Sleep(time.Hour)
		if after := writes.Load(); after != before || before == 0 || before > 61 {
			t.Errorf("%d writes before the pause, %d after an hour of it", before, after)
		}
		limit.Store(1000)
		time.Sleep(time.Second)
		if !ended.Load() {
			t.Errorf("a second after the pause it has made %d writes", writes.Load())
		}
	})
}
