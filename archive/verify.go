package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var verifying = operation{"days files rows bytes corrupt", func(r *Report) string {
	return fmt.Sprintf("%d rows in %d files of %d days, %d bytes\n%d files are corrupt", r.Rows, r.Files, r.Days, r.Bytes, len(r.Lists["corrupt"]))
}}

// Verify reads every byte of the archive and checks each file. A file must have the checksum
// and the number of records that its name gives. All its records must be of its day and in
// order. Faults are in the report, and joined to the error, which matches ErrCorrupt. [Repair] makes
// the rest readable.
func (r *Reader) Verify(ctx context.Context, w *Walk) (*Report, error) {
	o := driver.Given(w)
	report := verifying.report()
	err := eachDay(ctx, r.catalog, o.Span, o.Progress, func(_ int, m *manifest) error {
		wrong, err := r.verifyDay(ctx, m)
		if err != nil {
			return err
		}
		report.holds(m)
		for _, err := range wrong {
			report.Lists["corrupt"] = append(report.Lists["corrupt"], err.Error())
		}
		return errors.Join(wrong...)
	})
	return report, err
}

// foreignFile is the error for a file of others.
func foreignFile(name string) error {
	return &CorruptError{File: name, Err: errors.New("it is not the archive's, and engines read it")}
}

// verifyDay reads the files of a day, and returns what is wrong with them.
func (r *Reader) verifyDay(ctx context.Context, m *manifest) (wrong []error, err error) {
	for _, name := range m.missing {
		wrong = append(wrong, &CorruptError{File: name, Err: fmt.Errorf("%s names it: %w", m.name, fs.ErrNotExist)})
	}
	if m.err != nil && len(m.missing) == 0 {
		wrong = append(wrong, m.err)
	}
	for _, name := range m.foreign {
		wrong = append(wrong, foreignFile(name))
	}
	for _, f := range m.files {
		switch err := r.verify(ctx, m.day, f); {
		case errors.Is(err, ErrCorrupt):
			wrong = append(wrong, err)
		case err != nil:
			return nil, err
		}
	}
	return wrong, nil
}

// verify reads a file and checks it.
func (r *Reader) verify(ctx context.Context, d Day, f dataFile) error {
	if err := checkSum(ctx, r.bucket, f); err != nil {
		return err
	}
	var last *identity
	for a, err := range merged(ctx, openHeads(ctx, r.bucket, []dataFile{f}, false), nil) {
		if err != nil {
			return err
		}
		id := a.identity()
		switch {
		case last != nil && last.compare(id) >= 0:
			return &CorruptError{File: f.name, Err: errors.New("its records are not in order")}
		case d != Quarantine && DayOf(a.ExpiredAt) != d:
			return &CorruptError{File: f.name, Err: fmt.Errorf("it has a record of %s", DayOf(a.ExpiredAt))}
		}
		last = &id
	}
	return nil
}
