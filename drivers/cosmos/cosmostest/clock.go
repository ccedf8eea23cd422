package cosmostest

import (
	"sync/atomic"
	"time"
)

// clock is the account's view of time: the real clock moved by an offset, or an instant
// that stands still.
type clock struct {
	state atomic.Pointer[clockState]
}

type clockState struct {
	at     time.Time     // the time of a stopped clock; zero: it runs
	offset time.Duration // from the real clock, when it runs
}

func (c *clock) now() time.Time {
	s := c.state.Load()
	switch {
	case s == nil:
		return time.Now()
	case !s.at.IsZero():
		return s.at
	default:
		return time.Now().Add(s.offset)
	}
}

func (c *clock) advance(d time.Duration) {
	for {
		old := c.state.Load()
		var s clockState
		if old != nil {
			s = *old
		}
		if s.at.IsZero() {
			s.offset += d
		} else {
			s.at = s.at.Add(d)
		}
		if c.state.CompareAndSwap(old, &s) {
			return
		}
	}
}

// Now returns the account's time.
func (a *Account) Now() time.Time { return a.clock.now().UTC() }

// SetTime stops the account's clock at t. From then on only [Account.Advance] and SetTime
// move it. The zero time starts the real clock again.
func (a *Account) SetTime(t time.Time) {
	if t.IsZero() {
		a.clock.state.Store(nil)
		return
	}
	a.clock.state.Store(&clockState{at: t})
}

// Advance moves the account's clock by d. A clock that SetTime stopped stays stopped, a
// running one runs on from there. Items whose time to live has passed are gone at once.
// Signatures are not checked against it, because clients sign by the system's clock.
func (a *Account) Advance(d time.Duration) { a.clock.advance(d) }
