package slidingttl

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// access is an access to a live record that found a touch due.
type access struct {
	key     string
	was     driver.Meta    // the record that was read
	before  driver.Life    // what a save wiped, for it to go on with
	rules   rules          // those it was under
	at      driver.Instant // when, rounded up: what it promises counts from here
	created driver.Instant // created_at for a record that has none
	since   uint64         // the memo's clock before the record was read
	by      driver.Instant // at, or the store's share of the slack later: when it is due counts from here
	retold  bool           // was has been told since by another touch: rules may be of another value
	waited  bool           // in the queue, where its record may have died
	probes  bool           // the breaker was open when its turn came
	fails   int            // how often it has failed
	sent    time.Time      // when it was given to the store, if somebody asks
	tell    func(error)    // the breaker is to be told how it goes, through this
}

// kept reports whether m, of the same generation, keeps what a promises.
func (a *access) kept(m driver.Meta) bool {
	return !a.rules.due(m.Life, a.by) && !a.rules.wiped(m.Life, a.before, a.at)
}

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

	givenUp atomic.Int64    // touches that close has given up
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
	if waited || t.local {
		return t.bringUntil(ctx, a, over)
	}
	late, stop := t.late()
	defer stop()
	return t.bringUntil(ctx, a, late)
}

// bringUntil is bring for a read that waits until late is closed.
func (t *toucher) bringUntil(ctx context.Context, a *access, late <-chan struct{}) outcome {
	if t.local {
		return t.wait(ctx, a)
	}
	held := t.held()
	select {
	case <-late:
	default:
		if !held && !t.background {
			return t.share(ctx, *a, late)
		}
	}
	if t.push(ctx, *a, held) {
		return outcome{meta: a.was}
	}
	return t.share(ctx, *a, late)
}

// over is a wait that has ended.
var over = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// late returns what is closed when a read has waited long enough for its touches, and
// how to stop that.
func (t *toucher) late() (<-chan struct{}, context.CancelFunc) {
	if t.patience == 0 {
		return nil, func() {}
	}
	ctx, stop := context.WithTimeout(context.Background(), t.patience)
	return ctx.Done(), stop
}

// wait brings about the touch that a needs and returns the record as it is then. It
// waits no longer than ctx, and for no budget; the touch goes on.
func (t *toucher) wait(ctx context.Context, a *access) outcome {
	if t.local {
		a.sent = t.hooks.touching()
		o := t.write(ctx, a)
		t.account(ctx, a, o)
		return o
	}
	t.drain.budget.take()
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
		if a.waited && m.Version != a.was.Version {
			a.before = driver.Life{} // it may have ended meanwhile, and another record been saved
		}
		life, lowers := m.Life, driver.Instant(0)
		if at := driver.Ceil(now); r.due(m.Life, a.by) || r.wiped(m.Life, a.before, at) {
			life = r.touched(m.Life, a.at, cmp.Or(a.before.CreatedAt, a.created), t.drain.budget.grown(r))
			if r.wiped(life, a.before, at) {
				life.ExpiresAt = a.before.ExpiresAt
			}
			if m.CreatedAt != 0 {
				life.ExpiresAt = max(life.ExpiresAt, m.ExpiresAt) // a.by may be another policy's
			}
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
			t.landed(ctx, a, m, left, since)
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

// landed counts and remembers a touch of a that began at since and wrote m over what was
// there.
func (t *toucher) landed(ctx context.Context, a *access, over, m driver.Meta, since uint64) {
	t.ended(ctx, a, TouchWritten, nil)
	if over.CreatedAt == 0 {
		t.stats.add(cAdopted)
	}
	t.memo.touched(a.key, over, m, since)
}

// failed counts a touch that did not come about, and returns why in the terms of
// its callers.
func (t *toucher) failed(ctx context.Context, a *access, err error) error {
	if err == errLost || errors.Is(err, ErrNotFound) {
		t.memo.forget(a.key)
		if a.waited && !a.was.Alive(t.now()) {
			t.broken(ctx, a, TouchShed, ErrShed) // it died waiting, for all that is known
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

// close waits for the calls that g counts and the touches queued and under way.
// When ctx ends first it gives up what is left, and waits for the touches under
// way to return. What waits is given up as well when the store takes no touches.
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
	var why error
	calls := 0
	select {
	case <-done:
		why = cmp.Or(t.drain.refused, ErrClosed)
	case <-ctx.Done():
		t.halting.Lock()
		t.halted = true
		t.halting.Unlock()
		t.giveUp()
		t.drop()
		<-done
		why, calls = ctx.Err(), g.under()
	}
	t.giveUp()
	var err error
	if abandoned := int(t.givenUp.Swap(0)); abandoned+calls > 0 {
		err = &DrainError{Abandoned: abandoned, Calls: calls, Err: why}
	}
	return errors.Join(err, t.hooks.Err())
}
