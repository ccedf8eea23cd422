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

// MendReport is the result of a Mend.
type MendReport struct {
	Totals
	Applied bool `json:"applied"` // else it was a dry run

	Mended   int64            `json:"mended"` // in a dry run: would be
	Faults   map[string]int64 `json:"faults,omitempty"`
	Left     int64            `json:"left"` // not written: the intended life is in doubt
	Problems map[string]int64 `json:"problems,omitempty"`
	Well     int64            `json:"well"`
	Written
}

func (r *MendReport) add(page *MendReport) { r.tallies().add(page.tallies()) }

func (r *MendReport) restart() { r.tallies().restart(&r.Totals) }

func (r *MendReport) tallies() tallies {
	return tallies{"mending" + dry(r.Applied), append([]tally{
		{&r.Mended, would(r.Applied, "mended"), wrote},
		{&r.Well, "well", usual},
		{&r.Left, "left: what was meant is in doubt", rare},
	}, r.Written.tallies()...), []reasons{{&r.Faults, "faults", wrote}, {&r.Problems, "left because", usual}}}
}

// Mend corrects the lives of records that cannot be read or that the store ignores. It does
// so only if there is no doubt what was meant: see [driver.Mender]. Over a driver that is
// no Mender it reports such records and writes nothing. With MendOptions.CreatedAt it also
// corrects a created_at that is implausible but makes sense in that unit. Options.PolicyFor
// is not used.
//
// Together with an error, the report is valid for the records read until then.
func Mend[T any](ctx context.Context, d Store[T], opts *MendOptions) (*MendReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if o.CreatedAt != "" && !slices.Contains(verdict.Units, o.CreatedAt) {
		return nil, invalid("MendOptions.CreatedAt", strconv.Quote(o.CreatedAt), "must be seconds, micros or nanos")
	}
	m := &mender[T]{d: d, unit: o.CreatedAt, judge: o.clock(d), writer: newWriter(d, &o.WriteOptions)}
	m.driver, _ = driver.As[driver.Mender](d)
	r, err := writing("mend", fmt.Sprintf("created_at %q, apply %v", o.CreatedAt, o.Apply), &o.WriteOptions, m.writer, m.mend).run(ctx, d)
	r.Applied = o.Apply
	return &r, err
}

// mender is a Mend under way.
type mender[T any] struct {
	d      driver.Driver[T]
	driver driver.Mender // nil: none
	unit   string        // empty: none
	judge  *verdict.Judge
	writer *writer
}

// mend corrects r, and returns a report of this record.
func (m *mender[T]) mend(ctx context.Context, r *record) (one MendReport, err error) {
	wrong := r.Problem != nil && !errors.Is(r.Problem, driver.ErrNotFound) || r.Fault != "" || m.judge.Implausible(r.Life, m.judge.Now()) != ""
	if wrong {
		if kept, err := m.writer.spared(ctx, r); err != nil || kept {
			one.Kept = 1
			return one, err
		}
	}
	switch {
	case errors.Is(r.Problem, driver.ErrNotFound):
		one.note(vanished, 0)
		return one, nil
	case r.Problem == nil && m.judge.Implausible(r.Life, m.judge.Now()) != "":
		return m.mendUnit(ctx, r)
	case r.Problem == nil && (r.Fault == "" || m.driver == nil):
		one.Well = 1
		return one, nil
	case m.driver == nil:
		one.left(r.Problem)
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
		one.Well++
		return one, nil
	case errors.Is(err, driver.ErrInvalid):
		one.left(err)
		return one, nil
	}
	what, err := m.writer.became(err)
	if what == done {
		one.Mended, one.Faults = 1, map[string]int64{fault: 1}
	}
	one.note(what, units(r.Size))
	return one, err
}

// mendUnit corrects the implausible created_at of r, and returns a report of this record.
func (m *mender[T]) mendUnit(ctx context.Context, r *record) (one MendReport, err error) {
	var doubt, unit string
	plan := func(was driver.Meta) (driver.Life, bool, error) {
		if doubt, unit = verdict.Doubt(was.Life, m.judge.Now().Plus(m.judge.Skew)); unit == "" || unit != m.unit {
			return was.Life, false, nil
		}
		return driver.Life{CreatedAt: verdict.Millis(unit, was.CreatedAt), ExpiresAt: was.ExpiresAt}, true, nil
	}
	what, err := m.writer.writeUnlessChanged(ctx, r, plan, func(was driver.Meta, next driver.Life) error {
		_, err := m.d.Touch(ctx, r.Key, was, next, m.judge.Now())
		return err
	})
	switch {
	case err != nil:
		return one, err
	case what == done:
		one.Mended, one.Faults = 1, map[string]int64{doubt: 1}
	case what == nothing && doubt == "":
		one.Well++
	case what == nothing:
		one.Left, one.Problems = 1, map[string]int64{doubt: 1}
	}
	one.note(what, units(r.Size))
	return one, nil
}

func (r *MendReport) left(err error) {
	r.Left, r.Problems = 1, map[string]int64{verdict.Reason(err): 1}
}

// String returns the report as several lines of text.
func (r *MendReport) String() string { return r.tallies().text(&r.Totals) }
