package redis

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Now implements driver.Clock: the time by the server's clock. The offset of the
// system's is learned from TIME, which the first call asks for, waiting for up to a
// second, and which then travels in the pipeline of some command once a second. It is
// known to half the shortest of the round trips, which grows while nothing is asked.
// While the server does not answer Now is the system's time, off by what was last known.
// In a cluster it is the time of the node that was asked last.
func (d *Driver[T]) Now() time.Time {
	if d.clock.known.Load() == nil {
		d.ask()
	}
	return time.Now().Add(d.clock.offset())
}

// Bounds implements driver.Clock.
func (d *Driver[T]) Bounds() (earliest, latest driver.Instant) {
	now := d.Now()
	return driver.Floor(now), driver.Ceil(now)
}

// ask asks for the time, unless that is known by now or has just been tried.
func (d *Driver[T]) ask() {
	d.clock.asking.Lock()
	defer d.clock.asking.Unlock()
	if d.clock.known.Load() != nil || !d.clock.due() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeEvery)
	defer cancel()
	sent := time.Now()
	answer := d.client.Do(ctx, d.client.B().Time().Build())
	d.clock.observe(sent, time.Now(), answer)
}

// serverClock learns by how much the server's clock is ahead of the system's. Each
// answer says within which bounds that lies, and the bounds of many are narrower.
type serverClock struct {
	asking sync.Mutex // held while a call waits for the first answer
	known  atomic.Pointer[bounds]
	asked  atomic.Int64 // when last, in nanoseconds since began
}

// bounds are those of the offset, as known at a moment.
type bounds struct {
	least, most time.Duration
	at          time.Time
}

const (
	timeEvery = time.Second      // between two questions
	timeStep  = time.Microsecond // of TIME, which is rounded down

	// drift is how much of a second two clocks may part in one.
	drift = 200e-6
)

// began is where the monotonic clock counts from here; it costs less than time.Now.
var began = time.Now()

// due reports whether it is time to ask, to one of its callers.
func (c *serverClock) due() bool {
	now := int64(time.Since(began)) + 1
	last := c.asked.Load()
	return (last == 0 || now-last >= int64(timeEvery)) && c.asked.CompareAndSwap(last, now)
}

// observe learns from the answer that came at got to a TIME that was sent then.
func (c *serverClock) observe(sent, got time.Time, answer rueidis.RedisResult) {
	seen, err := serverTime(answer)
	if err != nil {
		return
	}
	// The server took the time after sent and before got.
	c.learn(bounds{least: seen.Sub(got), most: seen.Add(timeStep).Sub(sent), at: got})
}

// serverTime is the answer to TIME: seconds, and microseconds of the next.
func serverTime(answer rueidis.RedisResult) (time.Time, error) {
	parts, err := answer.AsIntSlice()
	if err != nil || len(parts) != 2 {
		return time.Time{}, err
	}
	return time.Unix(parts[0], parts[1]*int64(time.Microsecond)), nil
}

func (c *serverClock) learn(seen bounds) {
	known := c.known.Load()
	if known != nil {
		apart := parted(seen.at.Sub(known.at))
		least, most := known.least-apart, known.most+apart
		if seen.least <= most && seen.most >= least {
			seen.least, seen.most = max(seen.least, least), min(seen.most, most)
		} // else a clock was set, and what was known is worth nothing
	}
	c.known.CompareAndSwap(known, &seen)
}

// parted is by how much two clocks may part in d.
func parted(d time.Duration) time.Duration { return time.Duration(float64(d) * drift) }

// offset returns the offset, as far as it is known.
func (c *serverClock) offset() time.Duration {
	known := c.known.Load()
	if known == nil {
		return 0
	}
	return known.least + (known.most-known.least)/2
}
