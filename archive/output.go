package archive

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
)

// mergeBytes is the approximate size at which a merged file ends and the next one begins. S3
// takes 5 GiB in one request.
var mergeBytes int64 = 1 << 30

// output writes sorted records to merged files of a day. They count once the next manifest
// file names them. After an error files has those that may be there.
func output(ctx context.Context, b Bucket, m *Manifest, columns map[string]ColumnType, records iter.Seq2[*Archived, error]) (files []File, err error) {
	next, stop := iter.Pull2(records)
	defer stop()
	a, err, more := next()
	for more && err == nil {
		f := File{Merged: true, number: m.number + 1}
		err = b.Create(ctx, m.Day.directory(), func(w io.Writer) (string, error) {
			e := newEncoder(w, newLayout(columns), mergeCodec)
			for more && err == nil && e.size < mergeBytes && e.long < longBytes {
				if err := errors.Join(ctx.Err(), e.add(a)); err != nil {
					return "", err
				}
				a.Value = nil // it may be long, and the next one is read first
				a, err, more = next()
			}
			if err != nil {
				return "", err
			}
			sum, err := e.close()
			f.Rows, f.SHA256, f.Size = e.rows, sum, e.size
			f.Name = m.nameOf(ctx, b, f)
			return workName(f.Name), err
		})
		if errors.Is(err, fs.ErrExist) { // a run that was killed has left it; the name contains the hash
			err = checkLeft(ctx, b, f)
		}
		files = append(files, f)
	}
	return files, err
}

// written adds the names of new merged files, which do not count, to own.
func written(own map[string]bool, files []File) {
	for _, f := range files {
		own[workName(f.Name)] = true
	}
}

// nameOf returns a name for a new merged file. A damaged file of the same name that a killed run left stays until the next
// manifest file is there: other operations may find it too, and one of them would remove what another has made anew.
func (m *Manifest) nameOf(ctx context.Context, b Bucket, f File) string {
	for again := 0; ; again++ {
		f.Name = mergeName(m.Day, f.number, f.Rows, f.SHA256, again)
		left := f
		left.Name = workName(f.Name)
		if !slices.ContainsFunc(m.garbage, func(g File) bool { return g.Name == left.Name }) || !errors.Is(checkSum(ctx, b, left), ErrCorrupt) {
			return f.Name
		}
	}
}

// checkLeft reads a merged file that counts for nothing yet, by its work name. If it is damaged, checkLeft returns
// errOvertaken: the operation begins anew, and lists it.
func checkLeft(ctx context.Context, b Bucket, f File) error {
	f.Name = workName(f.Name)
	err := checkSum(ctx, b, f)
	if errors.Is(err, ErrCorrupt) {
		err = errOvertaken
	}
	return err
}
