// Package policy says how long records live, and nothing else: it reads no clock and
// calls no store.
package policy

import (
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// NoCap is the MaxLifetime of records that live for as long as they are accessed. It is the
// longest Duration of whole milliseconds, 292 years.
const NoCap = math.MaxInt64 / time.Millisecond * time.Millisecond

// Policy is how long a record lives. Durations are whole milliseconds.
//
// With C the instant a record was created and t that of an access:
//
//	Deadline(C, t) = min(t + IdleGrace, C + MaxLifetime)          what the access promises
//	Expiry(C, t)   = min(t + IdleGrace + Slack, C + MaxLifetime)  what a touch writes
//
// The methods are pure and never overflow: sums stop at driver.MaxInstant. A policy
// is written, read and logged as text, and as JSON; see [Parse].
type Policy struct {
	// IdleGrace is how long a record stays readable after its last access.
	// Required, at least a millisecond, at most MaxLifetime.
	IdleGrace time.Duration

	// MaxLifetime is how long a record stays readable after its creation, at most.
	// Required; NoCap if there is no such limit.
	MaxLifetime time.Duration

	// Slack is how far a stored expiry may run past the promise. A record is
	// then touched at most once per 15/16 of Slack, and an idle one may outlive its
	// deadline by as much; it is never cut short. Zero: exact, a touch writes the
	// deadline itself, and each access at a later tick of the store's clock is
	// due. A tenth of IdleGrace suits most; more than IdleGrace, which would
	// multiply the idle time rather than blur it, is refused.
	Slack time.Duration

	// MaxSlack is how far Slack may grow under Options.Budget, from Slack to IdleGrace.
	// It is the same for all processes, so that none takes an expiry that another has
	// written with grown slack for that of an older policy. Zero: Slack does not grow.
	MaxSlack time.Duration

	// Promote keeps a record to its cap once it has been read: the first access
	// moves the expiry straight to C + MaxLifetime, so that a key costs one
	// touch in its life. A record that is never read is gone after IdleGrace.
	// Slack and MaxSlack have no use then and must be zero, and NoCap is
	// refused: a record would never die once read.
	Promote bool
}

// Validate returns a *driver.InvalidError for the first field that breaks its rule.
func (p Policy) Validate() error {
	for _, f := range []struct {
		name  string
		d     time.Duration
		least time.Duration
		rule  string
	}{
		{"IdleGrace", p.IdleGrace, time.Millisecond, "must be at least 1ms"},
		{"MaxLifetime", p.MaxLifetime, time.Millisecond, "must be at least 1ms"},
		{"Slack", p.Slack, 0, "must not be negative"},
		{"MaxSlack", p.MaxSlack, 0, "must not be negative"},
	} {
		if f.d < f.least {
			return invalidPolicy(f.name, f.d, f.rule)
		}
		if f.d%time.Millisecond != 0 {
			return invalidPolicy(f.name, f.d, "must be a whole number of milliseconds")
		}
	}
	switch {
	case p.IdleGrace > p.MaxLifetime:
		return invalidPolicy("IdleGrace", p.IdleGrace, "must be at most Policy.MaxLifetime, "+FormatDuration(p.MaxLifetime))
	case p.Promote && p.Slack != 0:
		return invalidPolicy("Slack", p.Slack, "must be zero with Policy.Promote, which writes the cap at once")
	case p.Promote && p.MaxSlack != 0:
		return invalidPolicy("MaxSlack", p.MaxSlack, "must be zero with Policy.Promote, which writes the cap at once")
	case p.Promote && p.MaxLifetime == NoCap:
		return invalidPolicy("MaxLifetime", p.MaxLifetime, "must be less than NoCap with Policy.Promote, or a record would never die once read")
	case p.Slack > p.IdleGrace:
		return invalidPolicy("Slack", p.Slack, "must be at most Policy.IdleGrace, "+FormatDuration(p.IdleGrace))
	case p.MaxSlack > p.IdleGrace:
		return invalidPolicy("MaxSlack", p.MaxSlack, "must be at most Policy.IdleGrace, "+FormatDuration(p.IdleGrace))
	case p.MaxSlack != 0 && p.MaxSlack < p.Slack:
		return invalidPolicy("MaxSlack", p.MaxSlack, "must be zero, or at least Policy.Slack, "+FormatDuration(p.Slack))
	}
	return nil
}

func invalidPolicy(field string, d time.Duration, rule string) error {
	return &driver.InvalidError{Field: "Policy." + field, Value: FormatDuration(d), Rule: rule}
}

// Round returns p with its durations rounded up to whole milliseconds.
//
// It is for a policy that was computed: what it makes of a valid one in finer steps is valid.
func (p Policy) Round() Policy {
	for _, d := range []*time.Duration{&p.IdleGrace, &p.MaxLifetime, &p.Slack, &p.MaxSlack} {
		if part := *d % time.Millisecond; part > 0 {
			*d = min(*d-part, NoCap-time.Millisecond) + time.Millisecond
		}
	}
	return p
}

// Deadline is until when an access at access keeps a record that was created at created.
func (p Policy) Deadline(created, access driver.Instant) driver.Instant {
	if p.Promote {
		return p.Cap(created)
	}
	return min(access.Add(p.IdleGrace), p.Cap(created))
}

// Expiry is what a touch at access writes for a record created at created.
func (p Policy) Expiry(created, access driver.Instant) driver.Instant {
	return p.Deadline(created, access.Add(p.Slack))
}

// Cap is the instant from which a record created at created is never readable.
func (p Policy) Cap(created driver.Instant) driver.Instant {
	return created.Add(p.MaxLifetime)
}

// Longest is the longest time to live that one write asks of a store.
func (p Policy) Longest() time.Duration {
	slack := max(p.Slack, p.MaxSlack)
	if p.Promote || p.MaxLifetime-p.IdleGrace < slack {
		return p.MaxLifetime
	}
	return p.IdleGrace + slack
}
