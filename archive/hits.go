package archive

import (
	"bytes"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/bloom"
)

// mayHold returns the keys that may be in a column, by its bloom filter.
func mayHold(s *section, c *parquet.FileColumnChunk, keys []string) ([]string, error) {
	filter, err := c.BloomFilterFrom(s)
	if err != nil {
		return nil, err
	}
	// The filter is cached with the first caller's context. So only its offset and length
	// are used, and the bytes are read through s.
	_, off, n := filter.Outer()
	r := io.NewSectionReader(s, off, n)
	if len(keys) > 1 && n <= 1<<20 { // read the filter once, not once for each key
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

// hit is the result for one row group: n matching rows, all of them in [from, to).
type hit struct {
	from, to, n int64
	null        int64            // rows without a value in the column
	keys        map[string]int64 // matching rows by their keys, encoded; nil for a prefix or a column
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
		if keys, err = mayHold(s, c, keys); err != nil {
			return h, err
		}
		t = keysIn(&layout{key: t.at}, keys)
		h.keys = map[string]int64{}
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
			if h.keys != nil {
				h.keys[string(v.ByteArray())]++
			}
		}
	}
	return h, nil
}
