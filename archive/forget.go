package archive

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ForgetOptions adjusts Forget. The zero value, and nil, mean the defaults.
type ForgetOptions struct {
	// DryRun writes and removes nothing: the report says what Forget would do.
	DryRun bool

	// Progress is called for each day before it is read.
	Progress func(Progress)
}

// ErrLeft says that a source archived selected records while Forget ran. Run Forget again.
var ErrLeft = errors.New("a source archived more of these records meanwhile: run forget again")

// ForgetReport is what Forget did.
type ForgetReport struct {
	DryRun  bool  `json:"dry_run"`
	Days    int   `json:"days"`     // days read
	Files   int   `json:"files"`    // files rewritten
	Records int64 `json:"records"`  // records forgotten; a life in two files counts twice
	NoValue int64 `json:"no_value"` // records without a value in Selection.Column: they stay
	Left    int64 `json:"left"`     // records found by a second pass: a source archived them meanwhile
}

// String is the report as text.
func (r *ForgetReport) String() string {
	text := fmt.Sprintf("%d records forgotten; %d files rewritten, %d days read", r.Records, r.Files, r.Days)
	if r.DryRun {
		text = fmt.Sprintf("%d records in %d files would be forgotten, a dry run; %d days read", r.Records, r.Files, r.Days)
	} else {
		text += fmt.Sprintf("\n%d found by a second pass over all days", r.Left)
	}
	if r.NoValue > 0 {
		text += fmt.Sprintf("\n%d records have no value in that column, and stay", r.NoValue)
	}
	return text
}

// Forget removes the records that a Selection matches from the archive, for the right to erasure.
//
// Forget reads each day, rewrites the files that hold such records, and removes the old
// files and what crashes left behind. A second pass then counts records that a source
// archived meanwhile: see ForgetReport.Left. When Forget returns nil, no file of the bucket
// holds the records, except files written during the call and the checkpoints of sources.
// Before the call, delete the keys in their source, and let the source finish the batches it
// still holds: what it archives later stays in the archive.
//
// Forget does not change values of other keys that mention a selected key. A record without
// a value in what.Column is counted in ForgetReport.NoValue and stays. Records of the
// [Quarantine] have none, nor do records written before the column was added.
//
// Forget may run beside writers, readers and Compact. After a failure or a crash, run it
// again: the files already rewritten stay rewritten. A corrupt file may hold selected
// records; it stays, and its error is joined to the returned error. A file that the Bucket
// may not remove yet stays too. One *LockedError reports all such files: run Forget again
// after its time. Bucket.Remove decides which versions of a removed file go.
//
// Errors: ErrLeft; *driver.InvalidError if the Selection sets none or several of its ways,
// or if no file has its Column with a type that fits Value.
func Forget(ctx context.Context, b Bucket, what Selection, opts *ForgetOptions) (*ForgetReport, error) {
	var o ForgetOptions
	if opts != nil {
		o = *opts
	}
	if err := what.check(); err != nil {
		return nil, err
	}
	if d, ok := b.(*Directory); ok && !o.DryRun {
		if err := d.clean(); err != nil {
			return nil, err
		}
	}
	r, err := forget(ctx, b, &what, o)
	if r != nil && !o.DryRun && endedWell(err) {
		second, failed := forget(ctx, b, &what, ForgetOptions{DryRun: true})
		if !endedWell(failed) {
			return r, failed
		}
		if r.Left = second.Records; r.Left > 0 {
			err = errors.Join(err, ErrLeft)
		}
	}
	return r, err
}

// endedWell reports whether a walk visited all days: err is nil, or only about corrupt or locked
// files.
func endedWell(err error) bool {
	return err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrLocked)
}

func forget(ctx context.Context, b Bucket, what *Selection, o ForgetOptions) (*ForgetReport, error) {
	r := &ForgetReport{DryRun: o.DryRun}
	f := &forgetter{bucket: b, catalog: &catalog{bucket: b}, indexes: &indexes{bucket: b}, what: what, report: r}
	err := eachDay(ctx, f.catalog, Span{}, o.Progress, func(m Manifest) error {
		r.Days++
		if err := syncDay(b, m.Day); err != nil {
			return err
		}
		return f.day(ctx, m)
	})
	if what.Column != "" && f.rows > 0 && !f.anyValue && endedWell(err) {
		return nil, &driver.InvalidError{Field: "Selection.Column", Value: strconv.Quote(what.Column), Rule: "must be a column of the archive, with Value of its type"}
	}
	if f.locked != nil {
		err = errors.Join(err, f.locked)
	}
	return r, err
}

// forgetter is a Forget under way.
type forgetter struct {
	bucket   Bucket
	catalog  *catalog
	indexes  *indexes
	what     *Selection
	report   *ForgetReport
	rows     int64        // rows of the files that were read
	anyValue bool         // at least one row has a value in the selected column
	locked   *LockedError // one error for all locked files
}

func (f *forgetter) day(ctx context.Context, m Manifest) error {
	for range attempts {
		if m.err != nil {
			return m.err
		}
		err := f.rewrite(ctx, &m)
		if err == nil || !gone(err) && !errors.Is(err, errOvertaken) {
			return err
		}
		if m, err = f.catalog.manifest(ctx, m.Day); err != nil {
			return err
		}
	}
	return errOvertaken
}

// removable returns nil if the bucket may remove the file now.
func removable(ctx context.Context, b Bucket, name string) error {
	if l, ok := b.(Locker); ok {
		return l.Removable(ctx, name)
	}
	return nil
}

// rewrite replaces the files of m that hold selected records by files without them.
func (f *forgetter) rewrite(ctx context.Context, m *Manifest) error {
	var hits []File
	var records, noValue int64
	var corrupt []error
	for _, file := range m.Files {
		selected, without, err := f.indexes.count(ctx, file, f.what)
		if err == nil && selected > 0 {
			err = removable(ctx, f.bucket, file.Name)
		}
		switch {
		case errors.Is(err, ErrLocked):
			f.lock(err)
		case errors.Is(err, ErrCorrupt):
			corrupt = append(corrupt, fmt.Errorf("it may hold selected records: %w", err))
		case err != nil:
			return err
		case selected > 0:
			hits = append(hits, file)
			records += selected
		}
		f.rows += file.Rows
		f.anyValue = f.anyValue || without < file.Rows
		noValue += without
	}
	if len(hits) > 0 && !f.report.DryRun { // commit fails with errOvertaken if a merge of these files came first
		next := m.without(hits)
		next.merged = m.merged && len(next.marks) == 0
		for _, file := range hits {
			into, err := f.rewriteFile(ctx, m, file)
			if err != nil {
				return err
			}
			next.files = append(next.files, into...)
		}
		if err := commit(ctx, f.bucket, m, next); err != nil {
			return err
		}
	}
	f.report.Files += len(hits)
	f.report.Records += records
	if len(hits) > 0 && !f.report.DryRun {
		now, err := f.catalog.manifest(ctx, m.Day)
		if err != nil {
			return err
		}
		m = &now
	}
	f.report.NoValue += noValue
	err := m.err
	if err == nil && !f.report.DryRun {
		err = sweep(ctx, f.bucket, m)
	}
	if err == nil && f.report.DryRun || errors.Is(err, ErrLocked) {
		err = f.garbage(ctx, m)
	}
	return errors.Join(append(corrupt, err)...)
}

// garbage looks into the files that do not count, after a sweep that found one locked, or in a
// dry run. A file matters if it holds what is forgotten and is locked still.
func (f *forgetter) garbage(ctx context.Context, m *Manifest) error {
	for _, file := range m.garbage {
		selected, _, err := f.indexes.count(ctx, file, f.what)
		switch yetToCome := file.Merged && file.number > m.number; {
		case selected == 0 && !errors.Is(err, ErrCorrupt):
		case f.report.DryRun || yetToCome:
			err = removable(ctx, f.bucket, file.Name)
		default:
			err = f.bucket.Remove(ctx, file.Name)
		}
		switch {
		case errors.Is(err, ErrLocked):
			f.lock(err)
		case err != nil && !gone(err):
			return err
		}
	}
	return nil
}

func (f *forgetter) lock(err error) {
	if l, ok := errors.AsType[*LockedError](err); ok {
		f.locked = l.with(f.locked)
	}
}

// rewriteFile writes the records of file that are not selected to new files.
func (f *forgetter) rewriteFile(ctx context.Context, m *Manifest, file File) ([]File, error) {
	if err := checkSum(ctx, f.bucket, file); err != nil {
		return nil, err
	}
	_, l, err := openFile(&section{ctx: ctx, bucket: f.bucket, name: file.Name}, file.Size)
	if err != nil {
		return nil, err
	}
	t := f.what.in(l)
	return output(ctx, f.bucket, m, l.columns(), filter(rows(ctx, f.bucket, file, nil), func(a *Archived) (bool, error) {
		v, err := t.of(a)
		return err == nil && !t.is(v), err
	}))
}
