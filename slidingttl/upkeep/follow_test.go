package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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
			f.Add(fmt.Sprint(i), 0, 0)
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
			time.Sleep(10 * time.Minute)
		} else {
			o.Page, o.Apply = 100, true
			r, err := upkeep.Adopt(t.Context(), queued{f, q}, policy, &o)
			ok(t, err)
			rate = float64(r.Counts["adopted"]) / time.Since(began).Seconds()
		}
		close(done)
		calls.Wait()
		slices.Sort(took)
		p99 = took[len(took)*99/100]
	})
	return p99, rate
}

// A walk that follows the load makes live calls wait a fifth longer at most, in the median of many runs,
// and makes more writes a second the longer it runs.
func TestFollow(t *testing.T) {
	alone, _ := besideLive(t, 0, upkeep.AdoptOptions{})
	t.Logf("alone: p99 %v", alone)
	for _, c := range []struct {
		ceiling, least float64 // by hand 80 writes a second let live calls take 1.2 times as long
		records        int
	}{{0, 36, 20_000}, {50, 25, 8_000}} {
		o := upkeep.AdoptOptions{}
		o.Limits.Writes, o.Follow = c.ceiling, true
		p99, rate := besideLive(t, c.records, o)
		t.Logf("follows below %v: p99 %v (%.2f), %.0f a second", c.ceiling, p99, float64(p99)/float64(alone), rate)
		if most := 1.28; float64(p99) > most*float64(alone) {
			t.Errorf("below %v writes a second live calls take %v; alone %v", c.ceiling, p99, alone)
		}
		if rate < c.least {
			t.Errorf("below %v it makes %.0f writes a second; want %.0f", c.ceiling, rate, c.least)
		}
	}
}

// throttled is a store half of whose writes fail at once while full is set.
type throttled struct {
	*fixture
	full   *atomic.Bool
	writes *atomic.Int64
}

func (s throttled) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	if n := s.writes.Add(1); n%2 == 0 && s.full.Load() {
		return 0, errors.New("throttled")
	}
	return s.fixture.Touch(ctx, key, was, next, now)
}

// A rate that a walk does not use is not raised, and a store that refuses writes gets fewer.
func TestFollowUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 30_000 {
			f.Add(fmt.Sprint(i), 0, 0)
		}
		s := throttled{f, new(atomic.Bool), new(atomic.Int64)}
		o := &upkeep.AdoptOptions{}
		o.Apply, o.Follow, o.Page, o.MaxFailed = true, true, 10, 1
		var all atomic.Bool
		o.Steer = func() (l upkeep.Limits, paused bool) {
			if !all.Load() {
				l.Records = 40
			}
			return l, false
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var walk sync.WaitGroup
		walk.Go(func() { _, _ = upkeep.Adopt(ctx, s, policy, o) })
		second := func() int64 {
			before := s.writes.Load()
			time.Sleep(time.Second)
			return s.writes.Load() - before
		}
		time.Sleep(5 * time.Minute)
		if n := second(); n > 60 {
			t.Fatalf("%d writes in a second of 40 records", n)
		}
		all.Store(true)
		if n := second(); n > 130 {
			t.Errorf("%d writes in the first second of a rate that was not used; want about 80", n)
		}
		time.Sleep(time.Minute)
		before := second()
		s.full.Store(true)
		time.Sleep(time.Minute)
		if n := second(); before < 100 || n > 60 {
			t.Errorf("%d writes a second to a store that refuses half of them; before %d", n, before)
		}
		cancel()
		walk.Wait()
	})
}

// A pause ends the writes within a second, whatever the limits, and higher ones count at once.
func TestSteer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 400 {
			f.Add(fmt.Sprint(i), 0, 0)
		}
		var limit atomic.Int64 // -1: a pause; -2: not a number
		limit.Store(1)
		o := applied()
		o.Page = 10
		o.Steer = func() (upkeep.Limits, bool) {
			n := limit.Load()
			if n == -2 {
				return upkeep.Limits{Writes: math.NaN()}, false
			}
			return upkeep.Limits{Writes: float64(max(n, 0))}, n == -1
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
		limit.Store(-2) // no limit at all
		time.Sleep(time.Hour)
		if after := writes.Load(); after != before || before == 0 || before > 61 {
			t.Errorf("%d writes before the pause, %d after two hours of it", before, after)
		}
		limit.Store(1000)
		time.Sleep(time.Second)
		if !ended.Load() {
			t.Errorf("a second after the pause it has made %d writes", writes.Load())
		}
	})
}
