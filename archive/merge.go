package archive

import (
	"container/heap"
	"context"
	"iter"
)

// smallFile bounds, by its size in memory, a file that a merge reads as a whole.
//
// A longer file keeps a reader open during the merge, which costs a few hundred KiB and some
// values. Reading small files whole lets one merge take many of them.
const smallFile = 256 << 10

// whole estimates the memory for all records of a file, in bytes.
func (f *File) whole() int64 { return 4*f.Size + 512*f.Rows }

// room estimates the memory that a merge needs for a file, in bytes.
func (f *File) room() int64 {
	if whole := f.whole(); whole <= smallFile {
		return whole
	}
	return 1<<20 + 8*f.Size/max(1, f.Rows)
}

// merged yields the records of several files in order, the latest version of each life.
//
// A fault in a file is yielded as an error, and the rest of that file is left out.
func merged(ctx context.Context, b Bucket, files []File, after *identity) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		var heads heads
		defer func() {
			for _, h := range heads {
				h.stop()
			}
		}()
		advance := func(h *head) bool { // false: stop
			var err error
			var ok bool
			h.record, err, ok = h.next()
			if ok && err == nil {
				h.id = h.record.identity()
				heap.Push(&heads, h)
				return true
			}
			h.stop()
			return err == nil || yield(Archived{}, err)
		}
		from := func(records iter.Seq2[Archived, error]) bool {
			next, stop := iter.Pull2(records)
			return advance(&head{next: next, stop: stop})
		}
		var small []entry
		for _, f := range files {
			if f.whole() > smallFile {
				if !from(rows(ctx, b, f, after)) {
					return
				}
				continue
			}
			for a, err := range rows(ctx, b, f, after) {
				if err == nil {
					small = append(small, entryOf(&a))
				} else if !yield(Archived{}, err) {
					return
				}
			}
		}
		small = lives(small)
		if !from(func(yield func(Archived, error) bool) {
			for _, e := range small {
				if !yield(*e.Archived, nil) {
					return
				}
			}
		}) {
			return
		}
		for len(heads) > 0 {
			first := heap.Pop(&heads).(*head)
			best := first.record
			id := first.id
			if !advance(first) {
				return
			}
			for len(heads) > 0 && heads[0].id == id {
				h := heap.Pop(&heads).(*head)
				if h.record.later(&best) {
					best = h.record
				}
				if !advance(h) {
					return
				}
			}
			if !yield(best, nil) {
				return
			}
		}
	}
}

// head is the position of a merge in a file.
type head struct {
	next   func() (Archived, error, bool)
	stop   func()
	record Archived
	id     identity
}

// heads is a heap.Interface, the least record first.
type heads []*head

func (h heads) Len() int           { return len(h) }
func (h heads) Less(i, j int) bool { return h[i].id.compare(h[j].id) < 0 }
func (h heads) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heads) Push(x any)        { *h = append(*h, x.(*head)) }

func (h *heads) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}
