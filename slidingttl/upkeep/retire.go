package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RetireOptions says what Retire ends. It has Keys or a Prefix.
type RetireOptions struct{ WriteOptions }

func (o *RetireOptions) validate() error {
	return cmp.Or(o.WriteOptions.validate(), o.named("RetireOptions"))
}

var retiring = operation{
	"retire", "retiring",
	"applied retired dead" + written,
	append([]row{
		{"retired", "would be retired", wrote},
		{"dead", "not found, or dead already", usual},
	}, writtenRows...),
}

// Retire ends the lives of records for every process, as Store.Retire does. Their expiry becomes now
// less Options.MaxSkew, which must be that of the Stores or more, rounded down to the store's
// resolution. It deletes nothing: retention, sources and archives see a death like any other. A record
// that is written meanwhile is read again, and then retired. PolicyFor is not used.
//
// The report counts records as "retired", or in a dry run what would be, and as "dead" those not found or
// dead already. A record whose life cannot be read counts as failed.
func Retire(ctx context.Context, d Store, opts *RetireOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, w := verdict.At(d, o.MaxSkew, o.Now), newWriter(d, &o.WriteOptions)
	step := driver.Instant(0).Add(d.Resolution())
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := j.Now()
		end := now.Add(-o.MaxSkew)
		return driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: cmp.Or(end-end%step, -step)}, m.Alive(now), nil
	}
	retire := func(ctx context.Context, s *record) (one Report, err error) {
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
		counted := "retired"
		if what == nothing || what == vanished {
			what, counted = nothing, "dead"
		}
		return noted(what, counted, s.Size, err)
	}
	return retiring.run(ctx, d, fmt.Sprintf("skew %v, apply %v", o.MaxSkew, o.Apply), "", &o.WriteOptions, w, retire)
}
