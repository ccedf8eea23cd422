package slidingttl

import (
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Policy is how long a record lives. Durations are whole milliseconds.
//
// With C the instant a record was created and t that of an access:
//
//	Deadline(C, t) = min(t + IdleGrace, C + MaxLifetime)          what the access promises
//	Expiry(C, t)   = min(t + IdleGrace + Slack, C + MaxLifetime)  what a touch writes
//
// The methods are pure and never overflow: sums stop at driver.MaxInstant.
type Policy struct {
	// IdleGrace is how long a record stays readable after its last access.
	// Required, at least a millisecond, at most MaxLifetime.
	IdleGrace time.Duration

	// MaxLifetime is how long a record stays readable after its creation,
	// however often it is accessed. Required.
	MaxLifetime time.Duration

	// Slack is how far a stored expiry may run past the promise. A record is
	// then touched at most once per Slack, and an idle one may outlive its
	// deadline by as much; it is never cut short. Zero: exact, a touch writes the
	// deadline itself, and each access at a later tick of the store's clock is
	// due. A tenth of IdleGrace suits most.
	Slack time.Duration

	// Promote keeps a record to its cap once it has been read: the first access
	// moves the expiry straight to C + MaxLifetime, so that a key costs one
	// touch in its life. A record that is never read is gone after IdleGrace.
	// Slack has no use then and must be zero.
	Promote bool
}

// Validate returns an *InvalidError for the first field that breaks its rule.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name  string
		d     time.Duration
		least time.Duration
		rule  string
	}{
		{"Policy.IdleGrace", p.IdleGrace, time.Millisecond, "must be at least 1ms"},
		{"Policy.MaxLifetime", p.MaxLifetime, time.Millisecond, "must be at least 1ms"},
		{"Policy.Slack", p.Slack, 0, "must not be negative"},
	} {
		if f.d < f.least {
			return &InvalidError{Field: f.name, Value: f.d.String(), Rule: f.rule}
		}
		if f.d%time.Millisecond != 0 {
			return &InvalidError{Field: f.name, Value: f.d.String(), Rule: "must be a whole number of milliseconds"}
		}
	}
	if p.IdleGrace > p.MaxLifetime {
		return &InvalidError{
			Field: "Policy.IdleGrace", Value: p.IdleGrace.String(),
			Rule: "must be at most Policy.MaxLifetime, " + p.MaxLifetime.String(),
		}
	}
	if p.Promote && p.Slack != 0 {
		return &InvalidError{
			Field: "Policy.Slack", Value: p.Slack.String(),
			Rule: "must be zero with Policy.Promote, which writes the cap at once",
		}
	}
	return nil
}

// Deadline is the instant until which a record created at created stays readable
// once it has been accessed at access.
func (p Policy) Deadline(created, access driver.Instant) driver.Instant {
	r := newRules(p, time.Millisecond)
	return r.deadline(created, access)
}

// Expiry is what a touch at access writes for a record created at created.
func (p Policy) Expiry(created, access driver.Instant) driver.Instant {
	r := newRules(p, time.Millisecond)
	return r.expiry(created, access)
}

// Written is what a write of the value at access gives a record created at
// created. It is Expiry, except that with Promote a write does not count as a read.
func (p Policy) Written(created, access driver.Instant) driver.Instant {
	r := newRules(p, time.Millisecond)
	return r.written(created, access)
}

// Cap is the instant from which a record created at created is never readable.
func (p Policy) Cap(created driver.Instant) driver.Instant {
	return created.Add(p.MaxLifetime)
}

// longest is the longest time to live that one write asks of a store.
func (p Policy) longest() time.Duration {
	if p.Promote || p.MaxLifetime-p.IdleGrace < p.Slack {
		return p.MaxLifetime
	}
	return p.IdleGrace + p.Slack
}
