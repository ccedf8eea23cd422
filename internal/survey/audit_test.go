package survey_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func TestAuditTellsStates(t *testing.T) {
	f := open(t)
	for i := range 50 {
		f.Add(fmt.Sprint("slides-", i), -day, 20*day)
	}
	f.Add("at its cap", -89*day, day)
	f.Add("foreign", 0, 20*day)
	f.Add("immortal", 0, 0)
	f.Add("no expiry", -day, 0)
	f.Add("past its cap", -91*day, day)
	f.Add("beyond", -day, 34*day)
	bad := &driver.InvalidError{Field: "ttl", Value: "a word", Rule: "must be a number"}
	s := walktest.Dead{Store: f, More: []driver.Scanned{
		{Key: "malformed", Problem: bad},
		{Key: "dead", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.Began.Add(-day), ExpiresAt: f.Began}}},
		{Key: "retained no more", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.Began.Add(-day), ExpiresAt: f.Began.Add(-day)}}, HeldUntil: f.Began},
		{Key: "retained", Meta: driver.Meta{Life: driver.Life{CreatedAt: f.Began.Add(-day), ExpiresAt: f.Began}}, HeldUntil: f.Began.Add(day)},
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
	if c := r.Calendar; c.Seconds != 24*3600 || c.Later != 1 || !c.From.Equal(f.Began.Time().Truncate(day)) || !slices.Equal(c.Steps, steps) {
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
		f.Add(fmt.Sprint("user:", i), -day*time.Duration(i%100), 20*day)
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
	f.Add("short", -2*day, day)
	f.Add("long", -2*day, day)
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

// An audit holds no more than its pages: nothing grows with the records.
func TestAuditHeap(t *testing.T) {
	f := open(t)
	const n = 60_000
	for i := range n {
		f.Add(fmt.Sprint("user:", i), -day, 20*day)
	}
	live := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before, most, pages := live(), uint64(0), 0
	o := &survey.LookOptions{}
	o.Progress = func(upkeep.Progress) {
		if pages++; pages%40 == 0 {
			most = max(most, live())
		}
	}
	r, err := survey.Audit(t.Context(), f, policy, o)
	ok(t, err)
	if r.States[verdict.Slides].Count != n || pages < 120 {
		t.Errorf("in %d pages the report is\n%v", pages, r)
	}
	if most > before+2<<20 {
		t.Errorf("an audit holds %d KiB", (most-before)>>10)
	}
}
