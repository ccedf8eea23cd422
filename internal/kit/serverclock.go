package kit

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ServerClock is what a process knows of the clock of its store's server.
//
// It keeps two bounds on the server's time: each answer narrows them, and they widen with age.
// Between answers it uses the monotonic clock, so that setting the process's clock changes nothing.
// The zero ServerClock returns the process's time. All methods are safe for concurrent use.
type ServerClock struct {
	known atomic.Pointer[serverBounds]
	asked atomic.Pointer[time.Time]
}

// ServerTime is one reading of a server's clock.
type ServerTime struct {
	Sent, Got time.Time     // time.Now before the question was sent, and after the answer came
	At        time.Time     // the server's clock in between
	Step      time.Duration // the server rounds At down to this
}

// serverBounds limit the server's time at got, in nanoseconds since the Unix epoch.
type serverBounds struct {
	earliest, latest int64
	got              time.Time
}

const (
	// serverAskEvery is the interval of questions that travel with a statement. After serverMaxAge
	// a question is worth a trip of its own.
	serverAskEvery = time.Second
	serverMaxAge   = 30 * time.Second

	// serverDrift is the drift between two clocks, in seconds per second.
	serverDrift = 200e-6

	// serverStep is the difference between wall and monotonic clock that means that the clock was
	// set or the machine slept.
	serverStep = 100 * time.Millisecond
)

// Now returns the server's time: the middle of the bounds.
func (c *ServerClock) Now() time.Time {
	now := time.Now()
	known := c.known.Load()
	if known == nil {
		return now
	}
	return time.Unix(0, known.earliest+(known.latest-known.earliest)/2+int64(now.Sub(known.got)))
}

// Bounds returns Floor and Ceil of Now, as Clock asks.
func (c *ServerClock) Bounds() (earliest, latest driver.Instant) {
	now := c.Now()
	return driver.Floor(now), driver.Ceil(now)
}

// Known reports whether an answer has come.
func (c *ServerClock) Known() bool { return c.known.Load() != nil }

// Due reports whether to ask for the time together with a statement. It returns true to one caller
// a second, and at once after the process's clock was set or the machine slept.
func (c *ServerClock) Due() bool { return c.due(serverAskEvery) }

// Overdue reports whether to ask for the time by a separate trip, before a write. It returns true
// to every caller while the time is unknown, later to one caller if the last question is half a
// minute old.
func (c *ServerClock) Overdue() bool { return !c.Known() || c.due(serverMaxAge) }

func (c *ServerClock) due(every time.Duration) bool {
	now, last := time.Now(), c.asked.Load()
	if last != nil {
		passed := now.Sub(*last)
		if passed < every && (now.Round(0).Sub(last.Round(0))-passed).Abs() < serverStep {
			return false
		}
	}
	return c.asked.CompareAndSwap(last, &now)
}

// Observe updates the bounds. An answer that contradicts them replaces them: a clock was set.
func (c *ServerClock) Observe(t ServerTime) {
	seen := serverBounds{t.At.UnixNano(), t.At.Add(t.Step + t.Got.Sub(t.Sent)).UnixNano(), t.Got}
	for {
		next, known := seen, c.known.Load()
		if known != nil {
			passed := seen.got.Sub(known.got)
			apart := time.Duration(float64(passed.Abs()) * serverDrift)
			earliest, latest := known.earliest+int64(passed-apart), known.latest+int64(passed+apart)
			if earliest <= seen.latest && latest >= seen.earliest {
				next.earliest, next.latest = max(earliest, seen.earliest), min(latest, seen.latest)
			} else if passed < 0 {
				return // a later answer came first
			}
		}
		if c.known.CompareAndSwap(known, &next) {
			return
		}
	}
}

// CheckSkew returns an *InvalidError if the process's clock is off server's by more than most.
//
// It compares with the nearer bound of the answer. A zero At means no answer, and is no error.
func (t ServerTime) CheckSkew(server string, most time.Duration) error {
	// Compare wall clocks, without the monotonic reading.
	least := t.At.Round(0).Sub(t.Got.Round(0))
	greatest := t.At.Round(0).Add(t.Step).Sub(t.Sent.Round(0))
	off, direction := least, "behind"
	switch {
	case least > most:
	case greatest < -most && !t.At.IsZero():
		off, direction = -greatest, "ahead of"
	default:
		return nil
	}
	return &driver.InvalidError{
		Field: "system clock",
		Value: fmt.Sprintf("at least %v %s %s's", off.Round(time.Millisecond), direction, server),
		Rule:  fmt.Sprintf("must be within %v of it (Options.MaxSkew)", most),
	}
}
