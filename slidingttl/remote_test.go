package slidingttl_test

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// hoard is a store without optional capabilities that never deletes expired records.
type hoard[T any] = fakestore.Store[T]

// remote behaves like a store across a network: its calls take time, can fail, are counted, and end
// with their context. It has no optional capability.
type remote[T any] struct {
	fakestore.Driver[T]
	under driver.Driver[T]
	trip  time.Duration // each way

	// before, if set, runs when a call reaches the store; an error fails it there.
	before func(ctx context.Context, op, key string) error
	// after, if set, runs when a call has been carried out and is on its way back.
	after func(op, key string)

	mu    sync.Mutex // guards calls and lives
	calls map[string]int
	lives []step
}

// step is a change of a record's life that the store executed.
type step struct {
	op, key  string
	at       time.Time
	was, now driver.Life
}

func (r *remote[T]) answer(c *fakestore.Call[T]) {
	r.mu.Lock()
	r.calls[c.Op]++
	r.mu.Unlock()
	if c.Err = sleep(c.Ctx, r.trip); c.Err != nil {
		return
	}
	if r.before != nil {
		if c.Err = r.before(c.Ctx, c.Op, c.Key); c.Err != nil {
			return
		}
	}
	fakestore.Forward(r.under, c)
	if c.Err == nil && !c.Reads() {
		r.mu.Lock()
		r.lives = append(r.lives, step{c.Op, c.Key, time.Now(), c.Was.Life, c.Life})
		r.mu.Unlock()
	}
	if r.after != nil {
		r.after(c.Op, c.Key)
	}
	if err := sleep(c.Ctx, r.trip); err != nil {
		c.Err = err
	}
}

var sleep = driver.Sleep

func hangs(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// count returns how often op was called.
func (r *remote[T]) count(op string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[op]
}

// counts returns all calls since the last counts.
func (r *remote[T]) counts() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := maps.Clone(r.calls)
	clear(r.calls)
	return all
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// newRemote returns a remote hoard with a resolution of step.
func newRemote[T any](step time.Duration) (*remote[T], *hoard[T]) {
	h := fakestore.New[T](step)
	return over(h), h
}

// over returns a remote store that keeps its records in under.
func over[T any](under driver.Driver[T]) *remote[T] {
	r := &remote[T]{under: under, calls: make(map[string]int)}
	r.Step, r.Handle = under.Resolution(), r.answer
	return r
}

// open returns a store over d that is closed, all drained, at the end of the test.
func open[T any](t *testing.T, d driver.Driver[T], p slidingttl.Policy, opts *slidingttl.Options[T]) *slidingttl.Store[T] {
	t.Helper()
	s, err := slidingttl.New(d, p, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// crowd counts the calls under way, and the most at once.
type crowd struct{ now, most atomic.Int64 }

func (c *crowd) enter() (leave func()) {
	n := c.now.Add(1)
	for most := c.most.Load(); n > most && !c.most.CompareAndSwap(most, n); most = c.most.Load() {
	}
	return func() { c.now.Add(-1) }
}
