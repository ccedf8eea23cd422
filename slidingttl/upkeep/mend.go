package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// MendOptions adjusts Mend. The zero value, and nil, mean the defaults.
type MendOptions struct {
	WriteOptions

	// CreatedAt, if not empty, is the unit in which another program wrote created_at: seconds, micros
	// or nanos. Mend corrects an implausible created_at that makes sense in this unit.
	CreatedAt string
}

var mending = operation{
	"mend", "mending",
	"applied mended faults? left problems? well" + written,
	append(append([]row{
		{"mended", "would be mended", wrote},
		{"well", "well", usual},
		{"left", "left: what was meant is in doubt", rare},
	}, writtenRows...), row{"faults", "faults", why | wrote}, row{"problems", "left because", why}),
}

// Mend corrects the lives of records that cannot be read or that the store ignores. It does
// so only if there is no doubt what was meant: see [driver.Mender]. Over a driver that is
// no Mender it reports such records and writes nothing. With MendOptions.CreatedAt it also
// corrects a created_at that is implausible but makes sense in that unit. Options.PolicyFor
// is not used.
//
// The report counts records as "mended", or in a dry run what would be, as "well", and as "left", where
// what was meant is in doubt.
func Mend(ctx context.Context, d Store, opts *MendOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if o.CreatedAt != "" && !slices.Contains(verdict.Units, o.CreatedAt) {
		return nil, invalid("MendOptions.CreatedAt", strconv.Quote(o.CreatedAt), "must be seconds, micros or nanos")
	}
	m := &mender{d: d, unit: o.CreatedAt, judge: verdict.At(d, o.MaxSkew, o.Now), writer: newWriter(d, &o.WriteOptions)}
	m.driver, _ = driver.As[driver.Mender](d)
	return mending.run(ctx, d, fmt.Sprintf("created_at %q, apply %v", o.CreatedAt, o.Apply), "", &o.WriteOptions, m.writer, m.mend)
}

// mender is a Mend under way.
type mender struct {
	d      Store
	driver driver.Mender // nil: none
	unit   string        // empty: none
	judge  *verdict.Judge
	writer *writer
}

// mend corrects r, and returns a report of this record.
func (m *mender) mend(ctx context.Context, r *record) (one Report, err error) {
	wrong := r.Problem != nil && !errors.Is(r.Problem, driver.ErrNotFound) || r.Fault != "" || m.judge.Implausible(r.Life, m.judge.Now()) != ""
	if wrong {
		if spared, err := m.writer.spared(ctx, r); err != nil || spared {
			return noted(kept, "", 0, err)
		}
	}
	switch {
	case errors.Is(r.Problem, driver.ErrNotFound):
		return noted(vanished, "", 0, nil)
	case r.Problem == nil && m.judge.Implausible(r.Life, m.judge.Now()) != "":
		return m.mendUnit(ctx, r)
	case r.Problem == nil && (r.Fault == "" || m.driver == nil):
		return noted(nothing, "well", 0, nil)
	case m.driver == nil:
		one.left(verdict.Reason(r.Problem))
		return one, nil
	}
	var fault string
	for range lostRaces {
		err = m.writer.write(ctx, r, func() (err error) {
			fault, err = m.driver.Mend(ctx, r.Key, m.writer.apply)
			if unanswered(ctx, err) {
				r.unknown = true
			} else if err == nil && fault == "" && r.unknown { // an earlier attempt has mended it
				fault = cmp.Or(r.Fault, "as the scan found it")
			}
			return err
		})
		if !errors.Is(err, driver.ErrConflict) {
			break
		}
	}
	switch {
	case err == nil && fault == "":
		return noted(nothing, "well", 0, nil)
	case errors.Is(err, driver.ErrInvalid):
		one.left(verdict.Reason(err))
		return one, nil
	}
	what, err := m.writer.became(err)
	if err != nil {
		return one, err
	}
	if what == done {
		one.because("faults", map[string]int64{fault: 1})
	}
	one.note(what, "mended", r.Size)
	return one, nil
}

// mendUnit corrects the implausible created_at of r, and returns a report of this record.
func (m *mender) mendUnit(ctx context.Context, r *record) (one Report, err error) {
	var doubt, unit string
	found := r.Meta
	plan := func(was driver.Meta) (driver.Life, bool, error) {
		if doubt, unit = verdict.Doubt(was.Life, m.judge.Now().Plus(m.judge.Skew)); unit == "" || unit != m.unit {
			return was.Life, false, nil
		}
		if was.ExpiresAt != 0 && was.ExpiresAt <= m.judge.Now() {
			doubt += ", and its expiry has passed"
			return was.Life, false, nil
		}
		next := driver.Life{CreatedAt: verdict.Millis(unit, was.CreatedAt), ExpiresAt: was.ExpiresAt}
		if found.Version == was.Version && found.CreatedAt == was.CreatedAt && found.ExpiresAt != 0 {
			next.ExpiresAt = min(next.ExpiresAt, found.ExpiresAt) // another program's, which a conflict does not tell
		}
		return next, true, nil
	}
	what, err := m.writer.writeUnlessChanged(ctx, r, plan, func(was driver.Meta, next driver.Life) error {
		_, err := m.d.Touch(ctx, r.Key, was, next, m.judge.Now())
		return err
	})
	counted := "mended"
	switch {
	case err != nil:
		return one, err
	case what == done:
		one.because("faults", map[string]int64{doubt: 1})
	case what == nothing && doubt == "":
		counted = "well"
	case what == nothing:
		one.left(doubt)
		return one, nil
	}
	one.note(what, counted, r.Size)
	return one, nil
}

// left counts a record that Mend leaves, and why.
func (r *Report) left(why string) {
	r.count("left", 1)
	r.because("problems", map[string]int64{why: 1})
}
