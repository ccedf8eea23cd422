// Package touches makes the touches that accesses find due, one of a key at a time.
//
// They run on contexts of their own, at the rate that the store and a budget allow. The package
// knows keys, lives and versions, and no values.
//
//	Due, TouchOrQueue  touches.go   is a touch due, and how long the caller waits
//	  admit            flight.go    one touch of a key at a time; later accesses share the next
//	  dispatch         queue.go     what waits, nearest death first
//	    touch          write.go     plans a touch, and again after each race that it lost
//	    end            flight.go    serves the waiting, tries again later what failed
//	Close, Flush       drain.go
//
// Over a driver in this process's memory, touches run within the read.
package touches

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
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

	errLate = errors.New("touch is late")
)

// Config configures the touches of a store.
type Config struct {
	// Write is driver.Driver's Touch.
	Write func(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error)
	// Read reads the latest state of a record, with its rules.
	Read func(ctx context.Context, key string) (driver.Meta, *policy.Rules, error)
	// Ended is called after every touch, while none of the key is under way. It may be nil.
	Ended func(ctx context.Context, e Event)
	// Changed is called after changes of the state, one at a time and in order.
	Changed func(State)

	Clock      driver.Clock
	Tally      *tally.Tally
	Memo       *Memo
	Local      bool // the store is this process's memory
	ByValue    bool // a record's rules depend on its value
	Background bool // reads do not wait for touches
	Strict     bool // reads wait for the touch, and return its error
	Timeout    time.Duration
	Wait       time.Duration // how long a read waits
	Budget     float64
	Queue      int
	Workers    int // zero: 64, and more while touches are late
}

// Access is an access to a live record that found a touch due.
type Access struct {
	Key     string
	Was     driver.Meta    // the record that was read
	Before  driver.Life    // the life that a save overwrote and the record keeps
	Rules   *policy.Rules  // the record's rules
	At      driver.Instant // time of the access, rounded up: its promise counts from here
	DueFrom driver.Instant // At plus the store's share of the slack: a touch is due if the promise from here is not kept
	Birth   driver.Instant // created_at for a record that has none
	Since   uint64         // the memo's clock before the record was read
	Exact   bool           // only for this version, if the record has no created_at
}

// keeps reports whether m, of the same generation, lasts as long as a promises.
func (a *Access) keeps(m driver.Meta) bool {
	return !a.Rules.Due(m.Life, a.DueFrom) && !a.Rules.Restores(m.Life, a.Before, a.At)
}

// lowers reports whether a's touch lowers the expiry.
func (a *Access) lowers() bool { return a.keeps(a.Was) }

// dies is when the record dies without a's touch.
func (a *Access) dies() driver.Instant {
	if a.Was.ExpiresAt == 0 {
		return driver.MaxInstant
	}
	return a.Was.ExpiresAt
}

// Outcome is a touch's result.
type Outcome struct {
	Was      driver.Meta    // the record it was planned for
	Replaced driver.Meta    // the record it replaced; zero: it was not written
	Meta     driver.Meta    // the record stored after it
	Cap      driver.Instant // that record's cap
	Err      error
	result   Result
	tried    bool // the touch was sent
}

// Broke reports whether a promise was broken. A record that is gone needs no touch, and one
// that is locked gets it later.
func (o Outcome) Broke() bool {
	return o.Err != nil && !o.lost() && !errors.Is(o.Err, driver.ErrLocked)
}

func (o Outcome) lost() bool { return o.Err == ErrGone || o.Err == ErrReplaced }

// failed reports whether the touch failed and may succeed later.
func (o Outcome) failed() bool {
	return o.Broke() && !errors.Is(o.Err, driver.ErrInvalid) && o.Err != ErrClosed
}

// Touches are the touches of a store.
type Touches struct {
	Config
	seed     maphash.Seed
	lowering damper
	budget   *budget
	stop     context.Context // ends when Close gives up
	giveUp   context.CancelFunc
	active   sync.WaitGroup // touches that wait or run, and their hooks

	mu       sync.Mutex // guards the rest
	keys     map[string]*slot
	next     jobHeap // the jobs that wait for their turn, the next one first
	farthest jobHeap // the same jobs, the one farthest from death first
	waiting  int     // queued jobs, including those behind a running touch of their key
	flights  flights
	pressure pressure
	told     State       // last argument of Changed
	telling  bool        // Changed is running
	wake     *time.Timer // calls dispatch
	flushing int         // calls of Flush
	closing  bool        // ignore budget and rests
	halted   bool        // start no touch
	givenUp  int         // touches given up by Close
	refused  error       // error of the failing store's last refusal, after which Close gave up
	refusal  chan struct{}
}

// New returns the touches of a store. It starts nothing.
func New(c Config) *Touches {
	t := &Touches{Config: c, seed: maphash.MakeSeed(), keys: make(map[string]*slot), refusal: make(chan struct{})}
	t.lowering.seed = t.seed
	t.stop, t.giveUp = context.WithCancel(context.Background())
	t.next = jobHeap{less: (*job).isBefore}
	t.farthest = jobHeap{place: 1, less: func(a, b *job) bool { return a.dies() > b.dies() }}
	t.flights.init(c.Workers)
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
// record keeps; zero: none.
func (t *Touches) Due(a *Access, now time.Time, key string, m driver.Meta, r *policy.Rules, before driver.Life, since uint64) bool {
	at := driver.Ceil(now)
	dueFrom := t.DueFrom(r, key, m.Life, at)
	if !r.Due(m.Life, dueFrom) && !r.Restores(m.Life, before, at) && !t.lowers(r, key, m.Life, at) {
		return false
	}
	*a = Access{Key: key, Was: m, Before: before, Rules: r, At: at, DueFrom: dueFrom, Birth: policy.Birth(now), Since: since}
	return true
}

// DueFrom calls policy.Rules' DueFrom for the life l of key.
func (t *Touches) DueFrom(r *policy.Rules, key string, l driver.Life, at driver.Instant) driver.Instant {
	return r.DueFrom(l, at, func() float64 {
		var h maphash.Hash
		h.SetSeed(t.seed)
		h.WriteString(key)
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(l.ExpiresAt)))
		return float64(h.Sum64()>>11) / (1 << 53)
	})
}

// Late returns a channel that closes when a read has waited long enough, and its stop.
func (t *Touches) Late() (<-chan struct{}, context.CancelFunc) {
	if t.Wait == 0 {
		return nil, func() {}
	}
	ctx, stop := context.WithTimeout(context.Background(), t.Wait)
	return ctx.Done(), stop
}

// TouchOrQueue makes or queues the touch that a needs.
//
// If the caller need not wait, it returns the record as it was. A read waits until late ends, and
// not at all if late has ended before. urgent: the caller waits until ctx ends, and the touch
// ignores the budget. The touch goes on in any case.
func (t *Touches) TouchOrQueue(ctx context.Context, a *Access, late <-chan struct{}, urgent bool) Outcome {
	if t.Local {
		sent := t.sent()
		o := t.touch(ctx, a, false, false)
		t.count(ctx, a, o, sent)
		return o
	}
	j, waits := t.admit(ctx, a, late, urgent)
	if !waits {
		return Outcome{Meta: a.Was, Cap: a.Rules.Cap(a.Was.CreatedAt)}
	}
	select {
	case <-j.done:
		return j.outcome
	case <-ctx.Done():
		return Outcome{Meta: a.Was, Err: ctx.Err()}
	case <-late:
		return Outcome{Meta: a.Was, Err: errLate}
	}
}

// Lead runs f, a read and touch in one, as the touch of key. Later accesses share f's outcome. Lead
// returns nil, and does nothing, if another touch of the key runs or waits, or while reads do not
// wait for touches.
func (t *Touches) Lead(ctx context.Context, key string, f func(context.Context) Outcome) (done <-chan struct{}) {
	t.lock()
	defer t.mu.Unlock()
	if t.halted || t.keys[key] != nil || t.pressure.any() {
		return nil
	}
	s := t.slot(key)
	j := t.newJob(s, new(Access))
	j.ctx, j.lead = context.WithoutCancel(ctx), f
	t.start(s, j)
	return j.done
}

// Halted reports whether Close has given up waiting for calls.
func (t *Touches) Halted() bool { return t.stop.Err() != nil }

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
}
