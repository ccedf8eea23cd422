// Package touches makes the touches that accesses find due, one of a key at a time.
//
// They run on contexts of their own, at the rate that the store and a budget allow. The package
// knows keys, lives and versions, and no values.
//
//	Due, TouchOrQueue  touches.go   is a touch due, and how long the caller waits
//	  join             touch.go     the pending touch of a life serves later accesses too
//	  dispatch         queue.go     those whose turn has come, nearest death first
//	  start            touch.go     one touch of a key at a time
//	    write          write.go     plans it, and again after each race that it lost
//	  landed           touch.go     serves those that wait; what failed rests, and is tried again
//	Deleted            deleted.go   what a deletion takes off the touches of its key
//	GoOn               carry.go     a save without its caller
//	Close, Flush       drain.go
//
// A touch waits, is queued, rests, is passed, runs, and has ended: touch.state. All but what write and hooks do
// is done under one lock, and nothing under that takes longer the more touches there are.
//
// Over a driver in this process's memory, touches run within the read.
package touches

import (
	"container/list"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

var (
	// ErrGone says that the record a touch was for is gone or dead.
	ErrGone = errors.New("record vanished before its touch")
	// ErrReplaced says that a new life has begun under the key.
	ErrReplaced = errors.New("record was replaced before its touch")
	// ErrShed says that a touch was given up because too many waited.
	ErrShed = errors.New("touch was shed")
	// ErrClosed says that the store has been closed.
	ErrClosed = errors.New("store is closed")

	errLate    = errors.New("touch is late")
	errGivenUp = fmt.Errorf("%w: %w", ErrClosed, driver.ErrAmbiguous) // it had been sent
)

// Config configures the touches of a store.
type Config struct {
	// Write is driver.Driver's Touch.
	Write func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error)
	// Rules returns the rules that key's record is under now; nil if they depend on its value.
	Rules func(key string) (*rules.Rules, error)
	// Read reads the latest state of a live record, with its rules.
	Read func(ctx context.Context, key string) (driver.Meta, *rules.Rules, error)
	// Ended is called for every touch that has ended. It may be nil.
	Ended func(ctx context.Context, e Event)
	// Changed is called after changes of the state. It may be nil. It and Ended are called one at a
	// time and in order, but those of touches within a read.
	Changed func(State)

	Clock      driver.Clock
	Tally      *tally.Tally
	Memo       *Memo
	Local      bool // the store is this process's memory
	ByValue    bool // a record's rules depend on its value
	Failures   bool // Ended need be called only for what failed or was shed
	Background bool // reads do not wait for touches
	Strict     bool // reads wait for the touch, and return its error
	MaxSkew    time.Duration
	Timeout    time.Duration
	Wait       time.Duration // how long a read waits
	Budget     float64
	Queue      int
	Workers    int // zero: 64, and more while touches are late
}

// Touches are the touches of a store.
type Touches struct {
	Config
	seed     maphash.Seed
	created  time.Time
	lowering *damper
	behind   atomic.Pointer[behind] // what Seen saw last
	budget   *budget
	stop     context.Context // ends when Close gives up
	giveUp   context.CancelFunc

	mu        sync.Mutex // guards the rest
	keys      map[string]*slot
	deletions [1 << 10]*Deletion // by hash of the key
	pending   int                // touches that wait, are queued or rest
	carries   []*carry           // saves that go on without their callers
	number    uint64             // of the touch added last
	ready     turns              // the queued touches, the one nearest to death first
	resting   turns              // the resting ones, the one that wakes next first
	rested    turns              // those whose rest has ended, the one nearest to death first
	passed    turns              // those whose record has died, which go after all others, the one that died last first
	farthest  turns              // all these, the one farthest from death first
	oldest    turns              // all these, the one that came first, first
	recent    list.List          // the queued touches, the one with the last access first
	skipped   time.Duration      // by how much restClock was moved ahead, to end all rests
	limits    limits
	pressure  pressure
	told      State       // last argument of Changed
	hooks     []func()    // to be called by callHooks
	calling   bool        // callHooks is running
	wake      *time.Timer // calls dispatch
	overdrawn bool        // a touch has begun above the budget since pace ran
	pacer     *time.Timer // calls pace; nil: nothing is to be paced
	flushes   []*flush
	closing   bool          // ignore budget and rests
	draining  bool          // and no call is under way any more
	drained   chan struct{} // closed when draining, and no touch or hook is left
	halted    bool          // start no touch
	dropping  bool          // drop is running
	gaveUp    bool          // Close has given up the touches under way too
	refused   error         // of the failing store's last refusal, after which Close gave up

	givenUp, saidGivenUp int // touches given up by Close, and how many of them a Close that has ended said
}

// New returns the touches of a store. It starts nothing.
func New(c Config) *Touches {
	t := &Touches{Config: c, seed: maphash.MakeSeed(), created: time.Now(), keys: make(map[string]*slot), drained: make(chan struct{}), limits: newLimits(c.Workers)}
	t.farthest.place, t.oldest.place = 1, 2
	t.lowering = newDamper(t.seed, c.Memo.size())
	t.stop, t.giveUp = context.WithCancel(context.Background())
	if c.Strict {
		t.Wait = 0
	}
	if !c.Local {
		t.budget = newBudget(c.Budget)
	}
	return t
}

// Due reports whether an access at now to the record m needs a touch, and fills in a.
//
// since is the memo's clock before m was read. before is the life that a save overwrote and the
// record keeps, lowered to what r allows; zero: none.
func (t *Touches) Due(a *Access, now time.Time, key string, m driver.Meta, r *rules.Rules, before driver.Life, since uint64) bool {
	at := driver.Ceil(now)
	dueFrom := t.DueFrom(r, key, m.Life, at)
	if life, beyond := r.Lowered(before, at); beyond && t.Behind() == 0 {
		before = life
	}
	if !r.Due(m.Life, dueFrom) && !restores(m.Life, before) && !t.Lowers(key, since) && !t.lowers(r, key, m.Life, at) {
		return false
	}
	*a = Access{Key: key, Was: m, Before: before, Rules: r, At: at, DueFrom: dueFrom, Birth: rules.Birth(now), Since: since}
	return true
}

// DueFrom calls rules.Rules' DueFrom for the life l of key.
func (t *Touches) DueFrom(r *rules.Rules, key string, l driver.Life, at driver.Instant) driver.Instant {
	return r.DueFrom(l, at, func() float64 {
		var h maphash.Hash
		h.SetSeed(t.seed)
		h.WriteString(key)
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(l.ExpiresAt)))
		return float64(h.Sum64()>>11) / (1 << 53)
	})
}

// Late returns when a read that begins now has waited long enough; zero: never.
func (t *Touches) Late() time.Time {
	if t.Wait == 0 {
		return time.Time{}
	}
	return time.Now().Add(t.Wait)
}

// At returns a channel that tells when the time is late, and its stop.
func At(late time.Time) (reached <-chan time.Time, stop func() bool) {
	if late.IsZero() {
		return nil, func() bool { return false }
	}
	timer := time.NewTimer(time.Until(late))
	return timer.C, timer.Stop
}

// TouchOrQueue makes or queues the touch that a needs. In a transaction of ctx, or over memory, it
// makes it at once.
//
// If the caller need not wait, the record is as it was. A read waits until late, and
// not at all if it is later than that. urgent: the caller waits until ctx ends, and the touch
// ignores the budget. The touch goes on in any case.
func (t *Touches) TouchOrQueue(ctx context.Context, a *Access, late time.Time, urgent bool) Outcome {
	if undo := driver.MayUndo(ctx); t.Local || undo {
		began := t.sent()
		o := t.write(ctx, 0, a, false)
		if o.Err != nil && ctx.Err() != nil && !undo && !t.Lowers(a.Key, a.Since) { // the touch is not to end with its caller
			o = t.write(context.WithoutCancel(ctx), 0, a, false)
		}
		if o.result >= Failed {
			t.broke(a)
		}
		t.Tally.Add(tally.Outcomes + tally.Counter(o.result))
		if t.Ended != nil {
			t.Ended(ctx, t.event(a, o, began))
		}
		return o
	}
	t.lock()
	if t.halted {
		t.givenUp++
		o := Outcome{Err: ErrClosed, result: Failed}
		t.broke(a)
		t.count(ctx, a, o, time.Time{})
		t.unlock()
		return o
	}
	n, waits := t.join(ctx, a, late, urgent)
	t.unlock()
	if !waits {
		return Outcome{Meta: a.Was, Err: ctx.Err()}
	}
	tooLate, stop := At(late)
	defer stop()
	var why error
	select {
	case <-n.done:
		return n.outcome
	case <-ctx.Done():
		why = ctx.Err()
	case <-tooLate:
		why = errLate
	case <-t.stop.Done():
		why = errGivenUp
	}
	return t.goOn(n, a, urgent, why)
}

// goOn returns the outcome for the caller of a that waits for n no longer, because of why, unless n has just ended.
func (t *Touches) goOn(n *touch, a *Access, urgent bool, why error) Outcome {
	t.lock()
	defer t.unlock()
	switch {
	case n.state == ended:
		return n.outcome
	case urgent:
		n.urgent--
	default:
		n.unawaited = n.unawaited || a.alive()
	}
	return Outcome{Err: why}
}

// ReadTouch runs f, a read and touch in one, as a touch of key. Later accesses share its outcome if
// f is ok. ReadTouch returns nil, and does nothing, if another touch of the key has not ended, or
// while reads do not wait for touches.
func (t *Touches) ReadTouch(ctx context.Context, key string, f func(context.Context) (o Outcome, ok bool)) (done <-chan struct{}) {
	t.lock()
	defer t.unlock()
	if t.halted || t.keys[key] != nil || t.pressure.any() {
		return nil
	}
	n := t.add(&Access{Key: key})
	n.ctx, n.readTouch = context.WithoutCancel(ctx), f
	t.start(n)
	return n.done
}

// UntilClosed returns a context that also ends once Close has given up waiting for calls.
func (t *Touches) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	release := context.AfterFunc(t.stop, cancel)
	return ctx, func() {
		release()
		cancel()
	}
}

// Closed returns ErrClosed once Close has given up waiting for calls.
func (t *Touches) Closed() error {
	if t.stop.Err() != nil {
		return ErrClosed
	}
	return nil
}

func (t *Touches) now() driver.Instant { return driver.Floor(t.Clock.Now()) }

// instants returns now rounded down and rounded up.
func (t *Touches) instants() (last, next driver.Instant) {
	now := t.Clock.Now()
	return driver.Floor(now), driver.Ceil(now)
}

// Yield is called before each lock of the touches of any store, while none is held. It is nil outside
// of the tests that order goroutines.
var Yield func()

func (t *Touches) lock() {
	if Yield != nil {
		Yield()
	}
	t.mu.Lock()
	t.calm()
}

// unlock unlocks mu, and tells what has changed since lock.
func (t *Touches) unlock() {
	if now := t.pressure.State; now != t.told && t.Changed != nil && t.Closed() == nil {
		t.told = now
		t.callLater(func() { t.Changed(now) })
	}
	if t.draining && t.pending+len(t.carries)+t.limits.running == 0 && !t.dropping && !t.calling && !isClosed(t.drained) {
		close(t.drained)
	}
	t.mu.Unlock()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
