package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/bloom"
)

// index is what was read of a file to find keys in it.
type index struct {
	file   *parquet.File
	layout *layout
}

// indexes keeps those of files, which never change.
type indexes struct {
	bucket Bucket

	mu   sync.Mutex
	kept map[string]*index // guarded by mu; by name
}

const keptIndexes = 4096

func (x *indexes) open(s *section, f File) (*index, error) {
	x.mu.Lock()
	i := x.kept[f.Name]
	x.mu.Unlock()
	if i != nil {
		return i, nil
	}
	file, l, err := openFile(s, f.Size)
	if err != nil {
		return nil, err
	}
	i = &index{file, l}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.kept == nil || len(x.kept) >= keptIndexes {
		x.kept = map[string]*index{}
	}
	x.kept[f.Name] = i
	return i, nil
}

// find returns the records of a file under key.
func (x *indexes) find(ctx context.Context, f File, key string) (found []Archived, err error) {
	s := &section{ctx: ctx, bucket: x.bucket, name: f.Name}
	i, err := x.open(s, f)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			err = s.blame(fmt.Errorf("a page cannot be read: %v", r))
		}
	}()
	for _, g := range i.file.RowGroups() {
		c, ok := g.ColumnChunks()[i.layout.key].(*parquet.FileColumnChunk)
		if !ok {
			return nil, s.blame(errors.New("a column is not of a file"))
		}
		may, err := mayHold(s, c, key)
		if err != nil {
			return nil, s.blame(err)
		}
		if !may {
			continue
		}
		from, to, err := rowsOf(s, c, key)
		if err != nil {
			return nil, s.blame(err)
		}
		records, err := i.records(s, g, from, to)
		if err != nil {
			return nil, s.blame(err)
		}
		found = append(found, records...)
	}
	return found, nil
}

// mayHold reports whether a key may be in a column, by its bounds and its bloom filter.
func mayHold(s *section, c *parquet.FileColumnChunk, key string) (bool, error) {
	if first, last, ok := c.Bounds(); ok && (key < string(first.ByteArray()) || key > string(last.ByteArray())) {
		return false, nil
	}
	filter, err := c.BloomFilterFrom(s)
	if err != nil {
		return false, err
	}
	// The filter reads with the context of whoever read its header first: only its
	// place is taken from it.
	_, off, n := filter.Outer()
	return bloom.CheckSplitBlock(io.NewSectionReader(s, off, n), n, bloom.XXH64{}.Sum64([]byte(key)))
}

// rowsOf returns the rows of a sorted column that hold key: [from, to).
func rowsOf(s *section, c *parquet.FileColumnChunk, key string) (from, to int64, err error) {
	bounds, err := c.ColumnIndexFrom(s)
	if err != nil {
		return 0, 0, err
	}
	places, err := c.OffsetIndexFrom(s)
	if err != nil {
		return 0, 0, err
	}
	pages := c.PagesFrom(s)
	defer pages.Close() //nolint:errcheck // it was read
	for p := range bounds.NumPages() {
		if string(bounds.MaxValue(p).ByteArray()) < key || string(bounds.MinValue(p).ByteArray()) > key {
			continue
		}
		at := places.FirstRowIndex(p)
		keys, err := column(pages, at, -1)
		if err != nil {
			return 0, 0, err
		}
		for i, v := range keys {
			if string(v.ByteArray()) != key {
				continue
			}
			if to == 0 {
				from = at + int64(i)
			}
			to = at + int64(i) + 1
		}
	}
	return from, to, nil
}

// records reads the rows [from, to) of a row group.
func (i *index) records(s *section, g parquet.RowGroup, from, to int64) ([]Archived, error) {
	if from == to {
		return nil, nil
	}
	rows := make([]parquet.Row, to-from)
	for _, chunk := range g.ColumnChunks() {
		c, ok := chunk.(*parquet.FileColumnChunk)
		if !ok {
			return nil, errors.New("a column is not of a file")
		}
		if _, err := c.OffsetIndexFrom(s); err != nil { // by which a page is sought
			return nil, err
		}
		pages := c.PagesFrom(s)
		for at := from; at < to; {
			values, err := column(pages, at, to-at)
			if err != nil {
				return nil, errors.Join(err, pages.Close())
			}
			for k, v := range values {
				rows[at-from+int64(k)] = append(rows[at-from+int64(k)], v)
			}
			at += int64(len(values))
		}
		if err := pages.Close(); err != nil {
			return nil, err
		}
	}
	found := make([]Archived, len(rows))
	for n, row := range rows {
		var err error
		if found[n], err = i.layout.record(row); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// column reads what the page in which row at lies has of at most most rows, from at on;
// all of it for a most below zero. It returns at least one.
func column(pages parquet.Pages, at, most int64) ([]parquet.Value, error) {
	if err := pages.SeekToRow(at); err != nil {
		return nil, err
	}
	page, err := pages.ReadPage()
	if err != nil {
		return nil, unexpected(err)
	}
	defer parquet.Release(page)
	n := page.NumValues()
	if most >= 0 {
		n = min(n, most)
	}
	values := make([]parquet.Value, n)
	got, err := page.Values().ReadValues(values)
	if int64(got) < n || got == 0 {
		return nil, unexpected(err)
	}
	for i, v := range values {
		values[i] = v.Clone()
	}
	return values, nil
}

// unexpected is err, where more was to come.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
