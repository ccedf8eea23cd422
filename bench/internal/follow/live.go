package follow

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// task is one run: live calls, and an adoption beside them.
type task struct {
	Server string // empty: a simulated store
	Keys   int    // on it, to adopt: thousands
	Live   int    // calls a second, at random
	Alone  bool   // no adoption
	Follow bool   // it follows the load; otherwise it makes Writes a second, zero: as many as it can
	Writes float64
	Length time.Duration
	Seed   uint64
}

func (t task) way() string {
	switch {
	case t.Alone:
		return "alone"
	case t.Follow:
		return "--follow"
	case t.Writes == 0:
		return "no ceiling"
	}
	return fmt.Sprintf("--writes %v", t.Writes)
}

func (t task) where() string {
	if t.Server == "" {
		return fmt.Sprintf("simulated, %d calls/s", t.Live)
	}
	return t.Server
}

// store is what the adoption goes through, and what a live call does to it.
type store struct {
	upkeep.Store
	live func(ctx context.Context) error
}

var policy = slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}

// beside makes the live calls of t and the adoption, until its time is over.
func beside(t task, s store) (runner.Sample, error) {
	ctx, cancel := context.WithTimeout(context.Background(), t.Length)
	defer cancel()
	var (
		mu     sync.Mutex // guards took and failed
		took   []time.Duration
		failed error
		calls  sync.WaitGroup
	)
	began := time.Now()
	calls.Go(func() {
		random := rand.New(rand.NewPCG(t.Seed, 1))
		for next := began; ; {
			next = next.Add(time.Duration(random.ExpFloat64() * float64(time.Second) / float64(t.Live)))
			if driver.Sleep(ctx, time.Until(next)) != nil {
				return
			}
			calls.Go(func() {
				err := s.live(context.WithoutCancel(ctx))
				mu.Lock()
				defer mu.Unlock()
				took = append(took, time.Since(next)) // from when it was to begin
				if err != nil {
					failed = err
				}
			})
		}
	})
	var writes int64
	if !t.Alone {
		o := upkeep.AdoptOptions{}
		o.Apply, o.Follow, o.Limits.Writes = true, t.Follow, t.Writes
		r, err := upkeep.Adopt(ctx, s, policy, &o)
		switch {
		case err == nil:
			return nil, fmt.Errorf("%s on %s: the records were adopted in %v", t.way(), t.where(), time.Since(began))
		case ctx.Err() == nil:
			return nil, err
		}
		writes = r.Counts["adopted"]
	}
	calls.Wait()
	slices.Sort(took)
	return runner.Sample{
		"p99-us":       float64(runner.Quantile(took, 0.99).Microseconds()),
		"writes-per-s": float64(writes) / time.Since(began).Seconds(),
	}, failed
}

// queue is a store that serves one call after the other.
type queue struct {
	upkeep.Store
	each time.Duration
	mu   sync.Mutex // guards free
	free time.Time
}

func (q *queue) serve(ctx context.Context) error {
	q.mu.Lock()
	if now := time.Now(); q.free.Before(now) {
		q.free = now
	}
	q.free = q.free.Add(q.each)
	wait := time.Until(q.free)
	q.mu.Unlock()
	return driver.Sleep(ctx, wait)
}

func (q *queue) Touch(ctx context.Context, key string, was driver.Meta, next driver.Life, now driver.Instant) (driver.Version, error) {
	if err := q.serve(ctx); err != nil {
		return 0, err
	}
	return q.Store.Touch(ctx, key, was, next, now)
}

const served = 2 * time.Millisecond // a call, of the simulated store

// simulate does t in virtual time.
func simulate(t task) (runner.Sample, error) {
	d, err := memory.New[int](nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	for i := range int(t.Length/served) + 1000 {
		if _, err := d.Insert(context.Background(), strconv.Itoa(i), 0, driver.Life{}, 1); err != nil {
			return nil, err
		}
	}
	q := &queue{Store: d, each: served}
	return beside(t, store{q, q.serve})
}
