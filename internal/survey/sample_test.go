package survey_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// sampled is how many records the samples are drawn from, and samples how many there are.
var sampled, samples = 40_000, 30

// A sample's bounds hold all true shares at once in at least 97 of 100 runs, and are of use.
func TestSampleBounds(t *testing.T) {
	f := open(t)
	n := sampled
	for i := range n {
		switch key := fmt.Sprint("user:", i); {
		case i%2000 == 0:
			f.Add(key, -100*day, day)
		case i%50 == 1:
			f.Add(key, 0, 0)
		case i%7 == 2:
			f.Add(key, 0, 300*day)
		case i%3 == 1:
			f.Add(key, -80*day, 10*day)
		default:
			f.Add(key, -day, 29*day)
		}
	}
	truth, err := survey.Audit(t.Context(), f, policy, nil)
	ok(t, err)
	within, sized := 0, 0
	for i := range samples {
		r, err := survey.Audit(t.Context(), f, policy, &survey.LookOptions{Sample: 2000 / float64(n), Seed: uint64(i + 1)})
		ok(t, err)
		all := r.Immortal.Low <= truth.Immortal.Share && truth.Immortal.Share <= r.Immortal.High
		for s, want := range truth.States {
			got := r.States[s]
			all = all && got.Low <= want.Share && want.Share <= got.High
		}
		for i, want := range truth.Deaths {
			got := r.Deaths[i]
			all = all && got.Low <= want.Share.Share && want.Share.Share <= got.High
		}
		if all {
			within++
		}
		if r.Sample.Low <= float64(n) && float64(n) <= r.Sample.High {
			sized++
		}
		if s := r.States[verdict.Slides]; s.High-s.Low > 0.12 || r.Records < 1000 || r.Records > 4000 {
			t.Errorf("of %d records: %+v", r.Records, s)
		}
	}
	t.Logf("%d of %d runs have all shares within their bounds, %d the number of records", within, samples, sized)
	if within < samples-max(2, samples*3/100) || sized < samples-max(3, samples*5/100) {
		t.Errorf("%d and %d of %d runs hold their bounds", within, sized, samples)
	}
}

// Where segments are alike within, as ranges of keys are, the bounds are wider.
func TestSampleOfRanges(t *testing.T) {
	f := open(t)
	const n = 64 * 200
	for i := range n {
		f.Add(fmt.Sprint(i), -day, day)
	}
	// Every second segment has records of one kind, the others of another.
	s := &walktest.Scripted{Store: f, Page: func(n int, from driver.Cursor, limit int) (driver.Page, error) {
		p, err := f.Scan(t.Context(), from, limit)
		for i := range p.Records {
			if n%2 == 0 {
				p.Records[i].CreatedAt = 0
			}
		}
		return p, err
	}}
	o := &survey.LookOptions{Sample: 0.5}
	o.Segments, o.Page = 1, 1000
	r, err := survey.Audit(t.Context(), s, policy, o)
	ok(t, err)
	alike := r.States[verdict.NoCreatedAt]
	plain, err := survey.Audit(t.Context(), f, policy, o)
	ok(t, err)
	if alike.High-alike.Low < 0.2 {
		t.Errorf("of segments that are alike within: %+v; of others: %+v", alike, plain.States[verdict.Slides])
	}
	_, err = survey.Audit(t.Context(), coarse{f}, policy, &survey.LookOptions{Sample: 0.01})
	if !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("a store of few segments: %v", err)
	}
}

func TestSampleOfDiff(t *testing.T) {
	f := open(t)
	for i := range 20_000 {
		f.Add(fmt.Sprint(i), -50*day, 20*day)
	}
	to := policy
	to.MaxLifetime = 40 * day
	r, err := survey.Diff(t.Context(), f, policy, to, &survey.LookOptions{Sample: 0.05})
	ok(t, err)
	if r.Idle.Gone.Share != 1 || r.Idle.Gone.Low < 0.95 || r.Sample == nil || r.Idle.Sooner.High > 0.05 {
		t.Errorf("the report is\n%v", r)
	}
}

// coarse is a store that splits into four.
type coarse struct{ *fixture }

func (c coarse) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return c.fixture.Segments(ctx, min(n, 4))
}
