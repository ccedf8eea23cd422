package archive

import (
	"bytes"
	"context"
	"errors"
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
	defer s.caught(&err)
	i, err := x.open(s, f)
	if err != nil {
		return nil, err
	}
	for _, g := range i.file.RowGroups() {
		hit, err := hits(s, g, keysIn(i.layout, []string{key}))
		if err != nil {
			return nil, s.blame(err)
		}
		records, err := i.records(s, g, hit.from, hit.to)
		if err != nil {
			return nil, s.blame(err)
		}
		found = append(found, records...)
	}
	return found, nil
}

// count tells how many records of a file are meant, and of how many that cannot be told.
func (x *indexes) count(ctx context.Context, f File, of *Selection) (meant, untold int64, err error) {
	s := &section{ctx: ctx, bucket: x.bucket, name: f.Name}
	defer s.caught(&err)
	i, err := x.open(s, f)
	if err != nil {
		return 0, 0, err
	}
	t := of.in(i.layout)
	if t == nil {
		return 0, f.Rows, nil
	}
	for _, g := range i.file.RowGroups() {
		hit, err := hits(s, g, t)
		if err != nil {
			return 0, 0, s.blame(err)
		}
		meant += hit.n
		untold += hit.null
	}
	return meant, untold, nil
}

// mayHold returns those of some keys that may be in a column, by its bloom filter.
func mayHold(s *section, c *parquet.FileColumnChunk, keys []string) ([]string, error) {
	filter, err := c.BloomFilterFrom(s)
	if err != nil {
		return nil, err
	}
	// The filter reads with the context of whoever read its header first: only its
	// place is taken from it.
	_, off, n := filter.Outer()
	r := io.NewSectionReader(s, off, n)
	if len(keys) > 1 && n <= 1<<20 { // it is read once, and not for each
		whole := make([]byte, n)
		if _, err := io.ReadFull(r, whole); err != nil {
			return nil, err
		}
		r = io.NewSectionReader(bytes.NewReader(whole), 0, n)
	}
	var held []string
	for _, key := range keys {
		may, err := bloom.CheckSplitBlock(r, n, bloom.XXH64{}.Sum64([]byte(key)))
		if err != nil {
			return nil, err
		}
		if may {
			held = append(held, key)
		}
	}
	return held, nil
}

// hit is where a row group has what is looked for: n rows, all of them in [from, to).
type hit struct {
	from, to, n int64
	null        int64 // rows that have nothing in the column
}

// hits looks for t in a row group.
func hits(s *section, g parquet.RowGroup, t *target) (h hit, err error) {
	c, ok := g.ColumnChunks()[t.at].(*parquet.FileColumnChunk)
	if !ok {
		return h, errors.New("a column is not of a file")
	}
	h.null = c.NullCount()
	first, last, bounded := c.Bounds()
	if bounded && !t.may(first, last) || h.null == g.NumRows() {
		return h, nil
	}
	if t.keys != nil {
		keys := t.keys
		if bounded {
			keys = between(keys, first, last)
		}
		if keys, err = mayHold(s, c, keys); err != nil || len(keys) == 0 {
			return h, err
		}
		t = keysIn(&layout{key: t.at}, keys)
	}
	bounds, err := c.ColumnIndexFrom(s)
	if err != nil {
		return h, err
	}
	places, err := c.OffsetIndexFrom(s)
	if err != nil {
		return h, err
	}
	pages := c.PagesFrom(s)
	defer pages.Close() //nolint:errcheck // it was read
	for p := range bounds.NumPages() {
		if bounds.NullPage(p) || !t.may(bounds.MinValue(p), bounds.MaxValue(p)) {
			continue
		}
		at := places.FirstRowIndex(p)
		values, err := column(pages, at, -1)
		if err != nil {
			return h, err
		}
		for i, v := range values {
			if !t.is(v) {
				continue
			}
			if h.n == 0 {
				h.from = at + int64(i)
			}
			h.to = at + int64(i) + 1
			h.n++
		}
	}
	return h, nil
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
