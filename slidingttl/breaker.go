package slidingttl

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// breaker opens when the store does not take touches, so that reads need not find
// out one by one. A nil breaker never opens.
type breaker struct {
	gobreaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	changed   func(open bool)
	changes   atomic.Int32 // that changed is still to be told of
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

// open reports whether the store is not known to take touches.
func (b *breaker) open() bool { return b != nil && b.gobreaker.State() != gobreaker.StateClosed }

// allow lets a touch go ahead, and returns what is to be told of it: at once when it
// is late, and else how it ended. False: the breaker is open.
func (b *breaker) allow() (done func(error), ok bool) {
	if b == nil {
		return func(error) {}, true
	}
	tell, err := b.gobreaker.Allow()
	if err != nil {
		return func(error) {}, false
	}
	var told atomic.Bool
	return func(err error) {
		if told.CompareAndSwap(false, true) {
			tell(err)
			for ; b.changes.Load() > 0; b.changes.Add(-1) {
				b.changed(b.open())
			}
		}
	}, true
}
