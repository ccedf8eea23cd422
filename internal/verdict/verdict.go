// Package verdict judges records: in what state they are under a policy, when they die, and what makes no
// sense about them.
package verdict

import (
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// State is the state of a record in an audit. Each record has the first State that fits.
type State int

const (
	Malformed    State = iota // its life cannot be read, so reads of the record fail
	Implausible               // its life can be read, but its times make no sense, as if in another unit
	Dead                      // its expiry has passed, and the store should have removed it
	Retained                  // its expiry has passed, and the store retains it for a while
	PastCap                   // older than its policy's MaxLifetime: a read would not find it
	NoCreatedAt               // alive, but written by another program and not adopted
	NeverExpires              // alive, with created_at and without an expiry
	Beyond                    // its expiry is beyond its policy; the next access lowers it
	Slides                    // it follows its policy
	States                    // their number
)

var stateNames = [States]string{"malformed", "implausible", "dead", "retained", "past_cap", "no_created_at", "never_expires", "beyond_policy", "slides"}

// String returns the name of s, the same as in JSON: "past_cap".
func (s State) String() string {
	if s < 0 || s >= States {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return stateNames[s]
}

// MarshalText implements encoding.TextMarshaler by String.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	for i, name := range stateNames {
		if name == string(text) {
			*s = State(i)
			return nil
		}
	}
	return &driver.InvalidError{Field: "state", Value: fmt.Sprintf("%d bytes", len(text)), Rule: "must be one of an audit's states"}
}

// Terms is a policy to judge records by.
type Terms struct{ slidingttl.Policy }

// reach returns the latest expiry that the policy has at now, before the cap.
func (t *Terms) reach(now driver.Instant) driver.Instant {
	if t.Promote {
		return driver.MaxInstant
	}
	return now.Add(t.IdleGrace).Add(max(t.Slack, t.MaxSlack))
}

// Limit returns the cap of a record created at created.
func (t *Terms) Limit(created driver.Instant) driver.Instant {
	if created == 0 {
		return driver.MaxInstant
	}
	return t.Cap(created)
}

// Death returns when a record with life l dies if it is not read; MaxInstant: never.
func (t *Terms) Death(l driver.Life) driver.Instant {
	limit := t.Limit(l.CreatedAt)
	if l.ExpiresAt == 0 {
		return limit
	}
	return min(l.ExpiresAt, limit)
}

// Judge decides the states of records, by their policies and the time.
type Judge struct {
	All       Terms                              // the policy of keys without one of their own
	PolicyFor func(key string) slidingttl.Policy // nil: All is for all keys
	Skew      driver.Instant                     // how far clocks may be apart, and the rounding of expiries
	Now       func() driver.Instant
}

// New returns a Judge of the records of s by p, or by the policies of policyFor where that is not nil. Their
// clocks may be apart by skew. now is as for Clock.
func New(p slidingttl.Policy, policyFor func(key string) slidingttl.Policy, s driver.Scanner, skew time.Duration, now func() time.Time) (*Judge, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	j := At(s, skew, now)
	j.All, j.PolicyFor = Terms{p}, policyFor
	return j, nil
}

// At is New without a policy.
func At(s driver.Scanner, skew time.Duration, now func() time.Time) *Judge {
	step := time.Second
	if d, ok := s.(interface{ Resolution() time.Duration }); ok {
		step = d.Resolution()
	}
	return &Judge{Skew: driver.Instant(0).Add(skew).Add(step), Now: Clock(s, now)}
}

// Clock returns the clock that records of s are judged by: now, or else that of the driver if it has one.
func Clock(s driver.Scanner, now func() time.Time) func() driver.Instant {
	if now == nil {
		now = time.Now
		if c, ok := driver.As[driver.Clock](s); ok {
			now = c.Now
		}
	}
	return func() driver.Instant { return driver.Floor(now()) }
}

// Terms returns the terms of key's policy.
func (j *Judge) Terms(key string) (*Terms, error) {
	if j.PolicyFor == nil {
		return &j.All, nil
	}
	p := j.PolicyFor(key)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("Options.PolicyFor: %w", err)
	}
	return &Terms{p}, nil
}

// State returns the State of r at now, under t.
func (j *Judge) State(r *driver.Scanned, t *Terms, now driver.Instant) State {
	switch limit := t.Limit(r.CreatedAt); {
	case r.Problem != nil:
		return Malformed
	case j.Implausible(r.Life, now) != "":
		return Implausible
	case !r.Alive(now) && r.HeldUntil > now:
		return Retained
	case !r.Alive(now):
		return Dead
	case limit <= now:
		return PastCap
	case r.CreatedAt == 0:
		return NoCreatedAt
	case r.ExpiresAt == 0:
		return NeverExpires
	case r.ExpiresAt > min(t.reach(now), limit).Plus(j.Skew):
		return Beyond
	}
	return Slides
}

// Policies names what records are judged by.
func (j *Judge) Policies() string {
	s := j.All.String()
	if j.PolicyFor != nil {
		s += ", and others by key"
	}
	return s
}
