package survey_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A calendar has steps that its policies fit in, and what is beyond them counts too.
func TestCalendarSteps(t *testing.T) {
	f := open(t)
	f.Add("soon", -time.Minute, 10*time.Minute)
	f.Add("never", 0, 0)
	for to, want := range map[string]time.Duration{
		"idle 30m, max 12h": time.Minute, "idle 2h, max 2h": 10 * time.Minute, "idle 3d, max 9d": time.Hour,
		"idle 7d, max none": 6 * time.Hour, "idle 30d, max 90d": day, "idle 30d, max 900d, promote": day,
	} {
		p, err := slidingttl.ParsePolicy(to)
		ok(t, err)
		for _, from := range []slidingttl.Policy{p, {IdleGrace: time.Second, MaxLifetime: 1000 * day}} {
			r, err := survey.Diff(t.Context(), f, from, p, nil)
			ok(t, err)
			if c := r.Before; c.Seconds != int64(want.Seconds()) || c.Later != 1 || c.Steps[len(c.Steps)-1].Deaths != 1 || len(c.Steps) > 11 {
				t.Errorf("%s: %+v; want steps of %v", to, c, want)
			}
		}
	}
}

func TestDiffTellsFates(t *testing.T) {
	f := open(t)
	for i := range 8 {
		f.Add(fmt.Sprint("old-", i), -50*day, 20*day) // gone under a cap of 40 days
	}
	f.Add("mid", -30*day, 20*day)  // dies of the new cap, in 10 days
	f.Add("young", -2*day, 20*day) // as before, if idle
	f.Add("gone before", -91*day, day)
	to := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 40 * day, Slack: 6 * day}
	r, err := survey.Diff(t.Context(), f, policy, to, nil)
	ok(t, err)
	if r.Idle.Gone.Count != 8 || r.Idle.Sooner.Count != 1 || r.Idle.Same.Count != 1 || r.Idle.Later.Count != 0 || r.Skipped != 1 {
		t.Errorf("idle: %+v, skipped %d", r.Idle, r.Skipped)
	}
	if r.Read.Gone.Count != 8 || r.Read.Sooner.Count != 1 || r.Read.Later.Count != 1 {
		t.Errorf("read: %+v", r.Read)
	}
	if b, a := r.Before.Steps, r.After.Steps; len(b) != 21 || b[20].Deaths != 10 || len(a) != 21 || a[0].Capped != 8 || a[10].Capped != 1 || a[20].Capped != 0 {
		t.Errorf("they die before the change %+v, and after it %+v", b, a)
	}
	if text := r.String(); !strings.Contains(text, "80.00 %") || !strings.Contains(text, "touches a day") {
		t.Errorf("the text is\n%s", text)
	}
	_, err = survey.Diff(t.Context(), f, policy, slidingttl.Policy{}, nil)
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a diff to no policy: %v", err)
	}
}

// The touches a day that Diff derives from expiries are those that the records really had, and
// its estimate for another slack comes true.
func TestDiffEstimatesTouches(t *testing.T) {
	f := open(t)
	const n = 2000
	const gap = 12 * time.Hour // between two reads of a record
	// In the steady state a record's last touch lies up to slack + gap back, evenly.
	for i := range n {
		ago := time.Duration(float64(i) / n * float64(policy.Slack+gap/2))
		f.Add(fmt.Sprint(i), -40*day, policy.IdleGrace+policy.Slack-ago)
	}
	to := policy
	to.Slack = 6 * day
	r, err := survey.Diff(t.Context(), f, policy, to, nil)
	ok(t, err)
	before := n / (policy.Slack + gap/2).Hours() * 24
	after := n / (to.Slack + gap/2).Hours() * 24
	if r.TouchesBefore < 0.95*before || r.TouchesBefore > 1.05*before || r.TouchesAfter < 0.95*after || r.TouchesAfter > 1.05*after {
		t.Errorf("touches a day are %.0f and %.0f; want %.0f and %.0f", r.TouchesBefore, r.TouchesAfter, before, after)
	}
}
