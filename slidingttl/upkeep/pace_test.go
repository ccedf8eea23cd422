package upkeep_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/internal/walktest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

func sortInstants(s []driver.Instant) { slices.Sort(s) }

// costly is a store whose pages cost two units, and a half for each record.
type costly struct{ *fixture }

func (c costly) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	p, err := c.fixture.Scan(ctx, from, limit)
	p.Cost = 2 + float64(len(p.Records))/2
	return p, err
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits upkeep.Limits
		want   time.Duration
	}{
		"none":    {upkeep.Limits{}, 0},
		"records": {upkeep.Limits{Records: 100}, 6 * time.Second},
		"writes":  {upkeep.Limits{Writes: 50}, 12 * time.Second},
		"cost":    {upkeep.Limits{Cost: 100}, 10200 * time.Millisecond},
		"slow":    {upkeep.Limits{Writes: 0.5}, 1200 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := open(t)
				for i := range 600 {
					f.Add(fmt.Sprint(i), 0, 0)
				}
				o := applied()
				o.Limits, o.Page, o.Segments = c.limits, 10, 2
				began := time.Now()
				var last upkeep.Progress
				o.Progress = func(p upkeep.Progress) { last = p }
				r, err := upkeep.Adopt(t.Context(), costly{f}, policy, o)
				ok(t, err)
				if took := time.Since(began); took < c.want*95/100 || took > c.want*105/100 {
					t.Errorf("it took %v; want %v", took, c.want)
				}
				if r.Counts["adopted"] != 600 || r.Cost < 400 || r.Cost > 450 {
					t.Errorf("the report is\n%v", r)
				}
				if last.Records != 600 || last.Writes != 600 || last.Done != 2 || last.Segments != 2 || last.Cost != r.Cost {
					t.Errorf("the last progress is %+v", last)
				}
			})
		})
	}
}

func TestCancelEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 1000 {
			f.Add(fmt.Sprint(i), 0, 0)
		}
		o := applied()
		o.Limits.Writes = 1
		saved := 0
		o.Save = func(upkeep.Checkpoint) error { saved++; return nil }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		r, err := upkeep.Adopt(ctx, f, policy, o)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 10*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if saved == 0 || r.Done || r.String() == "" {
			t.Errorf("%d checkpoints, and the report\n%v", saved, r)
		}
	})
}

func TestSaveFails(t *testing.T) {
	f := open(t)
	f.Add("a", 0, 0)
	full := errors.New("disk full")
	o := &survey.LookOptions{}
	o.Save = func(upkeep.Checkpoint) error { return full }
	if _, err := survey.Audit(t.Context(), f, policy, o); !errors.Is(err, full) {
		t.Errorf("the error is %v", err)
	}
}

// A page is what a twentieth of a second may read, by the limits of now.
func TestPageFollowsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		var asked []int
		s := &walktest.Scripted{Store: f, Page: func(_ int, _ driver.Cursor, limit int) (driver.Page, error) {
			asked = append(asked, limit)
			if len(asked) == 6 {
				return driver.Page{}, nil
			}
			return driver.Page{Next: "more"}, nil
		}}
		o := &survey.LookOptions{}
		o.Segments = 1
		o.Steer = func() (upkeep.Limits, bool) {
			return upkeep.Limits{Records: []float64{0, 10, 400, 2000, 1e6, 0.1}[min(len(asked), 5)]}, false
		}
		_, err := survey.Audit(t.Context(), s, policy, o)
		ok(t, err)
		if !slices.Equal(asked, []int{500, 20, 20, 100, 500, 20}) {
			t.Errorf("pages of %v were asked for", asked)
		}
	})
}

// A scan that fails continues from where it was; one that keeps failing returns its error.
func TestScanFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t)
		for i := range 100 {
			f.Add(fmt.Sprint(i), -day, day)
		}
		down := errors.New("down")
		s := &walktest.Scripted{Store: f, Page: func(n int, from driver.Cursor, limit int) (driver.Page, error) {
			if n%3 != 0 {
				return driver.Page{}, down
			}
			return f.Scan(t.Context(), from, limit)
		}}
		o := &survey.LookOptions{}
		o.Segments, o.Page = 1, 10
		r, err := survey.Audit(t.Context(), s, policy, o)
		ok(t, err)
		if r.Records != 100 || !r.Done {
			t.Errorf("the report is\n%v", r)
		}
		refused := fmt.Errorf("%w: wrong key", driver.ErrRefused)
		s.Page = func(int, driver.Cursor, int) (driver.Page, error) { return driver.Page{}, refused }
		began := time.Now()
		if _, err = survey.Audit(t.Context(), s, policy, o); !errors.Is(err, refused) || time.Since(began) != 0 {
			t.Errorf("the error is %v, after %v; want the refusal, at once", err, time.Since(began))
		}
		s.Page = func(int, driver.Cursor, int) (driver.Page, error) { return driver.Page{}, down }
		if r, err = survey.Audit(t.Context(), s, policy, o); !errors.Is(err, down) || r.Done {
			t.Errorf("the error is %v, and the report\n%v", err, r)
		}
	})
}
