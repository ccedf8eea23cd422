package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ForgetOptions says how records are forgotten. Nil means the defaults.
type ForgetOptions struct {
	// DryRun only looks: the report says what would be done.
	DryRun bool

	// Progress is told of each day before it is looked at.
	Progress func(Progress)
}

// ErrLeft says that an archive holds records that were forgotten. A source has handed them
// over meanwhile. Forget them again.
var ErrLeft = errors.New("records came into the archive while they were forgotten: forget them again")

// ForgetReport is what Forget did.
type ForgetReport struct {
	DryRun  bool  `json:"dry_run"`
	Days    int   `json:"days"`    // looked at
	Files   int   `json:"files"`   // written anew
	Records int64 `json:"records"` // forgotten; of a life that is in two files each
	Untold  int64 `json:"untold"`  // records that have nothing in Selection.Column: they stay
	Left    int64 `json:"left"`    // found by the look afterwards: a source handed them over meanwhile
}

// String is the report as text.
func (r *ForgetReport) String() string {
	text := fmt.Sprintf("%d records forgotten; %d files written anew, of %d days looked at", r.Records, r.Files, r.Days)
	if r.DryRun {
		text = fmt.Sprintf("%d records in %d files would be forgotten, a dry run; %d days looked at", r.Records, r.Files, r.Days)
	} else {
		text += fmt.Sprintf("\n%d found by a look at all days afterwards", r.Left)
	}
	if r.Untold > 0 {
		text += fmt.Sprintf("\n%d records have nothing in that column: whose they are it does not tell, and they stay", r.Untold)
	}
	return text
}

// Forget removes the records that what selects from the archive, for the right to erasure.
// It reads each day once, rewrites the files that hold such records, and removes the old
// files, with what crashes have left. It then looks once more: see ForgetReport.Left. After
// it returned nil no file of the bucket has those records but files that were written
// meanwhile, or hold checkpoints of sources. So a source must have let go of the keys
// before, and be done with what it still had in hand: what it hands over afterwards is
// archived. Values of other keys that mention a key are left as they are. A record that has
// nothing in what.Column, such as one of a file that was written before there was that
// column, or of the [Quarantine], is counted as untold and stays.
//
// It may be run beside all else, and again where it failed or was killed: what is done stays done. A
// corrupt file may hold such records: it is left, and its error is joined to that returned. So is a file that
// the Bucket may not remove yet, which comes as one *LockedError for all: run it again after that time. What
// a store of objects keeps of removed ones is the affair of the Bucket.
//
// Errors: ErrLeft for what a source has handed over meanwhile; *driver.InvalidError for a Selection that says nothing, or more than one thing, or names a
// column that no file has with a type that Value is of.
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
	if r != nil && !o.DryRun && left(err) {
		look, again := forget(ctx, b, &what, ForgetOptions{DryRun: true})
		if !left(again) {
			return r, again
		}
		if r.Left = look.Records; r.Left > 0 {
			err = errors.Join(err, ErrLeft)
		}
	}
	return r, err
}

// left reports whether err is only of files that were left as they are.
func left(err error) bool {
	return err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrLocked)
}

func forget(ctx context.Context, b Bucket, what *Selection, o ForgetOptions) (*ForgetReport, error) {
	r := &ForgetReport{DryRun: o.DryRun}
	f := &forgetter{bucket: b, catalog: &catalog{bucket: b}, indexes: &indexes{bucket: b}, what: what, report: r}
	err := eachDay(ctx, f.catalog, Span{}, o.Progress, func(m Manifest) error {
		r.Days++
		if err := settle(b, m.Day); err != nil {
			return err
		}
		return f.day(ctx, m)
	})
	if what.Column != "" && f.rows > 0 && !f.told && left(err) {
		return nil, &driver.InvalidError{Field: "Selection.Column", Value: strconv.Quote(what.Column), Rule: "must be a column of the archive, with Value of its type"}
	}
	if f.locked != nil {
		err = errors.Join(err, f.locked)
	}
	return r, err
}

// forgetter is a Forget under way.
type forgetter struct {
	bucket  Bucket
	catalog *catalog
	indexes *indexes
	what    *Selection
	report  *ForgetReport
	rows    int64        // looked at
	told    bool         // a file has the column that tells
	locked  *LockedError // of all files that are
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

// removable is nil for a file that the bucket may remove.
func removable(ctx context.Context, b Bucket, name string) error {
	if l, ok := b.(Locker); ok {
		return l.Removable(ctx, name)
	}
	return nil
}

// rewrite forgets what is meant in the files of m.
func (f *forgetter) rewrite(ctx context.Context, m *Manifest) error {
	var hits []File
	var records, untold int64
	var corrupt []error
	for _, file := range m.Files {
		meant, unknown, err := f.indexes.count(ctx, file, f.what)
		if err == nil && meant > 0 {
			err = removable(ctx, f.bucket, file.Name)
		}
		switch {
		case errors.Is(err, ErrLocked):
			f.lock(err)
		case errors.Is(err, ErrCorrupt):
			corrupt = append(corrupt, fmt.Errorf("it may hold what is to be forgotten: %w", err))
		case err != nil:
			return err
		case meant > 0:
			hits = append(hits, file)
			records += meant
		}
		f.rows += file.Rows
		f.told = f.told || unknown < file.Rows
		untold += unknown
	}
	if len(hits) > 0 && !f.report.DryRun { // of which somebody may have made a file that is yet to count: it is overtaken
		hold := m.without(hits)
		hold.merged = m.merged && len(hold.marks) == 0
		for _, file := range hits {
			into, err := f.anew(ctx, m, file)
			if err != nil {
				return err
			}
			hold.files = append(hold.files, into...)
		}
		if err := commit(ctx, f.bucket, m, hold); err != nil {
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
	f.report.Untold += untold
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
		meant, _, err := f.indexes.count(ctx, file, f.what)
		switch yetToCome := file.Merged && file.number > m.number; {
		case meant == 0 && !errors.Is(err, ErrCorrupt):
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

// anew writes what a file holds of other records.
func (f *forgetter) anew(ctx context.Context, m *Manifest, file File) ([]File, error) {
	if err := checkSum(ctx, f.bucket, file); err != nil {
		return nil, err
	}
	_, l, err := openFile(&section{ctx: ctx, bucket: f.bucket, name: file.Name}, file.Size)
	if err != nil {
		return nil, err
	}
	return output(ctx, f.bucket, m, l.columns(), others(rows(ctx, f.bucket, file, nil), f.what.in(l)))
}

// others is the records that t does not mean.
func others(records iter.Seq2[Archived, error], t *target) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		for a, err := range records {
			if err == nil {
				v, wrong := t.of(&a)
				if wrong == nil && t.is(v) {
					continue
				}
				err = wrong
			}
			if !yield(a, err) {
				return
			}
		}
	}
}
