package policy_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

const day = 24 * time.Hour

func TestPolicyDeadlineAndExpiry(t *testing.T) {
	const c = driver.Instant(1_700_000_000_000)
	sliding := policy.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}
	slack := policy.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}
	endless := policy.Policy{IdleGrace: 30 * day, MaxLifetime: policy.NoCap, Slack: day}
	promote := policy.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Promote: true}
	for _, tt := range []struct {
		name                      string
		policy                    policy.Policy
		access                    time.Duration // since creation
		deadline, expiry, written time.Duration // since creation
	}{
		{"at creation", sliding, 0, 30 * day, 30 * day, 30 * day},
		{"idle binds", sliding, 10 * day, 40 * day, 40 * day, 40 * day},
		{"idle and cap meet", sliding, 60 * day, 90 * day, 90 * day, 90 * day},
		{"cap binds", sliding, 60*day + time.Millisecond, 90 * day, 90 * day, 90 * day},
		{"without a cap", endless, 100_000 * day, 100_030 * day, 100_031 * day, 100_031 * day},
		{"after the cap", sliding, 100 * day, 90 * day, 90 * day, 90 * day},
		{"before creation, by a clock behind", sliding, -day, 29 * day, 29 * day, 29 * day},
		{"slack is added to what is stored only", slack, 10 * day, 40 * day, 43 * day, 43 * day},
		{"slack does not pass the cap", slack, 58 * day, 88 * day, 90 * day, 90 * day},
		{"promote: an access goes to the cap", promote, 1, 90 * day, 90 * day, 30*day + time.Millisecond},
		{"promote: a write is no access", promote, 70 * day, 90 * day, 90 * day, 90 * day},
	} {
		t.Run(tt.name, func(t *testing.T) {
			access := c.Add(tt.access)
			if got := tt.policy.Deadline(c, access); got != c.Add(tt.deadline) {
				t.Errorf("Deadline = C + %v, want C + %v", got.Sub(c), tt.deadline)
			}
			if got := tt.policy.Expiry(c, access); got != c.Add(tt.expiry) {
				t.Errorf("Expiry = C + %v, want C + %v", got.Sub(c), tt.expiry)
			}
			if got := rules.New(tt.policy, time.Millisecond, 0, false).Rewritten(driver.Life{CreatedAt: c, ExpiresAt: 1}, access.Time()).ExpiresAt; got != c.Add(tt.written) {
				t.Errorf("a write of the value gives C + %v, want C + %v", got.Sub(c), tt.written)
			}
		})
	}
}

func TestPolicyValidate(t *testing.T) {
	ok := policy.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour, Slack: time.Second}
	for _, p := range []policy.Policy{
		ok,
		{IdleGrace: time.Minute, MaxLifetime: time.Minute, Slack: time.Minute, MaxSlack: time.Minute},
		{IdleGrace: time.Minute, MaxLifetime: policy.NoCap, MaxSlack: time.Second},
		{IdleGrace: policy.NoCap, MaxLifetime: policy.NoCap, Slack: policy.NoCap},
		{IdleGrace: time.Minute, MaxLifetime: policy.NoCap - time.Millisecond, Promote: true},
	} {
		if err := p.Validate(); err != nil {
			t.Errorf("Validate(%v) = %v", p, err)
		}
	}
	for _, tt := range []struct {
		field string
		spoil func(*policy.Policy)
	}{
		{"Policy.IdleGrace", func(p *policy.Policy) { p.IdleGrace = 0 }},
		{"Policy.IdleGrace", func(p *policy.Policy) { p.IdleGrace = -time.Second }},
		{"Policy.IdleGrace", func(p *policy.Policy) { p.IdleGrace = time.Microsecond }},
		{"Policy.IdleGrace", func(p *policy.Policy) { p.IdleGrace = 1500 * time.Microsecond }},
		{"Policy.IdleGrace", func(p *policy.Policy) { p.IdleGrace = 2 * time.Hour }},
		{"Policy.MaxLifetime", func(p *policy.Policy) { p.MaxLifetime = 0 }},
		{"Policy.MaxLifetime", func(p *policy.Policy) { p.MaxLifetime = math.MinInt64 }},
		{"Policy.Slack", func(p *policy.Policy) { p.Slack = -1 }},
		{"Policy.Slack", func(p *policy.Policy) { p.Slack = 1 }},
		{"Policy.Slack", func(p *policy.Policy) { p.Slack = time.Minute + time.Millisecond }},
		{"Policy.Slack", func(p *policy.Policy) { p.Promote = true }},
		{"Policy.MaxSlack", func(p *policy.Policy) { p.MaxSlack = -time.Second }},
		{"Policy.MaxSlack", func(p *policy.Policy) { p.MaxSlack = time.Second + 1 }},
		{"Policy.MaxSlack", func(p *policy.Policy) { p.MaxSlack = time.Second - time.Millisecond }},
		{"Policy.MaxSlack", func(p *policy.Policy) { p.MaxSlack = time.Minute + time.Millisecond }},
		{"Policy.MaxSlack", func(p *policy.Policy) { p.Slack, p.MaxSlack, p.Promote = 0, time.Second, true }},
		{"Policy.MaxLifetime", func(p *policy.Policy) { p.Slack, p.MaxLifetime, p.Promote = 0, policy.NoCap, true }},
	} {
		p := ok
		tt.spoil(&p)
		err := p.Validate()
		var invalid *driver.InvalidError
		if !errors.As(err, &invalid) || !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Validate(%v) = %v, want an InvalidError", p, err)
		} else if invalid.Field != tt.field || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("Validate(%v) = %v, want one on %s with value and rule", p, err, tt.field)
		}
	}
}

// FuzzPolicy checks the arithmetic at any instants and durations: it never wraps
// around, and the relations that the promises rest on hold.
func FuzzPolicy(f *testing.F) {
	for _, i := range []int64{0, 1, -1, 1_700_000_000_000, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, -62135596800000} {
		for _, d := range []int64{1, int64(time.Millisecond), int64(time.Hour), math.MaxInt64} {
			f.Add(i, i/2, d, d/2, d/10, true)
			f.Add(i, -i, d/2, d, int64(0), false)
		}
	}
	f.Add(int64(math.MaxInt64), int64(-math.MaxInt64), int64(time.Hour), 2*int64(time.Hour), int64(0), true)
	f.Fuzz(func(t *testing.T, created, access, idle, most, slack int64, promote bool) {
		p := policy.Policy{
			IdleGrace: time.Duration(idle), MaxLifetime: time.Duration(most),
			Slack: time.Duration(slack), Promote: promote,
		}
		if p.Validate() != nil {
			return
		}
		c, at := driver.Instant(created), driver.Instant(access)
		deadline, expiry, limit := p.Deadline(c, at), p.Expiry(c, at), p.Cap(c)
		if limit <= c && c != driver.MaxInstant {
			t.Errorf("Cap(%d) = %d is not after creation", c, limit)
		}
		if deadline > limit || expiry > limit {
			t.Errorf("past the cap %d: Deadline %d, Expiry %d", limit, deadline, expiry)
		}
		if expiry < deadline {
			t.Errorf("Expiry %d is before Deadline %d", expiry, deadline)
		}
		if slack == 0 && expiry != deadline {
			t.Errorf("without slack Expiry %d is not Deadline %d", expiry, deadline)
		}
		if !promote && deadline <= at && deadline != limit && at != driver.MaxInstant {
			t.Errorf("Deadline %d is not after the access %d", deadline, at)
		}
		if later := at.Add(time.Millisecond); p.Deadline(c, later) < deadline || p.Expiry(c, later) < expiry {
			t.Errorf("a later access promises less")
		}
		for _, step := range []time.Duration{time.Millisecond, time.Second, time.Minute} {
			up := expiry.RoundUp(step)
			ms := driver.Instant(step / time.Millisecond)
			if up < expiry || up != driver.MaxInstant && (up%ms != 0 || up-expiry >= ms) {
				t.Errorf("RoundUp(%d, %v) = %d", expiry, step, up)
			}
		}
	})
}

// FuzzInstant checks conversions and sums at the edges of the range.
func FuzzInstant(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0))
	f.Add(int64(math.MaxInt64), int64(math.MinInt64), int64(math.MaxInt64))
	f.Add(int64(1_700_000_000), int64(999_999_999), int64(-1))
	f.Fuzz(func(t *testing.T, sec, nsec, d int64) {
		sec %= 1 << 40
		tm := time.Unix(sec, nsec%int64(time.Second))
		floor, ceil := driver.Floor(tm), driver.Ceil(tm)
		if floor > ceil || ceil-floor > 1 {
			t.Fatalf("Floor %d, Ceil %d of %v", floor, ceil, tm)
		}
		if floor != 0 && floor.Time().After(tm) || ceil != 0 && ceil.Time().Before(tm) {
			t.Fatalf("%v is not between Floor %d and Ceil %d", tm, floor, ceil)
		}
		i := driver.Instant(sec)
		sum := i.Add(time.Duration(d))
		if d >= 0 && sum < i || d < 0 && sum > i {
			t.Fatalf("%d.Add(%d) = %d", i, d, sum)
		}
		if diff := sum.Sub(i); d > 0 && diff < time.Duration(d) && diff != math.MaxInt64 && sum != driver.MaxInstant {
			t.Fatalf("%d.Add(%d).Sub = %d", i, d, diff)
		}
	})
}
