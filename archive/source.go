package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
)

// section is an io.ReaderAt of a bucket's file, for the Parquet library.
type section struct {
	ctx    context.Context
	bucket Bucket
	name   string
	err    error // of the bucket, the first one

	content io.ReaderAt // the file, if it was read; else nil
}

// ReadAt implements io.ReaderAt.
func (s *section) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errors.New("an offset in it is negative")
	}
	if s.content != nil {
		return s.content.ReadAt(p, off)
	}
	n, err := s.bucket.ReadAt(s.ctx, s.name, p, off)
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// blame returns the bucket's error if a read failed, else a *CorruptError for the file.
func (s *section) blame(err error) error {
	switch {
	case err == nil:
		return nil
	case s.err != nil:
		return s.err
	}
	return &CorruptError{File: s.name, Err: err}
}

// caught turns a panic into err: parquet-go panics on some pages that contradict their headers.
func (s *section) caught(err *error) {
	if r := recover(); r != nil {
		*err = s.blame(fmt.Errorf("a page cannot be read: %v", r))
	}
}

// readAll returns the content of a small file.
func readAll(ctx context.Context, b Bucket, name string) ([]byte, error) {
	all := io.NewSectionReader(&section{ctx: ctx, bucket: b, name: name}, 0, math.MaxInt64)
	return io.ReadAll(bufio.NewReaderSize(all, 64<<10))
}

// readBuffer is the size of a read in bytes. Most files have footer and indexes in their last 16 KiB.
const readBuffer = 16 << 10

// openFile reads a file's footer and indexes.
func openFile(s *section, size int64) (i *index, err error) {
	defer func() {
		if r := recover(); r != nil { // parquet-go trusts some numbers of a footer
			err = s.blame(fmt.Errorf("its footer cannot be read: %v", r))
		}
	}()
	f, err := parquet.OpenFile(s, size, parquet.ReadBufferSize(readBuffer), parquet.OptimisticRead(true), parquet.SkipBloomFilters(true), parquet.SkipMagicBytes(true))
	if err != nil {
		return nil, s.blame(err)
	}
	l, err := layoutOf(f.Schema())
	return &index{f, l}, s.blame(err)
}
