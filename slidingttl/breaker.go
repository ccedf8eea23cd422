package slidingttl

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker opens when the store does not take touches in the time that a read waits, so
// that reads need not find out one by one. A nil breaker never opens.
type breaker struct {
	gobreaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	failing   atomic.Bool // the last touch failed: it was not merely late
	changed   func(open bool)
	changes   atomic.Int32 // how often it has opened or closed
	told      atomic.Int32 // changes, when changed was last called
	telling   sync.Mutex   // held while changed runs; guards wasOpen
	wasOpen   bool         // what changed was last called with
}

// errUntried says of a touch that it tells nothing of the store.
var errUntried = errors.New("untried")

const (
	breakerWindow = 10 * time.Second // over which touches are judged
	breakerPause  = time.Second      // between probes of an open breaker
	breakerLeast  = 10               // touches, below which only a run of failures opens it
	breakerRun    = 5                // failures in a row that open it
)

// newBreaker returns a breaker that tells changed whether it has opened or closed.
func newBreaker(changed func(open bool)) *breaker {
	b := &breaker{changed: changed}
	b.gobreaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:  1,
		IsExcluded:   func(err error) bool { return err == errUntried },
		Interval:     breakerWindow,
		BucketPeriod: breakerWindow / 10,
		Timeout:      breakerPause,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return c.ConsecutiveFailures >= breakerRun || c.Requests >= breakerLeast && 2*c.TotalFailures >= c.Requests
		},
		OnStateChange: func(_ string, from, to gobreaker.State) {
			if from == gobreaker.StateClosed || to == gobreaker.StateClosed {
				b.changes.Add(1) // it is told without the lock that is held here
			}
		},
	})
	return b
}

// open reports whether the store is not known to take touches in time.
func (b *breaker) open() bool { return b != nil && b.gobreaker.State() != gobreaker.StateClosed }

// down reports whether the store is not known to take touches at all.
func (b *breaker) down() bool { return b.open() && b.failing.Load() }

// allow returns what is to be told of a touch: at once when it is late, and then how
// it ended. False: the breaker is open, and it is not time to probe the store.
func (b *breaker) allow() (done func(error), ok bool) {
	if b == nil {
		return func(error) {}, true
	}
	tell, err := b.gobreaker.Allow()
	told := atomic.Bool{}
	told.Store(err != nil)
	return func(err error) {
		if err != errUntried && err != errLate {
			b.failing.Store(err != nil)
		}
		if told.CompareAndSwap(false, true) {
			tell(err)
			b.tell()
		}
	}, err == nil
}

// tell calls changed after a change, in order: one who finds another calling leaves it
// to him.
func (b *breaker) tell() {
	for b.told.Load() != b.changes.Load() && b.telling.TryLock() {
		n := b.changes.Load()
		if open := b.open(); open != b.wasOpen {
			b.wasOpen = open
			b.changed(open)
		}
		b.told.Store(n)
		b.telling.Unlock()
	}
}
