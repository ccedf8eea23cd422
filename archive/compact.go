package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// CompactOptions adjusts Compact. The zero value, and nil, mean the defaults.
type CompactOptions struct {
	// Span is the days to compact. A day that is over needs it once. Each run rewrites all
	// files of a day that has got more files.
	Span Span

	// Progress is called for each day before it is read.
	Progress func(Progress)
}

// Progress is the progress of an operation over the days of an archive.
type Progress struct {
	Day  Day // the next day
	Done int // days done
	Days int // days in total
}

// CompactReport is what Compact did.
type CompactReport struct {
	Days    int   `json:"days"`    // days read
	Merged  int   `json:"merged"`  // days in which files were merged
	Files   int   `json:"files"`   // files merged
	Into    int   `json:"into"`    // files written
	Rows    int64 `json:"rows"`    // rows of the merged files
	Dropped int64 `json:"dropped"` // duplicates among those rows
}

// String is the report as text.
func (r *CompactReport) String() string {
	return fmt.Sprintf("%d days read, files of %d merged: %d into %d\n%d rows, of which %d were duplicates",
		r.Days, r.Merged, r.Files, r.Into, r.Rows, r.Dropped)
}

// mergeRoom bounds the memory for files that are merged at once, in bytes.
var mergeRoom int64 = 80 << 20

// Compact merges the files of each day, so that readers open fewer, and keeps each life once.
// It may run beside writers and readers, and several times at once. The former
// files count until the merged file takes their place in one step; they are removed after
// that. The next run removes what a crash left behind. Files that the Bucket may not remove
// yet ([ErrLocked]) stay, and a later run removes them.
//
// A corrupt file is left unchanged. The other files of its day are merged, and other days
// are compacted. Its error is joined to the error that is returned. Files with columns of
// one name and different types are not merged.
func Compact(ctx context.Context, b Bucket, opts *CompactOptions) (*CompactReport, error) {
	var o CompactOptions
	if opts != nil {
		o = *opts
	}
	r := new(CompactReport)
	c := &compactor{bucket: b, catalog: &catalog{bucket: b}, report: r}
	err := eachDay(ctx, c.catalog, o.Span, o.Progress, func(m Manifest) error {
		r.Days++
		return c.day(ctx, m)
	})
	return r, err
}

// eachDay calls do for every day of span. It continues after corrupt and locked files, and joins
// their errors.
func eachDay(ctx context.Context, c *catalog, span Span, progress func(Progress), do func(Manifest) error) error {
	all, err := c.manifests(ctx, span)
	if err != nil {
		return err
	}
	var corrupt []error
	for i, m := range all {
		if progress != nil {
			progress(Progress{Day: m.Day, Done: i, Days: len(all)})
		}
		err := do(m)
		if !endedWell(err) {
			return errors.Join(append(corrupt, err)...)
		}
		corrupt = append(corrupt, err)
	}
	return errors.Join(corrupt...)
}

// compactor is a Compact under way.
type compactor struct {
	bucket  Bucket
	catalog *catalog
	report  *CompactReport
}

func (c *compactor) day(ctx context.Context, m Manifest) error {
	left := map[string]bool{} // files that cannot be merged
	var corrupt []error
	merged := false
	for tries := 0; tries < attempts; {
		if m.err != nil {
			return errors.Join(append(corrupt, m.err)...)
		}
		if err := sweep(ctx, c.bucket, &m); err != nil && !errors.Is(err, ErrLocked) {
			return err
		}
		files := c.choose(&m, left)
		if files == nil {
			return errors.Join(corrupt...)
		}
		columns, files, err := c.examine(ctx, files, left)
		if errors.Is(err, ErrCorrupt) {
			corrupt = append(corrupt, err)
			continue
		}
		if err == nil && len(files) > 1 {
			err = c.merge(ctx, &m, files, columns, left)
		}
		switch {
		case gone(err), errors.Is(err, errOvertaken):
			tries++
		case err != nil:
			return err
		case len(files) > 1 && !merged:
			c.report.Merged++
			merged = true
		}
		if m, err = c.catalog.manifest(ctx, m.Day); err != nil {
			return err
		}
	}
	return errOvertaken
}

// choose returns the files of a day to merge next, shortest first; nil for none.
func (c *compactor) choose(m *Manifest, left map[string]bool) []File {
	var files []File
	unmerged := false
	for _, f := range m.Files {
		if left[f.Name] {
			continue
		}
		files = append(files, f)
		if !f.Merged {
			unmerged = true
		}
	}
	if len(files) < 2 || !unmerged && m.merged {
		return nil
	}
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(a.Size, b.Size) })
	n := 0
	for room := int64(0); n < len(files) && (n < 2 || room <= mergeRoom); n++ {
		room += files[n].room()
	}
	return files[:n]
}

// examine checks files, and returns their columns and the files that can be merged together.
// It adds files that are corrupt, or have other column types, to left.
func (c *compactor) examine(ctx context.Context, files []File, left map[string]bool) (map[string]ColumnType, []File, error) {
	columns := map[string]ColumnType{}
	var fit []File
	for _, f := range files {
		s := &section{ctx: ctx, bucket: c.bucket, name: f.Name}
		err := checkSum(ctx, c.bucket, f)
		var l *layout
		if err == nil {
			_, l, err = openFile(s, f.Size)
		}
		if err != nil {
			if errors.Is(err, ErrCorrupt) {
				left[f.Name] = true
			}
			return nil, nil, err
		}
		if !agree(columns, l.columns()) {
			left[f.Name] = true
			continue
		}
		fit = append(fit, f)
	}
	return columns, fit, nil
}

// agree adds more to columns, unless a name has different types in the two.
func agree(columns, more map[string]ColumnType) bool {
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

// merge replaces files by new ones with the same records.
func (c *compactor) merge(ctx context.Context, m *Manifest, files []File, columns map[string]ColumnType, left map[string]bool) error {
	into, err := output(ctx, c.bucket, m, columns, merged(ctx, c.bucket, files, nil))
	if err != nil {
		return err
	}
	next := m.without(files)
	next.files = append(next.files, into...)
	next.merged = len(files)+len(left) >= len(m.Files) || m.merged && len(next.marks) == 0
	if err := commit(ctx, c.bucket, m, next); err != nil {
		return err
	}
	for _, f := range files {
		c.report.Rows += f.Rows
		c.report.Dropped += f.Rows
	}
	for _, f := range into {
		c.report.Dropped -= f.Rows
	}
	c.report.Files += len(files)
	c.report.Into += len(into)
	return nil
}
