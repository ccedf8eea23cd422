package archive

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// index is an open file: its footer and indexes.
type index struct {
	file   *parquet.File
	layout *layout
}

// kept caches what was read from files, which never change, by their names.
type kept[T any] struct {
	mu sync.Mutex
	of map[string]T // guarded by mu
}

const keptMost = 4096

// get returns what is kept of a file, or what read returns.
func (k *kept[T]) get(name string, read func() (T, error)) (T, error) {
	k.mu.Lock()
	v, ok := k.of[name]
	k.mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := read()
	if err != nil {
		return v, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of == nil || len(k.of) >= keptMost {
		k.of = map[string]T{}
	}
	k.of[name] = v
	return v, nil
}

func (r *Reader) open(s *section, f dataFile) (*index, error) {
	return r.indexes.get(f.name, func() (*index, error) { return openFile(s, f) })
}

// find returns the records of a file under key.
func (r *Reader) find(ctx context.Context, f dataFile, key string) (found []Archived, err error) {
	s := &section{ctx: ctx, bucket: r.bucket, name: f.name}
	defer s.caught(&err)
	i, err := r.open(s, f)
	if err != nil {
		return nil, err
	}
	for _, g := range i.file.RowGroups() {
		from, to, err := places(s, g, i.layout.key, key)
		if err != nil {
			return nil, err
		}
		records, err := i.read(s, g, from, to, true)
		if err != nil {
			return nil, err
		}
		found = append(found, records...)
	}
	return found, nil
}

// unpacked returns the sizes of the values of a row group, and of all its columns, unpacked.
func (i *index) unpacked(group int) (values, all int64) {
	columns := i.file.Metadata().RowGroups[group].Columns
	for _, c := range columns {
		all += c.MetaData.TotalUncompressedSize
	}
	return columns[i.layout.value].MetaData.TotalUncompressedSize, all
}

// value reads the value of one row of a row group.
func (i *index) value(s *section, g parquet.RowGroup, row int64) (value []byte, err error) {
	defer s.caught(&err)
	values, err := valuesOf(s, g, i.layout.value, row, row+1)
	if err != nil {
		return nil, err
	}
	return values[0].ByteArray(), nil
}

// read reads the rows [from, to) of a row group, with or without their values.
func (i *index) read(s *section, g parquet.RowGroup, from, to int64, withValues bool) (found []Archived, err error) {
	defer s.caught(&err)
	if from == to {
		return nil, nil
	}
	n := len(g.ColumnChunks())
	cells := make(parquet.Row, int64(n)*(to-from)) // row by row
	for at := range n {
		if at == i.layout.value && !withValues {
			continue
		}
		values, err := valuesOf(s, g, at, from, to)
		if err != nil {
			return nil, err
		}
		for k, v := range values {
			cells[k*n+at] = v
		}
	}
	found = make([]Archived, to-from)
	for k := range found {
		if found[k], err = i.layout.record(cells[k*n : (k+1)*n]); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// valuesOf reads the rows [from, to) of a column.
func valuesOf(s *section, g parquet.RowGroup, at int, from, to int64) (values []parquet.Value, err error) {
	c, err := columnOf(g, at)
	if err != nil {
		return nil, err
	}
	if _, err := c.OffsetIndexFrom(s); err != nil { // SeekToRow needs it
		return nil, err
	}
	pages := c.PagesFrom(s)
	defer func() { err = errors.Join(err, pages.Close()) }()
	for at := from; at < to; {
		page, err := column(pages, at, to-at)
		if err != nil {
			return nil, err
		}
		values = append(values, page...)
		at += int64(len(page))
	}
	return values, nil
}

// column reads at most most values from row at on, from the one page that holds that row. It
// returns at least one value. A negative most means the rest of the page.
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

// unexpected replaces nil and io.EOF by io.ErrUnexpectedEOF, where more values must follow.
func unexpected(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
