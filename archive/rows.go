package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/parquet-go/parquet-go"
)

// rows yields the records of a file in order.
func rows(ctx context.Context, b Bucket, file dataFile) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		s := &section{ctx: ctx, bucket: b, name: file.name}
		i, err := openFile(s, file)
		if err != nil {
			yield(Archived{}, err)
			return
		}
		n := int64(0)
		_, all := i.unpacked()
		long := all / max(1, file.rows) // read few records at once if they are long, to bound memory
		for _, g := range i.file.RowGroups() {
			for a, err := range groupRecords(s, g, i.layout, 0, min(64, 1+(256<<10)/max(1, long))) {
				n++
				if !yield(a, err) || err != nil {
					return
				}
			}
		}
		if n != file.rows {
			yield(Archived{}, &CorruptError{File: file.name, Err: fmt.Errorf("it has %d rows instead of %d", n, file.rows)})
		}
	}
}

// unpacked returns the sizes of a file's values, and of all its columns, unpacked.
func (i *index) unpacked() (values, all int64) {
	for _, g := range i.file.Metadata().RowGroups {
		values += g.Columns[i.layout.value].MetaData.TotalUncompressedSize
		for _, c := range g.Columns {
			all += c.MetaData.TotalUncompressedSize
		}
	}
	return values, all
}

// filter yields the records for which keep is true, and all errors.
func filter(records iter.Seq2[Archived, error], keep func(*Archived) bool) iter.Seq2[*Archived, error] {
	return func(yield func(*Archived, error) bool) {
		for a, err := range records {
			if err == nil && !keep(&a) {
				continue
			}
			if !yield(&a, err) {
				return
			}
		}
	}
}

// groupRecords yields the records of a row group from row from on. It reads atOnce of them at a time.
func groupRecords(s *section, g parquet.RowGroup, l *layout, from, atOnce int64) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		r := g.Rows()
		defer r.Close() //nolint:errcheck // it was read
		if from > 0 {
			if err := r.SeekToRow(from); err != nil {
				yield(Archived{}, s.blame(err))
				return
			}
		}
		buf := make([]parquet.Row, atOnce)
		for {
			n, err := readRows(r, buf)
			for _, row := range buf[:n] {
				a, err := l.record(row)
				if !yield(a, s.blame(err)) || err != nil {
					return
				}
			}
			if errors.Is(err, io.EOF) && s.err == nil {
				return
			}
			if err != nil {
				yield(Archived{}, s.blame(err))
				return
			}
		}
	}
}

// readRows calls r.ReadRows, which may panic on a page that contradicts its header.
func readRows(r parquet.RowReader, buf []parquet.Row) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			n, err = 0, fmt.Errorf("a page cannot be read: %v", p)
		}
	}()
	return r.ReadRows(buf)
}
