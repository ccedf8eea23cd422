package memory

import (
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	coarseTick = time.Millisecond
	// coarseRun is how long the coarse clock ticks once woken.
	coarseRun = 256 * time.Millisecond
	// coarseWorth is how many readings of the exact clock within a millisecond
	// cost more than ticking through it does.
	coarseWorth = 64
	// coarseGuard is by how many milliseconds the coarse clock may lag. The goroutine that
	// ticks every millisecond waits some 20 ms for each runnable goroutine before it that
	// does not pause. Measured worst: 70 ms with one such goroutine on each of two cores,
	// 630 ms with 32 on each, 1.25 s with 64 on one.
	coarseGuard = 2000
)

// clock is the system clock's time when the driver was made, plus the monotonic time since:
// one reading instead of the two of time.Now.
//
// Readers do not mark the coarse clock as used, since they would all write to one cache
// line. It parks after a while, and readers that still need it wake it.
//
// If Options.Now is set, it is the time, and there is no coarse clock.
type clock struct {
	given func() time.Time // Options.Now

	base time.Time
	ms   driver.Instant // Floor(base)
	rest time.Duration  // what Floor cut off
	wake chan struct{}  // holds a token if the coarse clock is to tick

	_      [64]byte
	coarse atomic.Int64 // the last tick, a driver.Instant; zero while parked
	_      [56]byte

	// The last millisecond in which a call of bounds found the coarse clock parked, and the
	// number of such calls in it. Racing calls may lose a count.
	busyMs    atomic.Int64
	busyCalls atomic.Int64
}

func newClock(given func() time.Time) *clock {
	base := time.Now()
	ms := driver.Floor(base)
	return &clock{given: given, base: base, ms: ms, rest: base.Sub(ms.Time()), wake: make(chan struct{}, 1)}
}

func (c *clock) now() time.Time {
	if c.given != nil {
		return c.given()
	}
	return c.base.Add(time.Since(c.base))
}

// exact returns the time, split into its floor and the rest.
func (c *clock) exact() (driver.Instant, time.Duration) {
	if c.given != nil {
		now := c.given()
		ms := driver.Floor(now)
		return ms, now.Sub(ms.Time())
	}
	d := time.Since(c.base) + c.rest
	ms := d / time.Millisecond
	return c.ms + driver.Instant(ms), d - ms*time.Millisecond
}

// next returns the time, rounded up.
func (c *clock) next() driver.Instant {
	if c.given != nil {
		return driver.Ceil(c.given())
	}
	return c.ms + driver.Instant((time.Since(c.base)+c.rest+time.Millisecond-1)/time.Millisecond)
}

func (c *clock) instant() driver.Instant {
	ms, _ := c.exact()
	return ms
}

func (c *clock) bounds() (earliest, latest driver.Instant) {
	if ms := driver.Instant(c.coarse.Load()); ms != 0 {
		return ms, ms + coarseGuard
	}
	earliest, rest := c.exact()
	if c.given == nil {
		c.parkedAt(earliest)
	}
	if rest > 0 {
		return earliest, earliest + 1
	}
	return earliest, earliest
}

// parkedAt counts a call that found the coarse clock parked at now. Many calls wake it.
func (c *clock) parkedAt(now driver.Instant) {
	if c.busyMs.Load() != int64(now) {
		c.busyMs.Store(int64(now))
		c.busyCalls.Store(0)
	}
	if c.busyCalls.Add(1) != coarseWorth {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
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
		select { // drop a token that was left meanwhile
		case <-c.wake:
		default:
		}
	}
}

func (c *clock) tick(stop <-chan struct{}) {
	ticker := time.NewTicker(coarseTick)
	defer ticker.Stop()
	defer c.coarse.Store(0)
	for end := c.instant().Add(coarseRun); ; {
		now := c.instant()
		if now >= end {
			return
		}
		c.coarse.Store(int64(now))
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
	}
}

// Now implements driver.Clock. It is Options.Now, or else moves with the monotonic
// clock only; see the package comment.
func (d *Driver[T]) Now() time.Time { return d.clock.now() }

// Next implements driver.Slider.
func (d *Driver[T]) Next() driver.Instant { return d.clock.next() }

// Bounds implements driver.Clock. If it is called more than about 64,000 times a second, it
// reads a variable that a goroutine sets every millisecond: the bounds are that time and two
// seconds later. Otherwise, and with Options.Now, it reads the clock.
//
// The two seconds allow for late ticks, when more goroutines are runnable than there are
// cores. They are too few for a machine with a hundred busy goroutines per core, and for a
// process that is stopped or suspended during such traffic: until the next tick, some
// milliseconds after it resumes, a call may return bounds that have passed. So a store relies
// on them only for records that live on for a minute or half the idle grace, whichever is less.
func (d *Driver[T]) Bounds() (earliest, latest driver.Instant) { return d.clock.bounds() }
