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

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive/internal/uncached"
)

// mergeRoom bounds the memory for files that are merged at once, in bytes.
var mergeRoom int64 = 64 << 20

const (
	wholeFile = 1 << 20   // a file up to this size is read in one call
	longFile  = 1 << 20   // the room of a longer one, for its open reader
	leastRoom = 16 << 10  // of each file
	mostRoom  = 8 << 20   // of each file
	longValue = 256 << 10 // longer ones are read when they are written
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

	group int   // the row group that is read next, and
	row   int64 // the row in it
	done  bool  // all were read
	chunk []mergeEntry

	section *section // of a long file, with index; a small one is read anew for each chunk
	index   *index
	layout  *layout
	err     error // why it could not be opened
}

// mergeEntry is an entry whose value may still have to be read.
type mergeEntry struct {
	entry
	value func() ([]byte, error) // nil: the record has it
}

// load opens a file. It reads a small one whole. If check is true it compares the file's hash too.
func (h *head) load(ctx context.Context, check bool) (*section, *index, error) {
	if h.index != nil {
		return h.section, h.index, nil
	}
	s := &section{ctx: ctx, bucket: h.bucket, name: h.file.name}
	if check {
		s.ctx = uncached.Context(ctx)
	}
	small := h.file.size <= wholeFile
	if small {
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
	if err == nil && !small {
		h.section, h.index = s, i
	}
	return s, i, err
}

// fill reads the next records, without values that are longer than a chunk or longValue: unpacked they may have any size, and
// are read when they are written.
func (h *head) fill(ctx context.Context, check bool) error {
	s, i, err := h.load(ctx, check)
	if err != nil {
		return err
	}
	h.layout = i.layout
	groups := i.file.RowGroups()
	if h.done = len(groups) == 0; h.done {
		return nil
	}
	g, at := groups[h.group], h.group
	values, all := i.unpacked(at)
	long := min(h.room, longValue)
	withValues := values/g.NumRows() < long
	if !withValues {
		all -= values
	}
	to := min(g.NumRows(), h.row+1+h.room/(512+all/g.NumRows()))
	if withValues && h.index == nil && all > wholeFile { // a row group has no two values that are large
		h.unpack.Lock()
		defer h.unpack.Unlock()
	}
	records, err := i.read(s, g, h.row, to, withValues)
	if err != nil {
		return err
	}
	for n := range records {
		e, row := mergeEntry{entry: entryOf(&records[n])}, h.row+int64(n)
		if !withValues || int64(len(e.Value)) > long {
			e.Value, e.value = nil, func() ([]byte, error) {
				s, i, err := h.load(ctx, false)
				if err != nil {
					return nil, err
				}
				return i.value(s, i.file.RowGroups()[at], row)
			}
		}
		h.chunk = append(h.chunk, e)
	}
	if h.row = to; to == g.NumRows() {
		h.group, h.row, h.done = at+1, 0, at+1 == len(groups)
	}
	return nil
}

// next returns the next record. ok is false after the last one and after an error.
func (h *head) next(ctx context.Context) (e mergeEntry, ok bool, err error) {
	if h.err == nil && len(h.chunk) == 0 && !h.done {
		h.err = h.fill(ctx, false)
	}
	if h.err != nil || len(h.chunk) == 0 {
		return e, false, h.err
	}
	e, h.chunk = h.chunk[0], h.chunk[1:]
	return e, true, nil
}

// openHeads opens files, several at once. The error of each is in its head.
func openHeads(ctx context.Context, b Bucket, files []dataFile, check bool) []*head {
	heads := make([]*head, len(files))
	var g errgroup.Group
	g.SetLimit(lookups)
	var unpack sync.Mutex
	for i, f := range files {
		heads[i] = &head{unpack: &unpack, bucket: b, file: f, room: min(max(leastRoom, mergeRoom/int64(len(files))), mostRoom)}
		g.Go(func() error {
			heads[i].err = heads[i].fill(ctx, check)
			return nil
		})
	}
	_ = g.Wait() // no function fails
	return heads
}

// merged yields the records of several open files in order, the latest version of each life. It begins after the life after; nil: at the first. A record is valid until the next one.
//
// A fault in a file is yielded as an error, and the rest of that file is left out.
func merged(ctx context.Context, all []*head, after *identity) iter.Seq2[*Archived, error] {
	return func(yield func(*Archived, error) bool) {
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
