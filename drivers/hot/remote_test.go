package hot_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// remote behaves like a store across a network: the memory driver with other capabilities. It
// respects contexts, counts the trips of reads, delays answers, fails, and hangs.
type remote[T any] struct {
	*memory.Driver[T]
	eventual bool // its reads may be stale, but for Latest
	plain    bool // a read and a touch are two trips
	mender   driver.Mender

	mu     sync.Mutex // guards the rest
	trips  int        // of reads
	latest int        // those that were by Latest
	hold   func(ctx context.Context)
	down   bool
	hung   chan struct{} // nil: it answers
}

var errDown = errors.New("the store is down")

func newRemote[T any](t testing.TB) *remote[T] {
	t.Helper()
	return newRetaining[T](t, 0)
}

// newRetaining is newRemote with a retention.
func newRetaining[T any](t testing.TB, retain time.Duration) *remote[T] {
	t.Helper()
	d, err := memory.New(&memory.Options[T]{Retain: retain})
	ok(t, "memory.New", err)
	t.Cleanup(func() { ok(t, "Close", d.Close()) })
	return &remote[T]{Driver: d}
}

// Wrapped implements driver.Wrapper.
func (r *remote[T]) Wrapped(capability any) (any, driver.Way) {
	switch capability.(type) {
	case *driver.Local[T]:
		return nil, driver.Past
	case *driver.Mender:
		return r.mender, driver.Past
	case *driver.ReadToucher[T]:
		if r.plain {
			return nil, driver.Past
		}
	case *driver.Latest[T]:
		if r.eventual {
			return latest[T]{r.Driver, r}, driver.Past
		}
		return nil, driver.Past
	}
	return nil, driver.Always
}

type latest[T any] struct {
	driver.Driver[T]
	of *remote[T]
}

func (l latest[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	l.of.set(func() { l.of.latest++ })
	return l.of.Get(ctx, key)
}

// begin lets a call reach the store, unless it returns an error.
func (r *remote[T]) begin(ctx context.Context) error {
	r.mu.Lock()
	down, hung := r.down, r.hung
	r.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case down:
		return errDown
	}
	return nil
}

// answer delays the answer of a read that has been executed.
func (r *remote[T]) answer(ctx context.Context) {
	r.mu.Lock()
	r.trips++
	hold := r.hold
	r.mu.Unlock()
	if hold != nil {
		hold(ctx)
	}
}

// during returns the number of reads that reach the store while f runs.
func (r *remote[T]) during(f func()) int {
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.trips
	}
	before := count()
	f()
	return count() - before
}

// set changes the behaviour of begin and answer.
func (r *remote[T]) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// holds delays answers by hold; nil: no delay.
func (r *remote[T]) holds(hold func(ctx context.Context)) { r.set(func() { r.hold = hold }) }

func (r *remote[T]) fail() (mend func()) {
	r.set(func() { r.down = true })
	return func() { r.set(func() { r.down = false }) }
}

func (r *remote[T]) hang() (release func()) {
	hung := make(chan struct{})
	r.set(func() { r.hung = hung })
	return sync.OnceFunc(func() { close(hung) })
}

func (r *remote[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	if err := r.begin(ctx); err != nil {
		return driver.Entry[T]{}, err
	}
	e, err := r.Driver.Get(ctx, key)
	r.answer(ctx)
	if ctx.Err() != nil {
		return driver.Entry[T]{}, ctx.Err()
	}
	return e, err
}

func (r *remote[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	found, failed := make(map[string]driver.Entry[T]), driver.KeyErrors(nil)
	for i, key := range keys {
		if key == "" {
			failed = append(failed, &driver.KeyError{Index: i, Err: driver.CheckKey(key, 0)})
		} else if e, err := r.Driver.Get(ctx, key); err == nil {
			found[key] = e
		}
	}
	r.answer(ctx)
	return found, failed.Err()
}

func (r *remote[T]) ReadTouch(ctx context.Context, key string, _ *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	if err := r.begin(ctx); err != nil {
		return driver.Entry[T]{}, false, err
	}
	for {
		e, err := r.Driver.Get(ctx, key)
		life, due := a.Touch(e.Life)
		touched := err == nil && due && e.Alive(now)
		if touched {
			was := e.Meta
			e.Life = life
			if e.Version, err = r.Driver.Touch(ctx, key, was, life, now); err != nil {
				continue
			}
		}
		r.answer(ctx)
		return e, touched, err
	}
}

func (r *remote[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx); err != nil {
		return 0, err
	}
	return r.Driver.Insert(ctx, key, v, life, now)
}

func (r *remote[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx); err != nil {
		return 0, err
	}
	return r.Driver.Replace(ctx, key, v, was, life, now)
}

func (r *remote[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := r.begin(ctx); err != nil {
		return 0, err
	}
	return r.Driver.Touch(ctx, key, was, life, now)
}

func (r *remote[T]) Delete(ctx context.Context, key string) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.Driver.Delete(ctx, key)
}

func (r *remote[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	return r.Driver.Remove(ctx, key, was, now)
}

func (r *remote[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if err := r.begin(ctx); err != nil {
		return driver.Meta{}, err
	}
	return r.Driver.Upsert(ctx, key, v, known, plan, now)
}

func (r *remote[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	return r.Upsert(ctx, key, v, nil, a.Overwrite(newLife, now), now)
}

func (r *remote[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	if err := r.begin(ctx); err != nil {
		return driver.Page{}, err
	}
	return r.Driver.Scan(ctx, from, limit)
}

func (r *remote[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	if err := r.begin(ctx); err != nil {
		return driver.Raw{}, err
	}
	return r.Driver.Raw(ctx, key)
}

func (r *remote[T]) Check(ctx context.Context, _ time.Duration) error { return r.begin(ctx) }

func (r *remote[T]) now() driver.Instant { return driver.Floor(r.Now()) }

// life returns a life of ttl from now.
func (r *remote[T]) life(ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: r.now(), ExpiresAt: r.now().Add(ttl)}
}

// plant writes v under key as another process would.
func (r *remote[T]) plant(ctx context.Context, key string, v T, life driver.Life) error {
	if err := r.Driver.Delete(ctx, key); err != nil {
		return err
	}
	_, err := r.Driver.Insert(ctx, key, v, life, r.now())
	return err
}

// put is plant of a record that lives for ttl.
func (r *remote[T]) put(t testing.TB, key string, v T, ttl time.Duration) {
	t.Helper()
	ok(t, "plant", r.plant(t.Context(), key, v, r.life(ttl)))
}
