package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// trial is one run of a case. It collects failures instead of reporting them, so that the
// suite can be tested on broken drivers.
type trial struct {
	ctx     context.Context // of calls by the caller's clock
	byStore context.Context // of calls by the store's
	h       *Harness
	b       *Backend
	d       driver.Driver[Value]
	step    time.Duration // the driver's resolution
	unit    time.Duration // what waiting is counted in
	margin  time.Duration // how close before an instant the backend can be read
	clock   clock         // the caller's
	prefix  string        // of keys

	mu       sync.Mutex // guards the rest
	failed   []string
	stopped  bool // by Fatalf
	cleanups []func()
}

func newTrial(ctx context.Context, h *Harness, b *Backend) *trial {
	t := &trial{ctx: driver.WithOtherClock(ctx), byStore: ctx, h: h, b: b, d: b.Driver, step: b.Driver.Resolution()}
	t.unit = max(time.Second, t.step)
	t.margin = t.unit
	if h.Bubble {
		t.margin = time.Millisecond
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	t.prefix = "drivertest-" + hex.EncodeToString(random[:]) + "-"
	t.clock.set(t.backendNow())
	return t
}

// execute runs c to its end, or to its first Fatalf.
func (t *trial) execute(c testCase) []string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		c.run(t)
	}()
	<-done
	return t.failed
}

// cleanup calls f after the case, in reverse order of registration.
func (t *trial) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

func (t *trial) cleanUp() {
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}

// Errorf notes a failure. It may be called from any goroutine.
func (t *trial) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = append(t.failed, fmt.Sprintf(format, args...))
}

// Fatalf notes a failure and ends the case. Within together it first ends its goroutine.
func (t *trial) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	t.mu.Lock()
	t.stopped = true
	t.mu.Unlock()
	runtime.Goexit()
}

// together runs f(0) to f(n-1) at once and returns when all have.
func (t *trial) together(n int, f func(i int)) {
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
	t.mu.Lock()
	stopped := t.stopped
	t.mu.Unlock()
	if stopped {
		runtime.Goexit()
	}
}

// clock is a caller's clock, which stands still until it is moved.
type clock struct {
	mu sync.Mutex // guards t
	t  time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

// set moves c to t, truncated to a millisecond.
func (c *clock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = driver.Floor(t).Time()
}

func (c *clock) advance(d time.Duration) { c.set(c.Now().Add(d)) }

// now is the caller's time.
func (t *trial) now() driver.Instant { return driver.Floor(t.clock.Now()) }

// advance moves the caller's clock ahead of the backend's.
func (t *trial) advance(d time.Duration) { t.clock.advance(d) }

func (t *trial) backendNow() time.Time {
	if t.b.Now == nil {
		return time.Now()
	}
	return t.b.Now()
}

// wait lets d pass at the backend, and sets the caller's clock to the backend's.
func (t *trial) wait(d time.Duration) {
	if t.b.Wait == nil {
		time.Sleep(d)
	} else {
		t.b.Wait(d)
	}
	t.clock.set(t.backendNow())
}

// until lets time pass at the backend until at.
func (t *trial) until(at driver.Instant) {
	for range 100 {
		d := at.Time().Sub(t.backendNow())
		if d <= 0 {
			t.clock.set(t.backendNow())
			return
		}
		t.wait(d)
	}
	t.Fatalf("Backend.Wait does not move Backend.Now")
}

// key returns the key of that name in this case.
func (t *trial) key(name string) string { return t.prefix + name }

// at rounds an instant up to the store's resolution.
func (t *trial) at(i driver.Instant) driver.Instant { return i.RoundUp(t.step) }

// life is that of a record created now which expires ttl from now, rounded up.
func (t *trial) life(ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: t.now(), ExpiresAt: t.at(t.now().Add(ttl))}
}

// later is l with its expiry moved by d, rounded up.
func (t *trial) later(l driver.Life, d time.Duration) driver.Life {
	return driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: t.at(l.ExpiresAt.Add(d))}
}

// insert makes a record under key that holds value(n) with life l.
func (t *trial) insert(key string, n int, l driver.Life) driver.Entry[Value] {
	version, err := t.d.Insert(t.ctx, key, value(n), l, t.now())
	if err != nil {
		t.Fatalf("Insert of an absent key: %v", err)
	}
	return driver.Entry[Value]{Value: value(n), Meta: driver.Meta{Life: l, Version: version}}
}

// plant makes a record under key that holds value(n), as another program would.
func (t *trial) plant(key string, n int, l driver.Life) driver.Entry[Value] {
	if err := t.b.Plant(t.ctx, key, value(n), l); err != nil {
		t.Fatalf("Backend.Plant: %v", err)
	}
	e := t.get(key)
	if e.Life != l {
		t.Fatalf("Backend.Plant wrote %s, Get returns %s", describe(l), describe(e.Life))
	}
	return e
}

// get returns what is stored under key.
func (t *trial) get(key string) driver.Entry[Value] {
	e, err := t.d.Get(t.ctx, key)
	if err != nil {
		t.Fatalf("Get of a record that is stored: %v", err)
	}
	return e
}

// stored wants exactly want under key.
func (t *trial) stored(when, key string, want driver.Entry[Value]) {
	e, err := t.d.Get(t.ctx, key)
	if err != nil {
		t.Errorf("%s: Get: %v; want the record", when, err)
		return
	}
	t.same(when, e, want)
}

func (t *trial) same(when string, got, want driver.Entry[Value]) {
	if got.Life != want.Life {
		t.Errorf("%s: the record has %s; want %s", when, describe(got.Life), describe(want.Life))
	}
	if got.Version != want.Version {
		t.Errorf("%s: the record has version %d; want %d", when, got.Version, want.Version)
	}
	if !got.Value.equal(want.Value) {
		t.Errorf("%s: the record holds %.300s; want %.300s", when, spell(got.Value), spell(want.Value))
	}
}

// absent wants no live record under key, and no record at all if no record there has expired
// by the backend's own clock.
func (t *trial) absent(when, key string) {
	e, err := t.d.Get(t.ctx, key)
	switch {
	case err == nil:
		t.Errorf("%s: Get returns a record with %s; want none", when, describe(e.Life))
	case !errors.Is(err, driver.ErrNotFound):
		t.Errorf("%s: Get: %v; want %v", when, err, driver.ErrNotFound)
	}
}

// notFound wants err to be ErrNotFound.
func (t *trial) notFound(when string, err error) {
	if !errors.Is(err, driver.ErrNotFound) || errors.Is(err, driver.ErrConflict) {
		t.Errorf("%s: the error is %v; want %v", when, err, driver.ErrNotFound)
	}
}

// conflict wants err to be a *ConflictError that carries found.
func (t *trial) conflict(when string, err error, found driver.Meta) {
	var c *driver.ConflictError
	if !errors.As(err, &c) || errors.Is(err, driver.ErrNotFound) {
		t.Errorf("%s: the error is %v; want a *driver.ConflictError", when, err)
		return
	}
	if !errors.Is(err, driver.ErrConflict) {
		t.Errorf("%s: the error does not match driver.ErrConflict", when)
	}
	if c.Found.Life != found.Life {
		t.Errorf("%s: ConflictError.Found has %s; want %s", when, describe(c.Found.Life), describe(found.Life))
	}
	if c.Found.Version != found.Version {
		t.Errorf("%s: ConflictError.Found has version %d; want %d", when, c.Found.Version, found.Version)
	}
}

// ok wants err to be nil.
func (t *trial) ok(when string, err error) {
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
}

// quiet wants no key of this case in err's text.
func (t *trial) quiet(when string, err error) {
	if err != nil && strings.Contains(err.Error(), t.prefix) {
		t.Errorf("%s: the error's text holds the key: %v", when, err)
	}
}

func describe(l driver.Life) string {
	instant := func(i driver.Instant) string {
		if i == 0 {
			return "none"
		}
		return i.Time().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return "created_at " + instant(l.CreatedAt) + ", expiry " + instant(l.ExpiresAt)
}

// capability returns the driver as the C that a case needs.
func capability[C any](t *trial) C {
	c, ok := driver.As[C](t.d)
	if !ok {
		t.Fatalf("the driver has not the capability that this case needs")
	}
	return c
}
