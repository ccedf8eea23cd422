package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var retaining = operation{"applied before days files rows bytes", func(r *Report) string {
	what := "removed"
	if !r.Applied {
		what = "would be removed, a dry run"
	}
	return fmt.Sprintf("%d days before %s %s: %d rows in %d files, %d bytes", r.Days, r.Span.To+1, what, r.Rows, r.Files, r.Bytes)
}}

const (
	quietDays = 31
	mostDays  = 36525 // a century
)

// Retain removes the days of an archive that are older than the given number of days, at most 36,525.
// The quarantine stays. If no record died within a month of the current time, it removes
// nothing and returns an ErrClock: a clock that has jumped ahead must not empty an
// archive.
func Retain(ctx context.Context, b Bucket, days int, w *Walk) (*Report, error) {
	o := driver.Given(w)
	if days < 1 || days > mostDays {
		return nil, &driver.InvalidError{Field: "days", Value: strconv.Itoa(days), Rule: fmt.Sprintf("must be from 1 to %d", mostDays)}
	}
	now := time.Now
	if o.Now != nil {
		now = o.Now
	}
	at := now()
	today := DayOf(driver.Floor(at))
	r := retaining.report()
	last := today - Day(days) - 1
	if last == 0 { // as To that is no bound, and no life is filed under it
		last--
	}
	if r.Applied, r.Span = o.Apply, o.Span; r.Span.To == 0 || r.Span.To > last {
		r.Span.To = last
	}
	c := &catalog{bucket: b}
	all, err := c.manifests(ctx, Span{})
	if err != nil {
		return nil, err
	}
	newest := Day(0)
	for _, m := range all {
		if len(m.files) > 0 && m.day != Quarantine {
			newest = m.day
		}
	}
	if newest != 0 && today-newest > quietDays && !o.Quiet {
		return nil, clockError("the archive's last day", newest.Start().Time(), at)
	}
	counted := 0
	err = eachDay(ctx, c, r.Span, o.Progress, func(nth int, m *manifest) error {
		before := *r
		if nth == counted {
			if counted++; len(m.files) > 0 {
				r.holds(m)
			}
		}
		if !o.Apply {
			return nil
		}
		err := drop(ctx, b, m)
		if err != nil && !errors.Is(err, errOvertaken) {
			*r = before
		}
		return err
	})
	return r, err
}

// drop removes a day: it commits a manifest file without files, and when it is called again, removes the files. That
// manifest file stays, so that a merge still under way in another process is overtaken.
func drop(ctx context.Context, b Bucket, m *manifest) error {
	if errors.Is(m.err, ErrVersion) {
		return m.err
	}
	if len(m.files) > 0 || m.err != nil || slices.ContainsFunc(m.garbage, m.ahead) {
		return cmp.Or(commit(ctx, b, m, change{marks: m.without(m.files).marks, merged: true}), errOvertaken)
	}
	if err := sweep(ctx, b, m, nil); err != nil {
		return err
	}
	for _, name := range m.older {
		if err := b.Remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}
