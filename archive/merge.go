package archive

import (
	"context"
	"iter"
)

// smallFile is how long, in memory, a file is that is read as a whole, so that many may be merged
// at once; of a longer one a reader is kept, which takes a few hundred KiB and some values.
const smallFile = 256 << 10

// whole is about what the records of a file take up in memory.
func (f *File) whole() int64 { return 4*f.Size + 512*f.Rows }

// room is about what it takes in memory to merge a file.
func (f *File) room() int64 {
	if whole := f.whole(); whole <= smallFile {
		return whole
	}
	return 1<<20 + 8*f.Size/max(1, f.Rows)
}

// merged tells the records of several files in their order, each life once: as it was seen
// last. Only where all files are good are all records told; what is wrong with a file ends
// it, and comes as an error where it was met.
func merged(ctx context.Context, b Bucket, files []File, after *identity) iter.Seq2[Archived, error] {
	return func(yield func(Archived, error) bool) {
		var heads []*head
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
				heads = push(heads, h)
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
			var first *head
			first, heads = pop(heads)
			best := first.record
			id := first.id
			if !advance(first) {
				return
			}
			for len(heads) > 0 && heads[0].id == id {
				var h *head
				h, heads = pop(heads)
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

// head is where a merge is in a file.
type head struct {
	next   func() (Archived, error, bool)
	stop   func()
	record Archived
	id     identity
}

// push adds h to a heap whose first is the least.
func push(heap []*head, h *head) []*head {
	heap = append(heap, h)
	for i := len(heap) - 1; i > 0; {
		up := (i - 1) / 2
		if heap[up].id.compare(heap[i].id) <= 0 {
			break
		}
		heap[up], heap[i] = heap[i], heap[up]
		i = up
	}
	return heap
}

// pop takes the least out of a heap.
func pop(heap []*head) (*head, []*head) {
	least := heap[0]
	last := len(heap) - 1
	heap[0] = heap[last]
	heap = heap[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= len(heap) {
			break
		}
		if next+1 < len(heap) && heap[next+1].id.compare(heap[next].id) < 0 {
			next++
		}
		if heap[i].id.compare(heap[next].id) <= 0 {
			break
		}
		heap[i], heap[next] = heap[next], heap[i]
		i = next
	}
	return least, heap
}
