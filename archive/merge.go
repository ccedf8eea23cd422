package archive

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive/internal/uncached"
)

// mergeRoom bounds the memory for files that are merged at once, in bytes.
var mergeRoom int64 = 64 << 20

const (
	wholeFile = 1 << 20   // a file up to this size is read in one call
	longFile  = 1 << 20   // the room of a longer one, for its open reader
	leastRoom = 16 << 10  // of each file
	longValue = 256 << 10 // values of a file whose average is longer are read when they are written
)

// room estimates the memory that a merge needs for a file, in bytes.
func (f *dataFile) room() int64 {
	if f.size <= wholeFile {
		return min(4*f.size+512*f.rows, leastRoom)
	}
	return longFile + 8*min(f.size/max(1, f.rows), longValue)
}

// head is the position of a merge in a file.
type head struct {
	bucket Bucket
	file   dataFile
	room   int64       // for chunk
	unpack *sync.Mutex // held while long values are unpacked, of one file at a time

	row   int64 // rows read
	chunk []mergeEntry
	more  func() (mergeEntry, error, bool) // reads a long file; nil: it is read anew for each chunk
	stop  func()

	columns map[string]*columnType
	err     error // why it could not be opened
}

// mergeEntry is an entry whose value may still have to be read.
type mergeEntry struct {
	entry
	value func() ([]byte, error) // nil: the record has it
}

// open reads the first records of a file. If check is true it compares the file's hash too.
func (h *head) open(ctx context.Context, check bool) error {
	s, file, err := h.load(ctx, check)
	if err != nil {
		return err
	}
	h.columns = file.layout.columns()
	switch values, _ := file.unpacked(); {
	case values/max(1, h.file.rows) >= longValue:
		s.content = nil
		h.more, h.stop = iter.Pull2(file.withoutValues(s))
	case s.content == nil:
		h.more, h.stop = iter.Pull2(func(yield func(mergeEntry, error) bool) {
			for a, err := range rows(ctx, h.bucket, h.file) {
				if !yield(mergeEntry{entry: entryOf(&a)}, err) {
					return
				}
			}
		})
	default:
		return h.fill(s, file)
	}
	return nil
}

// load opens a file. It reads a small one whole.
func (h *head) load(ctx context.Context, check bool) (*section, *index, error) {
	s := &section{ctx: ctx, bucket: h.bucket, name: h.file.name}
	if check {
		s.ctx = uncached.Context(ctx)
	}
	if h.file.size <= wholeFile {
		content := make([]byte, h.file.size)
		if n, err := s.ReadAt(content, 0); int64(n) < h.file.size {
			if err == nil || errors.Is(err, io.EOF) {
				err = &CorruptError{File: h.file.name, Err: fmt.Errorf("it has %d bytes instead of %d", n, h.file.size)}
			}
			return nil, nil, err
		}
		s.content = bytes.NewReader(content)
	}
	if check {
		if err := s.checkSum(h.file); err != nil {
			return nil, nil, err
		}
	}
	s.ctx = ctx
	i, err := openFile(s, h.file)
	return s, i, err
}

// withoutValues yields the records of a file, each with a function that reads its value.
func (i *index) withoutValues(s *section) iter.Seq2[mergeEntry, error] {
	return func(yield func(mergeEntry, error) bool) {
		values, all := i.unpacked()
		atOnce := 1 + wholeFile*i.file.NumRows()/max(1, all-values)
		for _, g := range i.file.RowGroups() {
			for from := int64(0); from < g.NumRows(); from += atOnce {
				records, err := i.read(s, g, from, min(from+atOnce, g.NumRows()), false)
				if err != nil {
					yield(mergeEntry{}, s.blame(err))
					return
				}
				for n := range records {
					value := func() ([]byte, error) { return i.value(s, g, from+int64(n)) }
					if !yield(mergeEntry{entryOf(&records[n]), value}, nil) {
						return
					}
				}
			}
		}
	}
}

// value reads the value of one row of a row group.
func (i *index) value(s *section, g parquet.RowGroup, row int64) (value []byte, err error) {
	defer s.caught(&err)
	values, err := valuesOf(s, g.ColumnChunks()[i.layout.value], row, row+1)
	if err != nil {
		return nil, s.blame(err)
	}
	return values[0].ByteArray(), nil
}

// fill reads the next records of a small file, which is read anew for each chunk, and for each value
// that is longer than a chunk: unpacked they may have any size.
func (h *head) fill(s *section, file *index) error {
	atOnce := int64(64)
	if _, all := file.unpacked(); all > wholeFile {
		atOnce = 1
		h.unpack.Lock()
		defer h.unpack.Unlock()
	}
	used, base := int64(0), int64(0)
	for i, g := range file.file.RowGroups() {
		from := max(0, h.row-base)
		base += g.NumRows()
		if from >= g.NumRows() {
			continue
		}
		for a, err := range groupRecords(s, g, file.layout, from, min(atOnce, g.NumRows())) {
			if err != nil {
				return err
			}
			e := mergeEntry{entry: entryOf(&a)}
			if int64(len(a.Value)) > h.room {
				row := h.row - (base - g.NumRows())
				a.Value, e.value = nil, func() ([]byte, error) {
					s, file, err := h.load(s.ctx, false)
					if err != nil {
						return nil, err
					}
					return file.value(s, file.file.RowGroups()[i], row)
				}
			}
			h.row++
			h.chunk = append(h.chunk, e)
			all, _ := a.size()
			if used += 512 + int64(all); used >= h.room {
				return nil
			}
		}
	}
	if h.row != h.file.rows {
		return &CorruptError{File: h.file.name, Err: fmt.Errorf("it has %d rows instead of %d", h.row, h.file.rows)}
	}
	return nil
}

// next returns the next record. ok is false after the last one and after an error.
func (h *head) next(ctx context.Context) (e mergeEntry, ok bool, err error) {
	if h.err != nil {
		return e, false, h.err
	}
	if h.more != nil {
		e, err, ok = h.more()
		return e, ok && err == nil, err
	}
	if len(h.chunk) == 0 && h.row < h.file.rows {
		s, file, err := h.load(ctx, false)
		if err == nil {
			err = h.fill(s, file)
		}
		if err != nil {
			return e, false, err
		}
	}
	if len(h.chunk) == 0 {
		return e, false, nil
	}
	e = h.chunk[0]
	h.chunk = h.chunk[1:]
	return e, true, nil
}

func (h *head) close() {
	if h.stop != nil {
		h.stop()
	}
}

// openHeads opens files, several at once. The error of each is in its head.
func openHeads(ctx context.Context, b Bucket, files []dataFile, check bool) []*head {
	heads := make([]*head, len(files))
	var g errgroup.Group
	g.SetLimit(lookups)
	var unpack sync.Mutex
	for i, f := range files {
		heads[i] = &head{unpack: &unpack, bucket: b, file: f, room: max(leastRoom, mergeRoom/int64(len(files)))}
		g.Go(func() error {
			heads[i].err = heads[i].open(ctx, check)
			return nil
		})
	}
	_ = g.Wait() // no function fails
	return heads
}

// merged yields the records of several open files in order, the latest version of each life, and closes
// the files. It begins after the life after; nil: at the first. A record is valid until the next one.
//
// A fault in a file is yielded as an error, and the rest of that file is left out.
func merged(ctx context.Context, all []*head, after *identity) iter.Seq2[*Archived, error] {
	return func(yield func(*Archived, error) bool) {
		defer func() {
			for _, h := range all {
				h.close()
			}
		}()
		var first heads
		advance := func(h *head) bool { // false: stop
			for {
				e, ok, err := h.next(ctx)
				if ok && after != nil && e.id.compare(*after) <= 0 {
					continue
				}
				if ok {
					heap.Push(&first, candidate{e, h})
				}
				return err == nil || yield(nil, err)
			}
		}
		for _, h := range all {
			if !advance(h) {
				return
			}
		}
		for len(first) > 0 {
			best := heap.Pop(&first).(candidate)
			same := []*head{best.head}
			for len(first) > 0 && first[0].id == best.id {
				c := heap.Pop(&first).(candidate)
				if same = append(same, c.head); latest(best.Archived, c.Archived) == c.Archived {
					best = c
				}
			}
			var err error
			if best.value != nil {
				best.Value, err = best.value()
			}
			if !yield(best.Archived, err) {
				return
			}
			best.Value = nil
			for _, h := range same {
				if !advance(h) {
					return
				}
			}
		}
	}
}

// candidate is the next record of a head.
type candidate struct {
	mergeEntry
	head *head
}

// heads is a heap.Interface, the least record first.
type heads []candidate

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].id.compare(h[j].id) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(candidate)) }

func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// choose returns the files of a day to merge next, shortest first; nil for none.
func (m *manifest) choose(left map[string]bool) []dataFile {
	var files []dataFile
	unmerged := false
	for _, f := range m.files {
		if left[f.name] {
			continue
		}
		files = append(files, f)
		if !f.merged {
			unmerged = true
		}
	}
	if len(files) < 2 || !unmerged && m.merged {
		return nil
	}
	slices.SortStableFunc(files, func(a, b dataFile) int { return cmp.Compare(a.size, b.size) })
	n := 0
	for room := int64(0); n < len(files) && (n < 2 || room <= mergeRoom); n++ {
		room += files[n].room()
	}
	return files[:n]
}
