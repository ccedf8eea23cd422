package policy_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

func vectors[C any](t *testing.T, name string) []C {
	t.Helper()
	all, err := spec.Load[C](name)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

func policyOf(p spec.Policy) policy.Policy {
	return policy.Policy{IdleGrace: millis(p.Idle), MaxLifetime: millis(p.Max), Slack: millis(p.Slack), MaxSlack: millis(p.MaxSlack), Promote: p.Promote}
}

func TestVectorsOfArithmetic(t *testing.T) {
	for _, c := range vectors[spec.Arithmetic](t, "arithmetic") {
		p, created, at := policyOf(c.Policy), driver.Instant(c.Created), driver.Instant(c.Access)
		r := rules.New(p, millis(c.Step), 0, true)
		is := c
		is.Cap, is.Deadline = int64(p.Cap(created)), int64(p.Deadline(created, at))
		is.Expiry = int64(r.Touched(driver.Life{CreatedAt: created}, at, 0, 0).ExpiresAt)
		is.Written = int64(r.Saved(driver.Life{CreatedAt: created}, at, 0).ExpiresAt)
		if is != c {
			t.Errorf("%s: %+v, want %+v", c.Name, is, c)
		}
	}
	for _, c := range vectors[spec.Rounding](t, "rounding") {
		ns, err := strconv.ParseInt(c.Nanos, 10, 64)
		if at := time.Unix(0, ns); err != nil || int64(driver.Floor(at)) != c.Floor || int64(driver.Ceil(at)) != c.Ceil {
			t.Errorf("%s ns: %d and %d, want %d and %d", c.Nanos, driver.Floor(at), driver.Ceil(at), c.Floor, c.Ceil)
		}
	}
}

func TestVectorsOfPolicies(t *testing.T) {
	for _, c := range vectors[spec.PolicyText](t, "policies") {
		switch p, err := policy.Parse(c.Text); {
		case c.Policy == nil && err == nil:
			t.Errorf("%q: %v, want a refusal", c.Text, p)
		case c.Policy != nil && (err != nil || p != policyOf(*c.Policy)):
			t.Errorf("%q: %v, %v, want %+v", c.Text, p, err, *c.Policy)
		}
	}
}

// TestVectorsOfDecisions composes the rules as the store does. The store's own test of these vectors
// is in slidingttl.
func TestVectorsOfDecisions(t *testing.T) {
	for _, c := range vectors[spec.Decision](t, "decisions") {
		r := rules.New(policyOf(c.Policy), millis(c.Step), millis(c.Skew), true)
		now := driver.Instant(c.Now)
		var l driver.Life
		if c.Stored != nil {
			l = driver.Life{CreatedAt: driver.Instant(c.Stored.Created), ExpiresAt: driver.Instant(c.Stored.Expires)}
		}
		var is driver.Life
		lowered, beyond := r.Lowered(l, now)
		switch alive := c.Stored != nil && r.Alive(l, now); {
		case c.Do == spec.Retire && c.Writes != nil:
			is = driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: r.Retired(now)}
		case (c.Do == spec.Get || c.Do == spec.Peek) && alive == (c.Answer == spec.NotFound):
			t.Errorf("%s: alive is %v", c.Name, alive)
			continue
		case c.Writes == nil && (c.Do != spec.Get || c.Foreign != spec.Adopt || !alive):
			continue // it is refused, or no access
		case !alive:
			is = r.New(now.Time())
		case beyond:
			is = lowered
		case c.Do == spec.Upsert:
			is = r.Rewritten(l, now.Time())
		case r.Due(l, now+driver.Instant(c.Early)):
			is = r.Touched(l, now, now, 0)
			if l.CreatedAt != 0 {
				is.ExpiresAt = max(is.ExpiresAt, l.ExpiresAt)
			}
		}
		want := driver.Life{}
		if c.Writes != nil {
			want = driver.Life{CreatedAt: driver.Instant(c.Writes.Created), ExpiresAt: driver.Instant(c.Writes.Expires)}
		}
		if is != want {
			t.Errorf("%s: %s writes %+v, want %+v", c.Name, c.Do, is, want)
		}
		// The share of the slack is drawn, from none to all.
		if early := driver.Instant(c.Policy.Slack / 16); c.Stored != nil && l.CreatedAt != 0 && !c.Policy.Promote {
			for _, draw := range []float64{0, 0.5, 1} {
				if from := r.DueFrom(l, now, func() float64 { return draw }); from < now || from > now+early {
					t.Errorf("%s: due from %d, not within %d of %d", c.Name, from, early, now)
				}
			}
		}
	}
}
