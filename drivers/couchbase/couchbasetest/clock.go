package couchbasetest

import (
	"sync/atomic"
	"time"
)

// clock is the node's view of time: the real clock moved by an offset, or an
// instant that stands still.
type clock struct {
	state atomic.Pointer[clockState]
}

type clockState struct {
	frozen bool
	at     int64         // Unix nanoseconds, when frozen
	offset time.Duration // from the real clock, when not
}

func (c *clock) now() int64 {
	s := c.state.Load()
	switch {
	case s == nil:
		return time.Now().UnixNano()
	case s.frozen:
		return s.at
	default:
		return time.Now().Add(s.offset).UnixNano()
	}
}

func (c *clock) set(t time.Time) {
	if t.IsZero() {
		c.state.Store(nil)
		return
	}
	c.state.Store(&clockState{frozen: true, at: t.UnixNano()})
}

func (c *clock) advance(d time.Duration) {
	for {
		old := c.state.Load()
		var s clockState
		if old != nil {
			s = *old
		}
		if s.frozen {
			s.at += int64(d)
		} else {
			s.offset += d
		}
		if c.state.CompareAndSwap(old, &s) {
			return
		}
	}
}

// Now returns the node's time. If code under test takes its clock as a
// func() time.Time, pass this method, so that both have the same time.
func (n *Node) Now() time.Time { return time.Unix(0, n.clock.now()).UTC() }

// SetTime stops the node's clock at t. From then on only [Node.Advance] and SetTime move
// it. The zero time starts the real clock again. Times before 1971 are not modelled: the
// protocol takes expiries that small for relative ones.
func (n *Node) SetTime(t time.Time) { n.clock.set(t) }

// Advance moves the node's clock by d. A clock that SetTime stopped stays
// stopped, a running one runs on from there. Documents whose expiry has passed
// are gone at once. A negative d moves it back, like a corrected clock;
// compare-and-swap values still grow.
func (n *Node) Advance(d time.Duration) { n.clock.advance(d) }
