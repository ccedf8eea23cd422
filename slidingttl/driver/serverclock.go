package driver

import (
	"fmt"
	"sync/atomic"
	"time"
)

// ServerClock is what a process knows of the clock of its store's server.
//
// That is a time between two bounds, which each answer narrows and which part as it ages. It
// counts on from an answer by the monotonic clock, so that setting the process's own clock
// changes nothing. The zero ServerClock knows nothing and gives the process's time. All
// methods are safe for concurrent use.
type ServerClock struct {
	known atomic.Pointer[serverBounds]
	asked atomic.Pointer[time.Time]
}

// ServerTime is an answer to the question for a server's time.
type ServerTime struct {
	Sent, Got time.Time     // time.Now before the question was sent, and after the answer came
	At        time.Time     // what the server's clock said in between
	Step      time.Duration // to which the server rounds that down
}

// serverBounds are those of the server's time at got, in nanoseconds since the Unix epoch.
type serverBounds struct {
	earliest, latest int64
	got              time.Time
}

const (
	// serverAskEvery is the time between two questions that travel with a statement,
	// serverMaxAge that after which a question is worth a trip of its own.
	serverAskEvery = time.Second
	serverMaxAge   = 30 * time.Second

	// serverDrift is how much of a second two clocks may part in one.
	serverDrift = 200e-6

	// serverStep is by how much the process's two clocks differ where its clock was set or
	// the machine slept.
	serverStep = 100 * time.Millisecond
)

// Now returns the server's time: the middle of what is known.
func (c *ServerClock) Now() time.Time {
	now := time.Now()
	known := c.known.Load()
	if known == nil {
		return now
	}
	return time.Unix(0, known.earliest+(known.latest-known.earliest)/2+int64(now.Sub(known.got)))
}

// Bounds are those of Clock.
func (c *ServerClock) Bounds() (earliest, latest Instant) {
	now := c.Now()
	return Floor(now), Ceil(now)
}

// Known reports whether an answer has come.
func (c *ServerClock) Known() bool { return c.known.Load() != nil }

// Due reports whether to ask for the time together with a statement. It tells one of its
// callers so: once a second, and at once after the process's clock was set or the machine
// slept.
func (c *ServerClock) Due() bool { return c.due(serverAskEvery) }

// Overdue reports whether to ask for the time by a separate trip, before a write. It tells
// every caller so while the time is unknown, and later one of them if the last question is
// half a minute old.
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

// Observe learns from an answer. One that contradicts what was known replaces it: a clock was set.
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
				return // it was overtaken
			}
		}
		if c.known.CompareAndSwap(known, &next) {
			return
		}
	}
}

// CheckSkew returns an *InvalidError if the process's clock is further than most from server's.
//
// It goes by the bound of the answer that is nearer. Without At there was no answer, and is no
// error.
func (t ServerTime) CheckSkew(server string, most time.Duration) error {
	// In wall clocks: whether they agree is what is asked.
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
	return &InvalidError{
		Field: "system clock",
		Value: fmt.Sprintf("at least %v %s %s's", off.Round(time.Millisecond), direction, server),
		Rule:  fmt.Sprintf("must be within %v of it (Options.MaxSkew)", most),
	}
}
