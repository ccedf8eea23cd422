package slidingttl

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// access is an access to a live record that found a touch due.
type access struct {
	key     string
	was     driver.Meta    // the record that was read
	rules   rules          // those it was under
	at      driver.Instant // when, rounded up: what it promises counts from here
	created driver.Instant // created_at for a record that has none
	since   uint64         // the memo's clock before the record was read
	by      driver.Instant // at, or the store's share of the slack later: when it is due counts from here
	retold  bool           // was has been told since by another touch: rules may be of another value
	waited  bool           // it has waited so long that its record may have died
	sent    time.Time      // when it was given to the store, if somebody asks
	tell    func(error)    // the breaker is to be told how it goes, through this
}

// kept reports whether m, of the same generation, keeps what a promises.
func (a *access) kept(m driver.Meta) bool { return !a.rules.due(m.Life, a.by) }

// lowers reports whether a is to bring the expiry down, not to move it forward.
func (a *access) lowers() bool { return a.kept(a.was) }

// toucher writes the touches that accesses found due: each key one at a time, on
// contexts of their own, to the end of which close waits.
type toucher struct {
	store interface {
		Touch(context.Context, string, driver.Meta, driver.Life, driver.Instant) (driver.Version, error)
	}
	again      func(ctx context.Context, key string, was driver.Instant) (driver.Meta, rules, error)
	byValue    bool // a record's rules depend on its value
	clock      driver.Clock
	timeout    time.Duration
	patience   time.Duration // how long a read waits for its touch; zero: to its end
	background bool
	local      bool
	stats      *tally
	memo       *memo
	hooks      hooks
	lowering   damper
	group      singleflight.Group
	jitter     jitter
	drain      drain

	stop    context.Context // ends when close gives up
	giveUp  context.CancelFunc
	running sync.WaitGroup // touches under way, and workers
	halting sync.RWMutex   // guards halted, and orders running.Add before close's Wait
	halted  bool
}

func (t *toucher) start() bool {
	t.halting.RLock()
	defer t.halting.RUnlock()
	if !t.halted {
		t.running.Add(1)
	}
	return !t.halted
}

// touchAttempts bounds the races that one touch may lose. Whoever wins a race
// moves the expiry, so a second attempt mostly finds nothing left to do.
const touchAttempts = 8

var (
	// errLost says that the record a touch was for is gone, dead or of another
	// generation.
	errLost = errors.New("record vanished before its touch")
	// errLate says that a touch took longer than a read waits. It goes on.
	errLate = errors.New("touch is late")
)

// bring brings about or queues the touch that a read found due, and returns the
// record as it is then, or errLate where the read need not wait for that. A read
// that has waited does not wait again.
func (t *toucher) bring(ctx context.Context, a *access, waited bool) outcome {
	if t.local {
		return t.wait(ctx, a)
	}
	if held := t.held(); held || t.background {
		if t.push(ctx, *a, held) {
			return outcome{meta: a.was}
		}
	}
	if waited {
		return t.share(ctx, *a, over)
	}
	late, stop := t.late()
	defer stop()
	return t.share(ctx, *a, late)
}

// over is a wait that has ended.
var over = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// late returns what ends a read's wait for its touch, and how to stop that.
func (t *toucher) late() (<-chan time.Time, func() bool) {
	if t.patience == 0 {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(t.patience)
	return timer.C, timer.Stop
}

// wait brings about the touch that a needs and returns the record as it is then.
// It waits no longer than ctx; the touch goes on.
func (t *toucher) wait(ctx context.Context, a *access) outcome {
	if t.local {
		a.sent = t.hooks.touching()
		o := t.write(ctx, a)
		t.account(ctx, a, o)
		return o
	}
	return t.share(ctx, *a, nil)
}

// write writes what a needs, planning again from what it finds when another writer
// was faster.
func (t *toucher) write(ctx context.Context, a *access) outcome {
	m, r, retold, read, tried, err := a.was, &a.rules, a.retold, true, false, error(nil)
	for range touchAttempts {
		now := t.clock.Now()
		if retold || !r.alive(m.Life, driver.Floor(now)) {
			// What was read does not say what is stored now, nor under which rules.
			var anew rules
			if m, anew, err = t.again(ctx, a.key, a.was.CreatedAt); err != nil {
				break
			}
			r, read, retold = &anew, true, false
			if now = t.clock.Now(); !r.alive(m.Life, driver.Floor(now)) {
				err = errLost
				break
			}
		}
		life, lowers := m.Life, driver.Instant(0)
		if r.due(m.Life, a.by) {
			life = r.touched(m.Life, a.at, a.created, t.drain.budget.grown(r))
		} else if read {
			life, lowers = t.lower(r, a.key, m.Life, driver.Ceil(now))
		}
		if life == m.Life {
			t.ended(ctx, a, TouchShared, nil)
			return outcome{was: a.was, meta: m, cap: r.limit(m.CreatedAt), tried: tried}
		}
		tried = true
		since := t.memo.now()
		var version driver.Version
		version, err = t.store.Touch(ctx, a.key, m, life, driver.Floor(now))
		if lowers != 0 {
			t.lowered(a.key, lowers, err)
		}
		if err == nil {
			left := driver.Meta{Life: life, Version: version}
			t.landed(ctx, a, m.Life, left, since)
			return outcome{was: a.was, over: m, meta: left, cap: r.limit(left.CreatedAt), tried: true}
		}
		var conflict *driver.ConflictError
		if !errors.As(err, &conflict) {
			break
		}
		if m.CreatedAt != 0 && m.CreatedAt != conflict.Found.CreatedAt {
			err = errLost
			break
		}
		retold = t.byValue && conflict.Found.Version != m.Version
		m, read = conflict.Found, false
	}
	return outcome{was: a.was, meta: m, err: t.failed(ctx, a, err), tried: tried}
}

// landed counts and remembers a touch of a that began at since and wrote m over a
// record of life was.
func (t *toucher) landed(ctx context.Context, a *access, was driver.Life, m driver.Meta, since uint64) {
	t.ended(ctx, a, TouchWritten, nil)
	if was.CreatedAt == 0 {
		t.stats.add(cAdopted)
	}
	t.memo.touched(a.key, m, since)
}

// failed counts a touch that did not come about, and returns why in the terms of
// its callers.
func (t *toucher) failed(ctx context.Context, a *access, err error) error {
	if err == errLost || errors.Is(err, ErrNotFound) {
		t.memo.forget(a.key)
		if a.waited && !a.was.Alive(t.now()) {
			t.shed(&queued{ctx: ctx, access: *a}) // it died waiting, for all that is known
		} else {
			t.ended(ctx, a, TouchLost, nil)
		}
		return errLost
	}
	if errors.Is(err, ErrLocked) {
		t.ended(ctx, a, TouchDeferred, nil)
		return err
	}
	if t.stop.Err() != nil {
		err = ErrClosed // which is what ended the touch's own context
	}
	return err
}

// account counts and reports the touch a if it failed for good.
func (t *toucher) account(ctx context.Context, a *access, o outcome) {
	if broke(o.err) {
		t.fail(ctx, a, o.err)
	}
}

// fail counts and reports a touch that failed.
func (t *toucher) fail(ctx context.Context, a *access, err error) {
	t.broken(ctx, a, TouchFailed, err)
}

// broken counts and reports a touch that did not come about, and the promise that it
// broke thereby at most.
func (t *toucher) broken(ctx context.Context, a *access, o TouchOutcome, err error) {
	short := a.rules.deadline(a.was.CreatedAt, a.at) - a.was.ExpiresAt
	if a.was.ExpiresAt != 0 && short > 0 && !a.rules.promote {
		t.stats.addN(cBroken, int(short))
	}
	t.ended(ctx, a, o, err)
	t.hooks.touchError(ctx, a.key, err)
}

// ended counts the end of a touch, and tells of it.
func (t *toucher) ended(ctx context.Context, a *access, o TouchOutcome, err error) {
	t.stats.add(o.counter())
	if t.hooks.observer.Touch == nil {
		return
	}
	e := TouchEvent{Outcome: o, Left: a.was.ExpiresAt.Sub(t.now()), Err: err}
	if !a.sent.IsZero() {
		e.Duration = time.Since(a.sent)
	}
	t.hooks.touch(ctx, e)
}

// close waits for the calls that g counts and the touches queued and under way.
// When ctx ends first it gives up what is left, and waits for the touches under
// way to return.
func (t *toucher) close(ctx context.Context, g *gate) error {
	t.drain.shut()
	done := make(chan struct{})
	go func() {
		select {
		case <-g.empty:
		case <-t.stop.Done():
		}
		t.running.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		before := t.stats.sum(cTouchFails)
		t.halting.Lock()
		t.halted = true
		t.halting.Unlock()
		t.giveUp()
		t.drop()
		<-done
		abandoned := int(t.stats.sum(cTouchFails) - before)
		if calls := g.under(); abandoned+calls > 0 {
			err = &DrainError{Abandoned: abandoned, Calls: calls, Err: ctx.Err()}
		}
	}
	t.giveUp()
	return errors.Join(err, t.hooks.Err())
}
