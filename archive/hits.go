package archive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/bloom"
)

// mayHold reports whether key may be in a column, by its bloom filter.
func mayHold(s *section, c *parquet.FileColumnChunk, key string) (bool, error) {
	filter, err := c.BloomFilterFrom(s)
	if err != nil {
		return false, err
	}
	// The filter is cached with the first caller's context. So only its offset and length
	// are used, and the bytes are read through s.
	_, off, n := filter.Outer()
	return bloom.CheckSplitBlock(io.NewSectionReader(s, off, n), n, bloom.XXH64{}.Sum64([]byte(key)))
}

// places returns the rows [from, to) of a row group that have key, by the bloom filter and the indexes.
func places(s *section, g parquet.RowGroup, at int, key string) (from, to int64, err error) {
	c, err := columnOf(g, at)
	if err != nil {
		return 0, 0, err
	}
	includes := func(first, last parquet.Value) bool {
		return string(first.ByteArray()) <= key && key <= string(last.ByteArray())
	}
	if first, last, bounded := c.Bounds(); bounded && !includes(first, last) {
		return 0, 0, nil
	}
	if may, err := mayHold(s, c, key); !may || err != nil {
		return 0, 0, err
	}
	bounds, err := c.ColumnIndexFrom(s)
	if err != nil {
		return 0, 0, err
	}
	offsets, err := c.OffsetIndexFrom(s)
	if err != nil {
		return 0, 0, err
	}
	pages := c.PagesFrom(s)
	defer pages.Close() //nolint:errcheck // it was read
	for p := range bounds.NumPages() {
		if bounds.NullPage(p) || !includes(bounds.MinValue(p), bounds.MaxValue(p)) {
			continue
		}
		first := offsets.FirstRowIndex(p)
		values, err := column(pages, first, -1)
		if err != nil {
			return 0, 0, err
		}
		for i, v := range values {
			if string(v.ByteArray()) != key {
				continue
			}
			if from == to {
				from = first + int64(i)
			}
			to = first + int64(i) + 1
		}
	}
	return from, to, nil
}

func columnOf(g parquet.RowGroup, at int) (*parquet.FileColumnChunk, error) {
	c, ok := g.ColumnChunks()[at].(*parquet.FileColumnChunk)
	if !ok {
		return nil, errors.New("a column is not of a file")
	}
	return c, nil
}

// hit is what a file holds of a Selection.
type hit struct {
	n       int64            // matching rows
	null    int64            // rows without a value in the column
	keyless int64            // rows without a key, if the column is that of the keys
	keys    map[string]int64 // matching rows by their keys, encoded; nil for a prefix or a column
}

// count reads the whole column that of asks for: a filter or an index that is damaged hides nothing. The
// pages have checksums.
func (r *Reader) count(ctx context.Context, f dataFile, of *selector) (all hit, err error) {
	s := &section{ctx: ctx, bucket: r.bucket, name: f.name}
	defer s.caught(&err)
	i, err := r.open(s, f)
	if err != nil {
		return all, err
	}
	t, rows := of.in(i.layout), int64(0)
	if t == nil {
		all.null, rows = f.rows, i.file.NumRows()
	}
	if len(of.Keys) > 0 {
		all.keys = map[string]int64{}
	}
	names := i.layout.schema.Columns()
	for n, g := range i.file.RowGroups() {
		columns := i.file.Metadata().RowGroups[n].Columns
		for at, c := range columns {
			if !slices.Equal(c.MetaData.PathInSchema, names[at]) {
				return all, fmt.Errorf("column %d has two names", at)
			}
		}
		if t == nil {
			continue
		}
		err := eachValue(s, g, t.at, columns[t.at].MetaData.TotalCompressedSize, func(v parquet.Value) {
			rows++
			switch {
			case v.IsNull():
				all.null++
			case t.is(v):
				all.n++
				if all.keys != nil {
					all.keys[string(v.ByteArray())]++
				}
			case t.at == i.layout.key && len(v.ByteArray()) == 0:
				all.keyless++
			}
		})
		if err != nil {
			return all, err
		}
	}
	if rows != f.rows {
		return all, fmt.Errorf("it has %d rows instead of %d", rows, f.rows)
	}
	return all, nil
}

// each calls do for each record of a file: the life it is of, its value in the column and whether that matches.
func (r *Reader) each(ctx context.Context, f dataFile, of *selector, do func(life identity, v parquet.Value, matches bool)) error {
	s := &section{ctx: ctx, bucket: r.bucket, name: f.name}
	i, err := r.open(s, f)
	if err != nil {
		return err
	}
	t := of.in(i.layout)
	for n, g := range i.file.RowGroups() {
		values, all := i.unpacked(n)
		atOnce := 1 + wholeFile*g.NumRows()/max(1, all-values)
		for from := int64(0); from < g.NumRows(); from += atOnce {
			records, err := i.read(s, g, from, min(from+atOnce, g.NumRows()), false)
			if err != nil {
				return err
			}
			for k := range records {
				v, matches := t.match(&records[k])
				do(records[k].identity(), v, matches)
			}
		}
	}
	return nil
}

// eachValue calls do with the values of a column of some size, in order. They are valid during the call.
func eachValue(s *section, g parquet.RowGroup, at int, size int64, do func(parquet.Value)) error {
	c, err := columnOf(g, at)
	if err != nil {
		return err
	}
	pages := c.PagesFrom(&ahead{of: s, size: int(min(max(size, 1<<10), 512<<10))})
	defer pages.Close() //nolint:errcheck // it was read
	var values [512]parquet.Value
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) && s.err == nil {
			return nil
		}
		if err != nil {
			return cmp.Or(s.err, err)
		}
		for from := page.Values(); err == nil; {
			var n int
			n, err = from.ReadValues(values[:])
			for _, v := range values[:n] {
				do(v)
			}
		}
		parquet.Release(page)
		if !errors.Is(err, io.EOF) {
			return err
		}
	}
}

// ahead reads more than it is asked for, because a request to a bucket takes long.
type ahead struct {
	of   io.ReaderAt
	size int
	from int64
	buf  []byte
}

// ReadAt implements io.ReaderAt.
func (a *ahead) ReadAt(p []byte, off int64) (int, error) {
	if len(p) >= a.size {
		return a.of.ReadAt(p, off)
	}
	if off < a.from || off+int64(len(p)) > a.from+int64(len(a.buf)) {
		if a.buf == nil {
			a.buf = make([]byte, a.size)
		}
		n, err := a.of.ReadAt(a.buf[:a.size], off)
		if a.from, a.buf = off, a.buf[:n]; err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	n := copy(p, a.buf[off-a.from:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
