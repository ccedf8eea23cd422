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
func output(ctx context.Context, b Bucket, m *manifest, columns map[string]*columnType, records iter.Seq2[*Archived, error]) (files []dataFile, err error) {
	next, stop := iter.Pull2(records)
	defer stop()
	a, err, more := next()
	for more && err == nil {
		f := dataFile{merged: true, number: m.number + 1}
		err = b.Create(ctx, m.day.directory(), func(w io.Writer) (string, error) {
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
			f.rows, f.sum, f.size = e.rows, sum, e.size
			f.name = m.nameOf(ctx, b, f)
			return workName(f.name), err
		})
		if errors.Is(err, fs.ErrExist) { // a run that was killed has left it; the name contains the hash
			err = checkLeft(ctx, b, f)
		}
		files = append(files, f)
	}
	return files, err
}

// written adds the names of new merged files, which do not count, to own.
func written(own map[string]bool, files []dataFile) {
	for _, f := range files {
		own[workName(f.name)] = true
	}
}

// nameOf returns a name for a new merged file. A damaged file of the same name that a killed run left stays until the next
// manifest file is there: other operations may find it too, and one of them would remove what another has made anew.
func (m *manifest) nameOf(ctx context.Context, b Bucket, f dataFile) string {
	for again := 0; ; again++ {
		f.name = mergeName(m.day, f.number, f.rows, f.sum, again)
		left := f
		left.name = workName(f.name)
		if !slices.ContainsFunc(m.garbage, func(g dataFile) bool { return g.name == left.name }) || !errors.Is(checkSum(ctx, b, left), ErrCorrupt) {
			return f.name
		}
	}
}

// checkLeft reads a merged file that counts for nothing yet, by its work name. If it is damaged, checkLeft returns
// errOvertaken: the operation begins anew, and lists it.
func checkLeft(ctx context.Context, b Bucket, f dataFile) error {
	f.name = workName(f.name)
	err := checkSum(ctx, b, f)
	if errors.Is(err, ErrCorrupt) {
		err = errOvertaken
	}
	return err
}
