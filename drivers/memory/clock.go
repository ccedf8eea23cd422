package memory

import (
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	coarseTick  = time.Millisecond
	coarseRun   = 256 * time.Millisecond // how long the coarse clock ticks once woken
	coarseGuard = 100                    // ms by which it may lag
	// coarseWorth is how many reads of the exact clock within a millisecond
	// cost more than a tick does.
	coarseWorth = 64
)

// clock is the system clock as it was when the driver was made, moved on by the
// monotonic clock: one reading instead of the two of time.Now.
type clock struct {
	base time.Time
	wake chan struct{} // holds a token where the coarse clock is to tick

	_      [64]byte
	coarse atomic.Int64 // the last tick, a driver.Instant; zero while parked
	_      [56]byte
	// Calls of Bounds that found the coarse clock parked, in the last
	// millisecond that had one. Racing calls may lose a count.
	ms    atomic.Int64
	calls atomic.Int64
}

func newClock() *clock {
	return &clock{base: time.Now(), wake: make(chan struct{}, 1)}
}

func (c *clock) now() time.Time { return c.base.Add(time.Since(c.base)) }

func (c *clock) bounds() (earliest, latest driver.Instant) {
	if ms := driver.Instant(c.coarse.Load()); ms != 0 {
		return ms, ms + coarseGuard
	}
	now := c.now()
	earliest = driver.Floor(now)
	if c.ms.Load() != int64(earliest) {
		c.ms.Store(int64(earliest))
		c.calls.Store(0)
	}
	if c.calls.Add(1) == coarseWorth {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}
	return earliest, driver.Ceil(now)
}

// run ticks for a while whenever woken, until stop is closed.
func (c *clock) run(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-c.wake:
		}
		c.tick(stop)
	}
}

func (c *clock) tick(stop <-chan struct{}) {
	ticker := time.NewTicker(coarseTick)
	defer ticker.Stop()
	defer c.coarse.Store(0)
	for end := c.now().Add(coarseRun); ; {
		now := c.now()
		if !now.Before(end) {
			select { // a token left since this run began
			case <-c.wake:
			default:
			}
			return
		}
		c.coarse.Store(int64(driver.Floor(now)))
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// Now implements driver.Clock. It moves with the monotonic clock only; see the
// package comment.
func (d *Driver[T]) Now() time.Time { return d.clock.now() }

// Bounds implements driver.Clock. While it is called more than about 64,000 times
// a second it reads a variable that a goroutine sets every millisecond, and answers
// from there to 100 ms later; otherwise it reads the clock, and nothing ticks.
//
// The 100 ms are for a late tick: on a machine with more to do than cores, ticks
// come some milliseconds late. If the whole process is held up for longer (it was
// stopped, its container throttled, its machine suspended), a call in the instant
// after may answer bounds that have passed by that much.
func (d *Driver[T]) Bounds() (earliest, latest driver.Instant) { return d.clock.bounds() }
