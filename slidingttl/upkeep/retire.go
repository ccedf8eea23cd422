package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RetireOptions says what Retire ends. It has Keys or a Prefix.
type RetireOptions struct{ WriteOptions }

func (o *RetireOptions) validate() error {
	return cmp.Or(o.WriteOptions.validate(), o.named("RetireOptions"))
}

// RetireReport is the result of a Retire. A record whose life cannot be read counts as failed.
type RetireReport struct {
	Totals
	Applied bool  `json:"applied"` // else it was a dry run
	Retired int64 `json:"retired"` // in a dry run: would be
	Dead    int64 `json:"dead"`    // not found, or dead already
	Written
}

func (r *RetireReport) add(page *RetireReport) { r.tallies().add(page.tallies()) }

func (r *RetireReport) restart() { r.tallies().restart(&r.Totals) }

func (r *RetireReport) tallies() tallies {
	return tallies{"retiring" + dry(r.Applied), append([]tally{
		{&r.Retired, would(r.Applied, "retired"), wrote},
		{&r.Dead, "not found, or dead already", usual},
	}, r.Written.tallies()...), nil}
}

// Retire ends the lives of records for every process, as Store.Retire does. Their expiry becomes now
// less Options.MaxSkew, which must be that of the Stores or more, rounded down to the store's
// resolution. It deletes nothing: retention, sources and archives see a death like any other. A record
// that is written meanwhile is read again, and then retired. PolicyFor is not used.
//
// Together with an error, the report is valid for the records read until then.
func Retire[T any](ctx context.Context, d Store[T], opts *RetireOptions) (*RetireReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, w := o.clock(d), newWriter(d, &o.WriteOptions)
	step := driver.Instant(0).Add(d.Resolution())
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := j.Now()
		end := now.Add(-o.MaxSkew)
		return driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: cmp.Or(end-end%step, -step)}, m.Alive(now), nil
	}
	retire := func(ctx context.Context, s *record) (one RetireReport, err error) {
		if errors.Is(s.Problem, driver.ErrInvalid) {
			return one, s.Problem
		}
		what := vanished
		if s.Problem == nil {
			what, err = w.writeUnlessChanged(ctx, s, plan, func(was driver.Meta, next driver.Life) error {
				_, err := d.Touch(ctx, s.Key, was, next, j.Now())
				if s.unsure() && errors.Is(err, driver.ErrNotFound) {
					return nil // an earlier attempt has retired it
				}
				return err
			})
		}
		switch {
		case err != nil:
			return RetireReport{}, err
		case what == done:
			one.Retired = 1
		case what == nothing, what == vanished:
			one.Dead = 1
			return one, nil
		}
		one.note(what, units(s.Size))
		return one, nil
	}
	report, err := writing("retire", fmt.Sprintf("skew %v, apply %v", o.MaxSkew, o.Apply), &o.WriteOptions, w, retire).run(ctx, d)
	report.Applied = o.Apply
	return &report, err
}

// String returns the report as several lines of text.
func (r *RetireReport) String() string { return r.tallies().text(&r.Totals) }
