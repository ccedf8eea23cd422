package slidingttl_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// remote behaves like a store across a network: its calls take time, can fail, are counted, and end
// with their context. It has no optional capability.
type remote[T any] struct {
	under driver.Driver[T]
	trip  time.Duration // each way

	// before, if set, runs when a call reaches the store; an error fails it there.
	before func(ctx context.Context, op, key string) error
	// after, if set, runs when a call has been carried out and is on its way back.
	after func(op, key string)

	mu    sync.Mutex // guards calls and wrote
	calls map[string]int
	lives []step
}

// step is a change of a record's life that the store executed.
type step struct {
	op, key  string
	at       time.Time
	was, now driver.Life
}

func (r *remote[T]) call(ctx context.Context, op, key string, f func() error) error {
	r.mu.Lock()
	if r.calls == nil {
		r.calls = make(map[string]int)
	}
	r.calls[op]++
	r.mu.Unlock()
	if err := sleep(ctx, r.trip); err != nil {
		return err
	}
	if r.before != nil {
		if err := r.before(ctx, op, key); err != nil {
			return err
		}
	}
	err := f()
	if r.after != nil {
		r.after(op, key)
	}
	if err := sleep(ctx, r.trip); err != nil {
		return err
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *remote[T]) landed(op, key string, was, now driver.Life, err error) {
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lives = append(r.lives, step{op, key, time.Now(), was, now})
	}
}

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

func (r *remote[T]) Resolution() time.Duration { return r.under.Resolution() }

func (r *remote[T]) Get(ctx context.Context, key string) (e driver.Entry[T], err error) {
	err = r.call(ctx, "get", key, func() (err error) {
		e, err = r.under.Get(ctx, key)
		return err
	})
	return e, err
}

func (r *remote[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = r.call(ctx, "insert", key, func() (err error) {
		version, err = r.under.Insert(ctx, key, v, life, now)
		r.landed("insert", key, driver.Life{}, life, err)
		return err
	})
	return version, err
}

func (r *remote[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = r.call(ctx, "replace", key, func() (err error) {
		version, err = r.under.Replace(ctx, key, v, was, life, now)
		r.landed("replace", key, was.Life, life, err)
		return err
	})
	return version, err
}

func (r *remote[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	err = r.call(ctx, "touch", key, func() (err error) {
		version, err = r.under.Touch(ctx, key, was, life, now)
		r.landed("touch", key, was.Life, life, err)
		return err
	})
	return version, err
}

func (r *remote[T]) Delete(ctx context.Context, key string) error {
	return r.call(ctx, "delete", key, func() error {
		err := r.under.Delete(ctx, key)
		r.landed("delete", key, driver.Life{}, driver.Life{}, err)
		return err
	})
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// newRemote returns a remote hoard with a resolution of step.
func newRemote[T any](step time.Duration) (*remote[T], *hoard[T]) {
	h := &hoard[T]{Step: step}
	return &remote[T]{under: h}, h
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
