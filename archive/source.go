package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
)

// A section is a file of a bucket as Parquet reads it.
type section struct {
	ctx    context.Context
	bucket Bucket
	name   string
	read   int64 // bytes
	err    error // of the bucket, the first one
}

// ReadAt implements io.ReaderAt.
func (s *section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("it says that something is before its beginning")
	}
	n, err := s.bucket.ReadAt(s.ctx, s.name, p, off)
	s.read += int64(n)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// blame says whose err is: the bucket's, or the file's, which is not what was written.
func (s *section) blame(err error) error {
	switch {
	case err == nil:
		return nil
	case s.err != nil:
		return s.err
	}
	return &CorruptError{File: s.name, Err: err}
}

// caught is deferred where pages are read, for parquet-go panics on some that are not what their
// headers say.
func (s *section) caught(err *error) {
	if r := recover(); r != nil {
		*err = s.blame(fmt.Errorf("a page cannot be read: %v", r))
	}
}

// readBuffer is read of a file at a time; an end of that size mostly has the footer and indexes.
const readBuffer = 16 << 10

// openFile reads what a file says of itself.
func openFile(s *section, size int64) (f *parquet.File, l *layout, err error) {
	defer func() {
		if r := recover(); r != nil { // parquet-go trusts some numbers of a footer
			err = s.blame(fmt.Errorf("its footer cannot be read: %v", r))
		}
	}()
	if f, err = parquet.OpenFile(s, size, parquet.ReadBufferSize(readBuffer), parquet.OptimisticRead(true), parquet.SkipBloomFilters(true), parquet.SkipMagicBytes(true)); err == nil {
		l, err = layoutOf(f.Schema())
	}
	return f, l, s.blame(err)
}
