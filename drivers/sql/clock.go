package sql

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Now implements driver.Clock: the time by the database's clock, as far as its answers
// tell, which is to about half the shortest round trip. Before the first read, and on
// SQLite, it is the system's time. A Get asks for the time beside the row, about once
// a second.
func (t *table) Now() time.Time { return time.Now().Add(t.clock.offset()) }

// Bounds implements driver.Clock.
func (t *table) Bounds() (earliest, latest driver.Instant) {
	now := t.Now()
	return driver.Floor(now), driver.Ceil(now)
}

// serverClock learns by how much the database's clock is ahead of the system's.
type serverClock struct {
	known atomic.Pointer[bounds]
	next  atomic.Int64 // when to ask again, in nanoseconds since start
}

// bounds are those of the offset, as an answer told them.
type bounds struct {
	least, most time.Duration
	at          time.Time
}

const (
	askEvery = time.Second

	// drift is how much of a second two clocks may part in one.
	drift = 200e-6
)

var start = time.Now()

// due reports whether to ask the database for its time, to one of those who ask.
func (c *serverClock) due() bool {
	now, next := int64(time.Since(start)), c.next.Load()
	return now >= next && c.next.CompareAndSwap(next, now+int64(askEvery))
}

// observe learns from an answer to a statement sent then. The database took the time
// in between, to the microsecond.
func (c *serverClock) observe(sent time.Time, micros int64) {
	got := time.Now()
	at := time.UnixMicro(micros)
	seen := bounds{least: at.Sub(got.Round(0)), most: at.Add(time.Microsecond).Sub(sent.Round(0)), at: got}
	known := c.known.Load()
	if known != nil {
		apart := time.Duration(float64(got.Sub(known.at)) * drift)
		least, most := known.least-apart, known.most+apart
		overlap := seen.least <= most && seen.most >= least
		if overlap && seen.most-seen.least > most-least {
			return // else a clock was set, or the answer came faster
		}
	}
	c.known.CompareAndSwap(known, &seen)
}

func (c *serverClock) offset() time.Duration {
	known := c.known.Load()
	if known == nil {
		return 0
	}
	return known.least + (known.most-known.least)/2
}

// ask asks the database for its time and nothing else.
func (t *table) ask(ctx context.Context) error {
	expression := t.dialect.micros()
	if expression == "" {
		return nil
	}
	var micros int64
	sent := time.Now()
	if _, _, err := firstRow(ctx, t.db, "SELECT "+expression, nil, []any{&micros}); err != nil {
		return err
	}
	t.clock.observe(sent, micros)
	return nil
}
