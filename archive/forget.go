package archive

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ForgetOptions says how a key is forgotten. Nil means the defaults.
type ForgetOptions struct {
	// Progress is told of each day before it is looked at.
	Progress func(Progress)
}

// ForgetReport is what Forget did.
type ForgetReport struct {
	Days    int   `json:"days"`    // looked at
	Files   int   `json:"files"`   // written anew
	Records int64 `json:"records"` // forgotten
}

// Forget removes all records of key from the archive, for the right to be erased: it writes
// the files that hold it anew, and removes the old ones, with whatever crashes have left.
// After it returned nil no file of the bucket has the key but those that were written
// meanwhile, or hold checkpoints of sources. So a source must have let go of the key before,
// and be done with what it still had in hand: what it hands over afterwards is archived.
// Values of other keys that mention the key are left as they are.
//
// It may be run beside all else, and again where it failed. A corrupt file may hold the key: it is
// left, and its error is joined to that returned. What a store of objects keeps of removed
// ones is the affair of the Bucket.
func Forget(ctx context.Context, b Bucket, key string, opts *ForgetOptions) (*ForgetReport, error) {
	var o ForgetOptions
	if opts != nil {
		o = *opts
	}
	if d, ok := b.(*Directory); ok {
		if err := d.clean(); err != nil {
			return nil, err
		}
	}
	r := new(ForgetReport)
	f := &forgetter{bucket: b, catalog: &catalog{bucket: b}, indexes: &indexes{bucket: b}, key: key, report: r}
	err := eachDay(ctx, f.catalog, Span{}, o.Progress, func(m Manifest) error {
		r.Days++
		if err := settle(b, m.Day); err != nil {
			return err
		}
		return f.day(ctx, m)
	})
	return r, err
}

// forgetter is a Forget under way.
type forgetter struct {
	bucket  Bucket
	catalog *catalog
	indexes *indexes
	key     string
	report  *ForgetReport
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

// rewrite forgets the key in the files of m.
func (f *forgetter) rewrite(ctx context.Context, m *Manifest) error {
	var hits []File
	var records int64
	var corrupt []error
	for _, file := range m.Files {
		found, err := f.indexes.find(ctx, file, encodeKey(f.key))
		switch {
		case errors.Is(err, ErrCorrupt):
			corrupt = append(corrupt, fmt.Errorf("it may hold the key: %w", err))
		case err != nil:
			return err
		case len(found) > 0:
			hits = append(hits, file)
			records += int64(len(found))
		}
	}
	if len(hits) > 0 { // of which somebody may have made a file that is yet to count: it is overtaken
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
		f.report.Files += len(hits)
		f.report.Records += records
		now, err := f.catalog.manifest(ctx, m.Day)
		if err != nil {
			return err
		}
		m = &now
		if m.err != nil {
			return m.err
		}
	}
	return errors.Join(append(corrupt, sweep(ctx, f.bucket, m))...)
}

// anew writes what a file holds of other keys.
func (f *forgetter) anew(ctx context.Context, m *Manifest, file File) ([]File, error) {
	if err := checkSum(ctx, f.bucket, file); err != nil {
		return nil, err
	}
	_, l, err := openFile(&section{ctx: ctx, bucket: f.bucket, name: file.Name}, file.Size)
	if err != nil {
		return nil, err
	}
	return output(ctx, f.bucket, m, l.columns(), others(rows(ctx, f.bucket, file, nil), f.key))
}

// others is the records that are not under key.
func others(records iter.Seq2[Archived, error], key string) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		for a, err := range records {
			if err == nil && a.Key == key {
				continue
			}
			if !yield(a, err) {
				return
			}
		}
	}
}
