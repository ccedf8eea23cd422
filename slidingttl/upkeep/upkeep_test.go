package upkeep_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

var policy = slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fixture is a store in memory.
type fixture struct {
	*memory.Driver[string]
	t   testing.TB
	now driver.Instant
}

func open(t testing.TB) *fixture {
	d, err := memory.New[string](nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return &fixture{Driver: d, t: t, now: driver.Floor(d.Now())}
}

// add puts a record with its life counted from now; zero: none.
func (f *fixture) add(key string, created, expires time.Duration) {
	f.t.Helper()
	var l driver.Life
	if created != 0 {
		l.CreatedAt = f.now.Add(created)
	}
	if expires != 0 {
		l.ExpiresAt = f.now.Add(expires)
	}
	_, err := f.Insert(f.t.Context(), key, "v", l, 1)
	ok(f.t, err)
}

func (f *fixture) meta(key string) driver.Meta {
	f.t.Helper()
	e, err := f.Get(f.t.Context(), key)
	ok(f.t, err)
	return e.Meta
}

// dead is a scanner that has records which the store beneath has long deleted, or cannot
// hold.
type dead struct {
	*fixture
	more []driver.Scanned
}

func (d dead) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	p, err := d.fixture.Scan(ctx, from, limit)
	if err == nil && p.Next == "" {
		p.Records = append(p.Records, d.more...)
	}
	return p, err
}

func TestAuditTellsStates(t *testing.T) {
	f := open(t)
	for i := range 50 {
		f.add(fmt.Sprint("slides-", i), -day, 20*day)
	}
	f.add("at its cap", -89*day, day)
	f.add("foreign", 0, 20*day)
	f.add("immortal", 0, 0)
	f.add("no expiry", -day, 0)
	f.add("past its cap", -91*day, day)
	f.add("beyond", -day, 34*day)
	bad := &driver.InvalidError{Field: "ttl", Value: "a word", Rule: "must be a number"}
	s := dead{f, []driver.Scanned{
		{Key: "malformed", Problem: bad},
		{Key: "dead", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.now.Add(-day), ExpiresAt: f.now}}},
		{Key: "retained no more", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.now.Add(-day), ExpiresAt: f.now.Add(-day)}}, HeldUntil: f.now},
		{Key: "retained", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.now.Add(-day), ExpiresAt: f.now}}, HeldUntil: f.now.Add(day)},
	}}
	r, err := survey.Audit(t.Context(), s, policy, &survey.LookOptions{Options: upkeep.Options{Segments: 1, Page: 7}})
	ok(t, err)
	for state, want := range map[verdict.State]int64{
		verdict.Slides: 51, verdict.NoCreatedAt: 2, verdict.NeverExpires: 1, verdict.PastCap: 1,
		verdict.Beyond: 1, verdict.Malformed: 1, verdict.Dead: 2, verdict.Retained: 1,
	} {
		if got := r.States[state]; got.Count != want || got.Low != got.Share || got.High != got.Share {
			t.Errorf("%v: %+v; want %d", state, got, want)
		}
	}
	if r.Records != 60 || !r.Done || r.Immortal.Count != 1 || r.Problems["ttl must be a number"] != 1 {
		t.Errorf("the report is %+v", r)
	}
	bins := make(map[string]int64)
	for _, d := range r.Deaths {
		bins[d.Within] = d.Count
	}
	if bins["1d"] != 1 || bins["21d"] != 51 || bins["45d"] != 1 || bins["90d"] != 1 || bins["never"] != 1 {
		t.Errorf("deaths by bin are %v", bins)
	}
	steps := make([]survey.Step, 90)
	steps[1], steps[20], steps[34], steps[89] = survey.Step{Deaths: 1, Capped: 1}, survey.Step{Deaths: 51}, survey.Step{Deaths: 1}, survey.Step{Deaths: 1, Capped: 1}
	if c := r.Calendar; c.Seconds != 24*3600 || c.Later != 1 || !c.From.Equal(f.now.Time().Truncate(day)) || !slices.Equal(c.Steps, steps) {
		t.Errorf("the calendar is %+v", c)
	}
	text := r.String()
	for _, want := range []string{"Of 60 records ", "audit under", "60 records looked at", "no created at", "3.33 %", "retained", "ttl must be a number", "never"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
	b, err := json.Marshal(r)
	ok(t, err)
	var again survey.AuditReport
	ok(t, json.Unmarshal(b, &again))
	if again.States[verdict.Slides].Count != 51 || again.Deaths[4].Within != "1d" {
		t.Errorf("out of JSON comes %+v", again)
	}
}

// Shards of an audit, of which each has found nothing when it begins, add up to one run.
func TestAuditByShards(t *testing.T) {
	f := open(t)
	for i := range 500 {
		f.add(fmt.Sprint("user:", i), -day*time.Duration(i%100), 20*day)
	}
	whole, err := survey.Audit(t.Context(), f, policy, nil)
	ok(t, err)
	var shards []upkeep.Checkpoint
	keep := upkeep.Options{Shards: 3, Save: func(c upkeep.Checkpoint) error {
		shards = append(shards, c)
		return nil
	}}
	_, err = survey.Audit(t.Context(), f, policy, &survey.LookOptions{Options: keep})
	ok(t, err)
	for i := range shards {
		from := shards[i]
		_, err := survey.Audit(t.Context(), f, policy, &survey.LookOptions{Options: upkeep.Options{Resume: &from, Save: func(c upkeep.Checkpoint) error {
			shards[i] = c
			return nil
		}}})
		ok(t, err)
	}
	all, err := survey.Audit(t.Context(), f, policy, &survey.LookOptions{Options: upkeep.Options{Resume: &shards[0], Beside: shards[1:]}})
	ok(t, err)
	all.Totals = whole.Totals
	if !reflect.DeepEqual(all, whole) {
		t.Errorf("one run tells\n%v\nand shards\n%v", whole, all)
	}
}

func TestAuditByKey(t *testing.T) {
	f := open(t)
	f.add("short", -2*day, day)
	f.add("long", -2*day, day)
	o := &survey.LookOptions{}
	o.PolicyFor = func(key string) slidingttl.Policy {
		if key == "short" {
			return slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: day}
		}
		return policy
	}
	r, err := survey.Audit(t.Context(), f, policy, o)
	ok(t, err)
	if r.States[verdict.PastCap].Count != 1 || r.States[verdict.Slides].Count != 1 {
		t.Errorf("the report is %v", r)
	}
	o.PolicyFor = func(string) slidingttl.Policy { return slidingttl.Policy{} }
	if _, err := survey.Audit(t.Context(), f, policy, o); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a policy that is none: %v", err)
	}
}

// A calendar has steps that its policies fit in, and what is beyond them counts too.
func TestCalendarSteps(t *testing.T) {
	f := open(t)
	f.add("soon", -time.Minute, 10*time.Minute)
	f.add("never", 0, 0)
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
		f.add(fmt.Sprint("old-", i), -50*day, 20*day) // gone under a cap of 40 days
	}
	f.add("mid", -30*day, 20*day)  // dies of the new cap, in 10 days
	f.add("young", -2*day, 20*day) // as before, if idle
	f.add("gone before", -91*day, day)
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
		f.add(fmt.Sprint(i), -40*day, policy.IdleGrace+policy.Slack-ago)
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

func TestInvalidOptions(t *testing.T) {
	f := open(t)
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"segments": func() error {
			_, err := survey.Audit(ctx, f, policy, &survey.LookOptions{Options: upkeep.Options{Segments: -1}})
			return err
		},
		"rate": func() error {
			_, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: upkeep.WriteOptions{Options: upkeep.Options{Limits: upkeep.Limits{Records: -1}}}})
			return err
		},
		"writers": func() error {
			_, err := upkeep.Mend(ctx, f, &upkeep.MendOptions{WriteOptions: upkeep.WriteOptions{Writers: -1}})
			return err
		},
		"sample": func() error {
			_, err := survey.Audit(ctx, f, policy, &survey.LookOptions{Sample: 1})
			return err
		},
		"within": func() error {
			_, err := survey.Dying(ctx, f, -1, nil)
			return err
		},
		"limit": func() error {
			_, err := survey.Dying(ctx, f, time.Hour, &survey.DyingOptions{Limit: -1})
			return err
		},
		"dying, a checkpoint": func() error {
			_, err := survey.Dying(ctx, f, time.Hour, &survey.DyingOptions{Options: upkeep.Options{Shards: 2}})
			return err
		},
		"policy": func() error {
			_, err := survey.Audit(ctx, f, slidingttl.Policy{}, nil)
			return err
		},
		"spread": func() error {
			_, err := upkeep.Adopt(ctx, f, policy, &upkeep.AdoptOptions{Spread: 61 * day})
			return err
		},
		"spread of what is exact": func() error {
			_, err := upkeep.Adopt(ctx, f, policy, &upkeep.AdoptOptions{Spread: day, Exact: true})
			return err
		},
		"grace": func() error {
			_, err := upkeep.Reap(ctx, f, policy, &upkeep.ReapOptions{Grace: -1})
			return err
		},
		"checkpoint of another operation": func() error {
			o := &survey.LookOptions{}
			o.Resume = &upkeep.Checkpoint{Operation: "adopt", Segments: []driver.Cursor{"x"}}
			_, err := survey.Audit(ctx, f, policy, o)
			return err
		},
	} {
		if err := call(); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// scanned is a scanner whose pages and errors a test decides.
type scanned struct {
	*fixture
	scan func(n int, from driver.Cursor, limit int) (driver.Page, error)
	n    *int
}

func (s scanned) Scan(_ context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	*s.n++
	return s.scan(*s.n, from, limit)
}

func keysOf(f *fixture) (keys []string) {
	cursors, err := f.Segments(f.t.Context(), 1)
	ok(f.t, err)
	for at := cursors[0]; at != ""; {
		p, err := f.Scan(f.t.Context(), at, 1000)
		ok(f.t, err)
		for _, r := range p.Records {
			keys = append(keys, strings.Clone(r.Key))
		}
		at = p.Next
	}
	slices.Sort(keys)
	return keys
}
