package archive

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
)

// mergeBytes is the approximate size at which a merged file ends and the next one begins. S3
// takes 5 GiB in one request.
var mergeBytes int64 = 1 << 30

// output writes sorted records to merged files of a day. They count once the next manifest
// file names them.
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
			f.Name = mergeName(m.Day, f.number, f.Rows, sum)
			return workName(f.Name), err
		})
		if errors.Is(err, fs.ErrExist) { // a run that was killed has left it; the name contains the hash
			err = checkLeft(ctx, b, f)
		}
		files = append(files, f)
	}
	return files, err
}

// checkLeft reads a merged file that counts for nothing yet, by its work name. It removes one that is
// damaged, and returns errOvertaken: the operation begins anew.
func checkLeft(ctx context.Context, b Bucket, f File) error {
	f.Name = workName(f.Name)
	err := checkSum(ctx, b, f)
	if errors.Is(err, ErrCorrupt) {
		err = cmp.Or(b.Remove(ctx, f.Name), errOvertaken)
	}
	return err
}
