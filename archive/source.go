package archive

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
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

// caught makes err the bucket's error if a read failed, else a *CorruptError for the file. It catches panics too: parquet-go
// trusts some numbers of a footer, and of a page's header.
func (s *section) caught(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("it cannot be read: %v", r)
	}
	switch {
	case *err == nil || errors.Is(*err, ErrCorrupt):
	case s.err != nil:
		*err = s.err
	default:
		*err = &CorruptError{File: s.name, Err: *err}
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
func openFile(s *section, of dataFile) (i *index, err error) {
	defer s.caught(&err)
	end := &ahead{of: s}
	for last, size := [8]byte{}, int64(readBuffer); int64(end.size) < size; size = 8 + int64(binary.LittleEndian.Uint32(last[:])) {
		if size > max(of.size, readBuffer) {
			return nil, errors.New("its footer is longer than the file")
		}
		*end = ahead{of: s, size: int(size), from: of.size}
		if _, err := end.ReadAt(nil, max(0, of.size-size)); err != nil {
			return nil, err
		}
		if _, err := end.ReadAt(last[:], max(0, of.size-8)); err != nil {
			return nil, err
		}
	}
	var f *parquet.File
	for _, unchecked := range []bool{true, false} {
		f, err = parquet.OpenFile(end, of.size, parquet.ReadBufferSize(readBuffer), parquet.SkipPageIndex(unchecked), parquet.SkipBloomFilters(true), parquet.SkipMagicBytes(true))
		if err == nil && unchecked {
			err = checkFooter(f.Metadata(), of)
		}
		if err != nil {
			return nil, err
		}
	}
	*end = ahead{of: s} // f keeps it
	l, err := layoutOf(f.Schema())
	return &index{f, l}, err
}

// checkFooter returns an error for a footer that no writer has written. With another codec or other sizes,
// parquet-go could take any amount of memory.
func checkFooter(m *format.FileMetaData, of dataFile) error {
	rows := int64(0)
	for _, g := range m.RowGroups {
		rows += g.NumRows
		end := g.FileOffset // of what is before a column
		for at, c := range g.Columns {
			is := c.MetaData
			switch first := cmp.Or(is.DictionaryPageOffset, is.DataPageOffset); {
			case is.Codec != batchCodec.CompressionCodec():
				return fmt.Errorf("column %d is packed by %v instead of %v", at, is.Codec, batchCodec)
			case g.NumRows < 1 || g.NumRows > of.rows || is.NumValues != g.NumRows:
				return fmt.Errorf("column %d has %d values of %d rows of %d", at, is.NumValues, g.NumRows, of.rows)
			case first != end || end < 0 || is.TotalCompressedSize < 0 || max(is.TotalCompressedSize, int64(c.ColumnIndexLength), int64(c.OffsetIndexLength)) > of.size-end:
				return fmt.Errorf("column %d, or its index, is not within the file", at)
			}
			end += is.TotalCompressedSize
		}
	}
	if rows != of.rows {
		return fmt.Errorf("it has %d rows instead of %d", rows, of.rows)
	}
	return nil
}
