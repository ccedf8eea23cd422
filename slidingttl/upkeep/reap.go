package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ReapOptions adjusts Reap. The zero value, and nil, mean the defaults.
type ReapOptions struct {
	WriteOptions

	// Grace is how long a record must have been dead. It must exceed the difference between
	// the clocks of all users of the store. Zero: an hour.
	Grace time.Duration

	// PastCap removes records past their cap whose expiry is in the future. It is the
	// default if none of the three is set.
	PastCap bool

	// Expired removes records whose expiry has passed, for a store that does not remove
	// them, or where that is switched off.
	Expired bool

	// Retained removes records before their retention is over: they are then lost to a
	// Store's History and to archives.
	Retained bool
}

func (o *ReapOptions) validate() error {
	if len(o.Keys) > 0 {
		return invalid("ReapOptions.Keys", fmt.Sprint(len(o.Keys), " keys"), "must be none: a look-up does not tell what the store retains")
	}
	return cmp.Or(o.WriteOptions.validate(), atLeastZero("ReapOptions.Grace", &o.Grace, time.Hour))
}

// ReapReport is the result of a Reap.
type ReapReport struct {
	Totals
	Applied bool   `json:"applied"` // else it was a dry run
	Policy  string `json:"policy"`

	PastCap     int64 `json:"past_cap"`    // removed: older than MaxLifetime
	Expired     int64 `json:"expired"`     // removed: their expiry had passed
	Retained    int64 `json:"retained"`    // dead, and kept because the store retains them
	Left        int64 `json:"left"`        // dead, and left to the store
	Alive       int64 `json:"alive"`       // or dead for less than Grace
	Malformed   int64 `json:"malformed"`   // not removed
	Implausible int64 `json:"implausible"` // not removed: times that make no sense, as if in another unit
	Written

	Problems map[string]int64 `json:"problems,omitempty"` // why those are malformed
}

func (r *ReapReport) add(page *ReapReport) { r.tallies().add(page.tallies()) }

func (r *ReapReport) restart() { r.tallies().restart(&r.Totals) }

func (r *ReapReport) tallies() tallies {
	return tallies{"reaping under " + r.Policy + dry(r.Applied), append([]tally{
		{&r.PastCap, would(r.Applied, "removed") + ": past their cap", wrote},
		{&r.Expired, would(r.Applied, "removed") + ": expired", rare | wrote},
		{&r.Retained, "dead, and retained by the store", rare},
		{&r.Left, "dead, and left to the store", rare},
		{&r.Alive, "alive, or dead not long enough", usual},
		{&r.Malformed, "left: malformed", rare},
		{&r.Implausible, "left: implausible, see audit", rare},
	}, r.Written.tallies()...), []reasons{{&r.Problems, "malformed because", usual}}}
}

// Reap removes the records of d that are dead under p and that the store will not remove.
// These are records past their cap with an expiry in the future, or with none. A record
// that was written again meanwhile is not removed. Neither is a record that the store
// retains: if a driver retains dead records, a death by the cap counts like one by the
// expiry.
//
// Together with an error, the report is valid for the records read until then.
func Reap[T any](ctx context.Context, d Store[T], p slidingttl.Policy, opts *ReapOptions) (*ReapReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	if !o.Expired && !o.Retained {
		o.PastCap = true
	}
	j, err := o.judge(p, d)
	if err != nil {
		return nil, err
	}
	r := &reaper[T]{d: d, opts: &o, judge: j, writer: newWriter(d, &o.WriteOptions)}
	about := about(j, fmt.Sprintf(", grace %v, past cap %v, expired %v, retained %v, apply %v", o.Grace, o.PastCap, o.Expired, o.Retained, o.Apply))
	report, err := writing("reap", about, &o.WriteOptions, r.writer, r.reap).run(ctx, d)
	report.Applied, report.Policy = o.Apply, j.Policies()
	return &report, err
}

// reaper is a Reap under way.
type reaper[T any] struct {
	d      driver.Driver[T]
	opts   *ReapOptions
	judge  *verdict.Judge
	writer *writer
}

// reap removes s if the options ask for it, and returns a report of this record.
func (r *reaper[T]) reap(ctx context.Context, s *record) (one ReapReport, err error) {
	if s.Problem != nil {
		one.Malformed, one.Problems = 1, map[string]int64{verdict.Reason(s.Problem): 1}
		return one, nil
	}
	t, err := r.judge.Terms(s.Key)
	if err != nil {
		return one, err
	}
	var counted *int64
	var retention time.Duration
	if s.HeldUntil != 0 {
		retention = s.HeldUntil.Sub(s.ExpiresAt)
	}
	plan := func(m driver.Meta) (driver.Life, bool, error) {
		now := r.judge.Now()
		died := t.Death(m.Life)
		retained := died.Add(retention) > now
		switch {
		case r.judge.Implausible(m.Life, now) != "":
			counted = &one.Implausible
		case died > now.Add(-r.opts.Grace):
			counted = &one.Alive
		case retained && !r.opts.Retained:
			counted = &one.Retained
		case m.Alive(now) && (r.opts.PastCap || retained):
			counted = &one.PastCap
			return m.Life, true, nil
		case !m.Alive(now) && (r.opts.Expired || retained):
			counted = &one.Expired
			return m.Life, true, nil
		default:
			counted = &one.Left
		}
		return m.Life, false, nil
	}
	what, err := r.writer.writeUnlessChanged(ctx, s, plan, func(was driver.Meta, _ driver.Life) error {
		// A driver's condition needs a live record, so judge it at its last live instant.
		at := r.judge.Now()
		if was.ExpiresAt != 0 {
			at = min(at, was.ExpiresAt-1)
		}
		err := driver.Remove(ctx, r.d, s.Key, was, at)
		if unanswered(ctx, err) {
			s.unknown = true
		} else if s.unknown && errors.Is(err, driver.ErrNotFound) {
			return nil // an earlier attempt has removed it
		}
		return err
	})
	if err != nil {
		return ReapReport{}, err
	}
	if what == done || what == nothing {
		*counted++
	}
	one.note(what, units(s.Size))
	return one, nil
}

// String returns the report as several lines of text.
func (r *ReapReport) String() string { return r.tallies().text(&r.Totals) }
