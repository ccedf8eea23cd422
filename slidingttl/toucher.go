package slidingttl

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// access is an access to a live record that found a touch due.
type access struct {
	key     string
	was     driver.Meta
	rules   *rules
	at      driver.Instant // when, rounded up: what it promises counts from here
	created driver.Instant // created_at for a record that has none
	since   uint64         // the memo's clock before the record was read
}

// kept reports whether m, of the same generation, keeps what a promises.
func (a *access) kept(m driver.Meta) bool { return !a.rules.due(m.Life, a.at) }

// toucher writes the touches that accesses found due: each key one at a time, on
// contexts of their own, to the end of which close waits.
type toucher struct {
	store interface {
		Touch(context.Context, string, driver.Meta, driver.Life, driver.Instant) (driver.Version, error)
	}
	clock   driver.Clock
	timeout time.Duration
	local   bool
	onError func(context.Context, string, error)
	stats   *tally
	memo    *memo
	group   singleflight.Group
	queue   queue

	stop     context.Context // ends when close gives up
	giveUp   context.CancelFunc
	running  sync.WaitGroup // touches in flight, and workers
	draining sync.Mutex     // guards closed, and orders running.Add before close's Wait
	closed   bool

	panicMu  sync.Mutex // guards panicked
	panicked *PanicError
}

// touchAttempts bounds the races that one touch may lose. Whoever wins a race
// moves the expiry, so a second attempt mostly finds nothing left to do.
const touchAttempts = 8

// errLost says that the record a touch was for is gone, dead or of another
// generation.
var errLost = errors.New("record vanished before its touch")

// outcome is what a shared touch came to.
type outcome struct {
	generation driver.Instant // of the record it was planned for
	meta       driver.Meta
	err        error
}

// enter counts one more touch in flight. False: the toucher is closed.
func (t *toucher) enter() bool {
	t.draining.Lock()
	defer t.draining.Unlock()
	if !t.closed {
		t.running.Add(1)
	}
	return !t.closed
}

// wait brings about the touch that a needs and returns the record as it is then.
// It waits no longer than ctx; the touch goes on.
func (t *toucher) wait(ctx context.Context, a access) (driver.Meta, error) {
	if t.local {
		o := t.touch(ctx, a)
		return o.meta, o.err
	}
	if !t.enter() {
		return a.was, ErrClosed
	}
	return t.share(ctx, a, t.running.Done)
}

// share joins the touch of a's key that is under way, or starts one, and follows
// with another where that one's promise falls short of a's. It calls done when
// nothing that it started or joined runs any more.
func (t *toucher) share(ctx context.Context, a access, done func()) (driver.Meta, error) {
	for {
		if m, ok := t.landed(&a); ok {
			t.stats.add(cShared)
			done()
			return m, nil
		}
		led := false
		shared := t.group.DoChan(a.key, func() (any, error) {
			// One that was under way may have landed and left the group since.
			if m, ok := t.landed(&a); ok {
				return outcome{a.was.CreatedAt, m, nil}, nil
			}
			led = true
			return t.detached(ctx, a), nil
		})
		var o outcome
		select {
		case r := <-shared:
			o = r.Val.(outcome)
		case <-ctx.Done():
			go func() {
				<-shared
				done()
			}()
			return a.was, ctx.Err()
		}
		other := o.generation != a.was.CreatedAt && o.meta.CreatedAt != a.was.CreatedAt
		switch {
		case !led && other:
			// It was for another life of this key.
		case !led && o.err == nil && !a.kept(o.meta):
			a.was = o.meta
		default:
			if !led {
				t.stats.add(cShared)
			}
			done()
			return o.meta, o.err
		}
	}
}

// landed returns what a touch of a's record left that landed after a read it, if
// that keeps what a promises.
func (t *toucher) landed(a *access) (driver.Meta, bool) {
	m, ok := t.memo.landedSince(a.key, a.since)
	return m, ok && m.CreatedAt == a.was.CreatedAt && a.kept(m)
}

// detached runs the touch with the caller's values and without its cancellation.
func (t *toucher) detached(ctx context.Context, a access) outcome {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.timeout)
	defer cancel()
	defer context.AfterFunc(t.stop, cancel)()
	return t.touch(ctx, a)
}

// touch writes what a needs, planning again from what it finds when another
// writer was faster.
func (t *toucher) touch(ctx context.Context, a access) outcome {
	m, err := a.was, error(nil)
	for range touchAttempts {
		now := driver.Floor(t.clock.Now())
		if !a.rules.alive(m.Life, now) {
			err = errLost
		} else if a.kept(m) {
			return outcome{a.was.CreatedAt, m, nil}
		} else {
			life := a.rules.touched(m.Life, a.at, a.created)
			var version driver.Version
			if version, err = t.store.Touch(ctx, a.key, m, life, now); err == nil {
				if m.CreatedAt == 0 {
					t.stats.add(cAdopted)
				}
				m = driver.Meta{Life: life, Version: version}
			}
		}
		if err == nil {
			t.stats.add(cTouched)
			t.memo.touched(a.key, m)
			return outcome{a.was.CreatedAt, m, nil}
		}
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) {
			break
		}
		if m.CreatedAt != 0 && m.CreatedAt != conflict.Found.CreatedAt {
			err = errLost
			break
		}
		m = conflict.Found
	}
	if errors.Is(err, ErrNotFound) {
		err = errLost
	}
	if err == errLost {
		t.stats.add(cTouchLost)
		t.memo.forget(a.key)
	} else {
		t.stats.add(cTouchFails)
		t.report(ctx, a.key, err)
	}
	return outcome{a.was.CreatedAt, m, err}
}

// waitAll brings about many touches, some at a time, and joins their failures.
func (t *toucher) waitAll(ctx context.Context, all []access, atOnce int) error {
	if t.local {
		atOnce = 1
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	var mu sync.Mutex // guards failed
	var failed []error
	for _, a := range all {
		group.Go(func() error {
			if _, err := t.wait(ctx, a); err != nil && err != errLost {
				mu.Lock()
				defer mu.Unlock()
				failed = append(failed, err)
			}
			return nil
		})
	}
	_ = group.Wait()
	return errors.Join(failed...)
}

// report tells the hook of a failed touch.
func (t *toucher) report(ctx context.Context, key string, err error) {
	if t.onError == nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			t.stats.add(cHookPanics)
			t.panicMu.Lock()
			defer t.panicMu.Unlock()
			if t.panicked == nil {
				t.panicked = &PanicError{Value: v, Stack: debug.Stack()}
			}
		}
	}()
	t.onError(ctx, key, err)
}

// close refuses new touches and waits for those queued and under way. When ctx
// ends first it gives them up, and waits for the store's calls to return.
func (t *toucher) close(ctx context.Context) error {
	t.draining.Lock()
	t.closed = true
	t.draining.Unlock()

	done := make(chan struct{})
	go func() {
		t.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		before := t.stats.sum(cTouchFails)
		abandoned := t.queue.drop()
		t.giveUp()
		<-done
		abandoned += int(t.stats.sum(cTouchFails) - before)
		if abandoned > 0 {
			err = &DrainError{Abandoned: abandoned, Err: ctx.Err()}
		}
	}
	t.giveUp()
	t.panicMu.Lock()
	defer t.panicMu.Unlock()
	if t.panicked != nil {
		err = errors.Join(err, t.panicked)
		t.panicked = nil
	}
	return err
}
