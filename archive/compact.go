package archive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Walk adjusts Compact, Retain, Repair and Reader.Verify, which go over the days of an archive. The zero value, and nil, mean
// all days.
type Walk struct {
	Span     Span
	Progress func(next Day, done, days int) // called for each day before it is read

	// Apply is for Retain, which removes days, and Repair. Without it the report says what they would do.
	Apply bool

	// Now is the time, for Retain. Nil: time.Now.
	Now func() time.Time

	// Quiet confirms that nothing has died for over a month. Without it Retain assumes that
	// the clock has jumped ahead, and fails.
	Quiet bool
}

var compacting = operation{"days merged files into rows dropped", func(r *Report) string {
	n := r.Counts
	return fmt.Sprintf("%d days read, files of %d merged: %d into %d\n%d rows, of which %d were duplicates",
		r.Days, n["merged"], r.Files, n["into"], r.Rows, n["dropped"])
}}

// Compact merges the files of each day, so that readers open fewer, and keeps each life once. On a day of many
// files of 1 GiB, files that are full are merged with no others, and may have lives that these have too: readers tell
// such a life once.
// A day that is over needs it once. Each run rewrites all files of a day that has got more files.
// It may run beside writers and readers, and several times at once. The former
// files count until the merged file takes their place in one step; they are removed after
// that. The next run removes what a crash left behind. Files that the Bucket may not remove
// yet ([ErrLocked]) stay, and a later run removes them.
//
// A corrupt file is left unchanged. The other files of its day are merged, unless a run that was killed, or is under way,
// left files there: these may have what is damaged, and the day stays as it is until [Repair]. Other days
// are compacted. The error is joined to the error that is returned. Files with columns of
// one name and different types are not merged.
func Compact(ctx context.Context, b Bucket, w *Walk) (*Report, error) {
	o := driver.Given(w)
	c := &compactor{NewReader(b), compacting.report(), nil, map[string]bool{}, map[string]bool{}, map[Day]bool{}}
	err := eachDay(ctx, c.catalog, o.Span, o.Progress, func(nth int, m *manifest) error {
		c.report.Days = nth + 1
		return c.compact(ctx, m)
	})
	c.report.Counts["merged"] = int64(len(c.merged))
	return c.report, errors.Join(append(c.corrupt, err)...)
}

// eachDay calls do for every day of span, and again with the day's next manifest if another operation has replaced its files
// meanwhile. It continues after corrupt and locked files, and joins their errors.
func eachDay(ctx context.Context, c *catalog, span Span, progress func(next Day, done, days int), do func(nth int, m *manifest) error) error {
	all, err := c.manifests(ctx, span)
	if err != nil {
		return err
	}
	var corrupt []error
	for i, m := range all {
		if progress != nil {
			progress(m.day, i, len(all))
		}
		err := c.retry(ctx, m, func(m *manifest) error { return do(i, m) })
		if corrupt = append(corrupt, err); !endedWell(err) {
			break
		}
	}
	return errors.Join(corrupt...)
}

// compactor is a Compact under way.
type compactor struct {
	*Reader
	report  *Report
	corrupt []error
	left    map[string]bool // files that cannot be merged
	own     map[string]bool // files that this Compact has replaced, or has written without success
	merged  map[Day]bool
}

func (c *compactor) compact(ctx context.Context, m *manifest) error {
	for {
		if m.err != nil {
			c.corrupt = append(c.corrupt, m.err)
			return nil
		}
		if err := sweep(ctx, c.bucket, m, c.own); err != nil && !errors.Is(err, ErrLocked) {
			return err
		}
		files := m.choose(c.left)
		if files == nil {
			return nil
		}
		columns, heads, err := c.examine(ctx, files)
		if err == nil && len(heads) > 1 && m.choose(c.left) != nil { // nil: all that is new is damaged
			err = c.merge(ctx, m, heads, columns)
			if err == nil {
				c.merged[m.day] = true
			}
		}
		if err != nil {
			return err
		}
		if *m, err = c.catalog.manifest(ctx, m.day); err != nil {
			return err
		}
	}
}

// examine opens files and checks them. It returns their columns, and those that can be merged
// together. The others, which are corrupt or have other column types, are left.
func (c *compactor) examine(ctx context.Context, files []dataFile) (columns map[string]*columnType, fit []*head, err error) {
	columns = map[string]*columnType{}
	for _, h := range openHeads(ctx, c.bucket, files, true) {
		switch {
		case h.err == nil && agree(columns, h.layout.columns()):
			fit = append(fit, h)
		case h.err == nil:
			c.left[h.file.name] = true
		case errors.Is(h.err, ErrCorrupt):
			c.left[h.file.name] = true
			c.corrupt = append(c.corrupt, h.err)
		case err == nil:
			err = h.err
		}
	}
	return columns, fit, err
}

// agree adds more to columns, unless a name has different types in the two.
func agree(columns, more map[string]*columnType) bool {
	for name, t := range more {
		if has, ok := columns[name]; ok && has != t {
			return false
		}
	}
	for name, t := range more {
		columns[name] = t
	}
	return true
}

// merge replaces open files by new ones with the same records. It adds the former, or after an error the
// latter, to c.own.
func (c *compactor) merge(ctx context.Context, m *manifest, heads []*head, columns map[string]*columnType) error {
	var files []dataFile
	for _, h := range heads {
		files = append(files, h.file)
	}
	into, err := output(ctx, c.bucket, m, columns, merged(ctx, heads, nil))
	if err != nil {
		written(c.own, into)
		return err
	}
	rest := -len(files) // files for other rounds
	for _, f := range m.files {
		if !c.left[f.name] {
			rest++
		}
	}
	next := m.without(files)
	next.files = append(next.files, into...)
	full := rest > 0 && len(into) >= len(files) // another round with them would write as many
	next.merged = rest == 0 || full && rest == 1 || m.merged && len(next.marks) == 0
	if err := commit(ctx, c.bucket, m, next); err != nil {
		written(c.own, into)
		return err
	}
	for _, f := range into {
		if full {
			c.left[f.own()] = true
		}
	}
	for _, f := range files {
		c.report.Rows += f.rows
		c.report.Counts["dropped"] += f.rows
		c.own[f.name] = true
	}
	for _, f := range into {
		c.report.Counts["dropped"] -= f.rows
	}
	c.report.Files += len(files)
	c.report.Counts["into"] += int64(len(into))
	return nil
}
