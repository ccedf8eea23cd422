package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// RetireOptions says what Retire ends. Exactly one of Keys and Prefix is set.
type RetireOptions struct {
	WriteOptions
	Keys   []string // looked up one by one
	Prefix string   // of keys: all records are scanned
}

func (o *RetireOptions) validate() error {
	if (len(o.Keys) > 0) == (o.Prefix != "") {
		return invalid("RetireOptions", "both or none of Keys and Prefix", "must have one of them")
	}
	return o.WriteOptions.validate()
}

// RetireReport is the result of a Retire. A record whose life cannot be read counts as failed.
type RetireReport struct {
	Totals
	Applied bool  `json:"applied"` // else it was a dry run
	Retired int64 `json:"retired"` // in a dry run: would be
	Dead    int64 `json:"dead"`    // not found, or dead already
	Others  int64 `json:"others"`  // scanned, and without the Prefix
	Written
}

func (r *RetireReport) add(page *RetireReport) { r.tallies().add(page.tallies()) }

func (r *RetireReport) restart() { r.tallies().restart(&r.Totals) }

func (r *RetireReport) tallies() tallies {
	return tallies{"retiring" + dry(r.Applied), append([]tally{
		{&r.Retired, would(r.Applied, "retired"), wrote},
		{&r.Dead, "not found, or dead already", usual},
		{&r.Others, "other keys", rare},
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
	r := &retirer[T]{d: d, opts: &o, judge: judgeOf(d, &o.Options), writer: newWriter(d, &o.WriteOptions)}
	var scanner driver.Scanner = d
	if o.Keys = slices.Compact(slices.Sorted(slices.Values(o.Keys))); len(o.Keys) > 0 {
		if r.writer.raw == nil {
			return nil, errNoLookUp()
		}
		scanner = keyList(o.Keys)
	}
	about := fmt.Sprintf("%s, skew %v, apply %v", choice(o.Keys, o.Prefix), o.MaxSkew, o.Apply)
	report, err := writing("retire", about, &o.WriteOptions, r.writer, r.retire).run(ctx, scanner)
	report.Applied = o.Apply
	return &report, err
}

// retirer is a Retire under way.
type retirer[T any] struct {
	d      driver.Driver[T]
	opts   *RetireOptions
	judge  *judge
	writer *writer
}

// retire ends the life of s, and returns a report of this record.
func (r *retirer[T]) retire(ctx context.Context, s *record) (one RetireReport, err error) {
	if !strings.HasPrefix(s.Key, r.opts.Prefix) {
		one.Others = 1
		return one, nil
	}
	if len(r.opts.Keys) > 0 {
		err = r.writer.look(ctx, s)
	}
	switch {
	case errors.Is(err, driver.ErrNotFound) && s.unsure():
		one.Retired = 1 // by the write without an answer
		return one, nil
	case errors.Is(err, driver.ErrNotFound):
		one.Dead = 1
		return one, nil
	case err != nil:
		return one, err
	case s.Problem != nil:
		return one, s.Problem
	}
	step := driver.Instant(0).Add(r.d.Resolution())
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := r.judge.now()
		end := now.Add(-r.opts.MaxSkew)
		return driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: cmp.Or(end-end%step, -step)}, m.Alive(now), nil
	}
	if _, due, _ := plan(s.Meta); due {
		if kept, err := r.writer.spared(ctx, s); err != nil || kept {
			one.Kept = 1
			return one, err
		}
	}
	what, err := r.writer.writeUnlessChanged(ctx, s, plan, func(was driver.Meta, next driver.Life) error {
		_, err := r.d.Touch(ctx, s.Key, was, next, r.judge.now())
		if s.unsure() && errors.Is(err, driver.ErrNotFound) {
			return nil // an earlier attempt has retired it
		}
		return err
	})
	switch {
	case err != nil:
		return RetireReport{}, err
	case what == done:
		one.Retired = 1
	case what == nothing, what == vanished:
		one.Dead = 1
		return one, nil
	}
	one.note(what, r.writer.units(s.Size))
	return one, nil
}

// String returns the report as several lines of text.
func (r *RetireReport) String() string { return r.tallies().text(&r.Totals) }
