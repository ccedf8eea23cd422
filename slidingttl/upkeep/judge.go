package upkeep

import (
	"fmt"
	"hash/fnv"
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
	states
)

var stateNames = [states]string{"malformed", "implausible", "dead", "retained", "past_cap", "no_created_at", "never_expires", "beyond_policy", "slides"}

// String returns the name of s, the same as in JSON: "past_cap".
func (s State) String() string {
	if s < 0 || s >= states {
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
	return invalid("state", fmt.Sprintf("%d bytes", len(text)), "must be one of upkeep's states")
}

// terms is a policy to judge records by.
type terms struct{ slidingttl.Policy }

// reach returns the latest expiry that the policy has at now, before the cap.
func (t *terms) reach(now driver.Instant) driver.Instant {
	if t.Promote {
		return driver.MaxInstant
	}
	return now.Add(t.IdleGrace).Add(max(t.Slack, t.MaxSlack))
}

// limit returns the cap of a record created at created.
func (t *terms) limit(created driver.Instant) driver.Instant {
	if created == 0 {
		return driver.MaxInstant
	}
	return t.Cap(created)
}

// death returns when a record with life l dies if it is not read; MaxInstant: never.
func (t *terms) death(l driver.Life) driver.Instant {
	limit := t.limit(l.CreatedAt)
	if l.ExpiresAt == 0 {
		return limit
	}
	return min(l.ExpiresAt, limit)
}

// judge decides the states of records, by their policies and the time.
type judge struct {
	all       terms
	policyFor func(key string) slidingttl.Policy
	skew      driver.Instant // MaxSkew and the rounding of expiries
	now       func() driver.Instant
}

func newJudge(p slidingttl.Policy, s driver.Scanner, o *Options) (*judge, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	j := judgeOf(s, o)
	j.all, j.policyFor = terms{p}, o.PolicyFor
	return j, nil
}

// judgeOf returns a judge without a policy.
func judgeOf(s driver.Scanner, o *Options) *judge {
	step := time.Second
	if d, ok := s.(interface{ Resolution() time.Duration }); ok {
		step = d.Resolution()
	}
	return &judge{skew: driver.Instant(0).Add(o.MaxSkew).Add(step), now: o.clockOf(s)}
}

// terms returns the terms of key's policy.
func (j *judge) terms(key string) (*terms, error) {
	if j.policyFor == nil {
		return &j.all, nil
	}
	p := j.policyFor(key)
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("Options.PolicyFor: %w", err)
	}
	return &terms{p}, nil
}

// state returns the State of r at now, under t.
func (j *judge) state(r *driver.Scanned, t *terms, now driver.Instant) State {
	switch limit := t.limit(r.CreatedAt); {
	case r.Problem != nil:
		return Malformed
	case j.implausible(r.Life, now) != "":
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
	case r.ExpiresAt > min(t.reach(now), limit).Plus(j.skew):
		return Beyond
	}
	return Slides
}

// about returns Checkpoint.About: the policy and the options that a resumed run must share.
func (j *judge) about(more string) string {
	return "policy " + j.policies() + more
}

// policies names what records are judged by.
func (j *judge) policies() string {
	s := j.all.String()
	if j.policyFor != nil {
		s += ", and others by key"
	}
	return s
}

// share returns a number in [0, 1) that depends on key and salt only.
func share(key string, salt uint64) float64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	x := h.Sum64() + salt*0x9e3779b97f4a7c15
	// The finalizer of splitmix64: a key's last bytes hardly change FNV's high bits.
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
