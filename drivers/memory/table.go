package memory

import (
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
)

const (
	tableShards = 256
	bucketSlots = 7
	lowBits     = 0x0101010101010101
)

// table is a hash table of records by key. Readers take no lock and write nothing;
// writers of one shard take turns.
//
// A general map of key to pointer has an entry for each key between its buckets and the
// record: one more cache miss a read, and some 40 bytes. Here the buckets point to the records.
type table[T any] struct {
	seed   maphash.Seed
	shards [tableShards]shard[T]
}

// shard is a table that is replaced by another when it is too full or too empty.
type shard[T any] struct {
	grid atomic.Pointer[grid[T]] // nil: empty. Stored under mu
	mu   sync.Mutex              // held for every change in the shard
	live atomic.Int64            // records. Stored under mu
	_    [40]byte                // shards share no cache line
}

// grid is a power of two of buckets.
type grid[T any] struct {
	mask    uint32
	buckets []bucket[T]
}

// bucket is 64 bytes on 64-bit machines. A record whose bucket is full goes to the next one
// that is not.
//
// A bucket is one cache line, except in grids of 16 to 256 buckets: Go puts a word before
// allocations of more than 512 bytes and less than 32 KB (1.26, malloc.go in runtime,
// minSizeForMallocHeader), so the last slot lies on the next line. Avoiding that would take a
// grid type for each size.
type bucket[T any] struct {
	// A byte for each slot: zero if it is free, else its record's tag. The last byte counts
	// the records that found this bucket full and lie behind it: at zero a search ends.
	tags  atomic.Uint64
	slots [bucketSlots]atomic.Pointer[record[T]]
}

const (
	passedShift = 8 * bucketSlots
	passedMost  = 255
)

// tagOf returns the tag of a hash, its high bits. The low bits give the bucket.
func tagOf(hash uint32) uint64 { return uint64(hash>>25 | 0x80) }

func newTable[T any]() *table[T] { return &table[T]{seed: maphash.MakeSeed()} }

func (t *table[T]) find(key string) (*shard[T], uint32) {
	h := maphash.String(t.seed, key)
	return &t.shards[h>>56], uint32(h)
}

// load returns the record under key, nil if there is none.
func (t *table[T]) load(key string) *record[T] {
	s, hash := t.find(key)
	r, _, _ := s.grid.Load().search(key, hash)
	return r
}

// fetch loads the bucket of key's record into the cache.
func (t *table[T]) fetch(key string) {
	s, hash := t.find(key)
	if g := s.grid.Load(); g != nil {
		g.home(hash).tags.Load()
	}
}

// home returns the bucket that a record of hash belongs to.
func (g *grid[T]) home(hash uint32) *bucket[T] { return &g.buckets[hash&g.mask] }

// matches sets the high bit of each byte of tags that equals hash's tag, without the last
// byte. It may also set that of a byte after an equal one: callers compare the keys.
func matches(tags uint64, hash uint32) uint64 {
	// Bytes equal to the tag become zero, and zero bytes their high bit.
	x := tags ^ tagOf(hash)*lowBits
	return (x - lowBits) &^ x & (0x80 * lowBits) << 8 >> 8
}

// slotOf returns the slot of the first of matches' bits, which must not be zero.
func slotOf(m uint64) int { return bits.TrailingZeros64(m) / 8 }

// search returns the record under key, and where it is.
func (g *grid[T]) search(key string, hash uint32) (r *record[T], b *bucket[T], slot int) {
	if g == nil {
		return nil, nil, 0
	}
	// A record that a racing writer moves is absent for a moment. A search that misses it
	// is right about that moment.
	for i, n := hash&g.mask, 0; n < len(g.buckets); i, n = (i+1)&g.mask, n+1 {
		b = &g.buckets[i]
		tags := b.tags.Load()
		for m := matches(tags, hash); m != 0; m &= m - 1 {
			slot = slotOf(m)
			if r = b.slots[slot].Load(); r != nil && r.key() == key {
				return r, b, slot
			}
		}
		if tags>>passedShift == 0 {
			break
		}
	}
	return nil, nil, 0
}

// change is what compute does with a record.
type change int

const (
	leave change = iota // nothing
	put                 // puts the returned record in its place
	drop                // removes it, if there is one
)

// compute calls f with the record under key, nil if there is none, and makes the change that
// f returns. No other write of key happens meanwhile, and no Slide. f must not use the table.
func (t *table[T]) compute(key string, f func(old *record[T]) (*record[T], change)) {
	s, hash := t.find(key)
	s.mu.Lock()
	g := s.grid.Load()
	old, b, slot := g.search(key, hash)
	old.hold()
	var what change
	defer func() { // also if f panics
		if what == leave {
			old.release()
		}
		s.mu.Unlock()
	}()
	var r *record[T]
	r, what = f(old)
	switch {
	case what == put && old != nil:
		r.hash = hash
		b.slots[slot].Store(r)
	case what == put:
		r.hash = hash
		s.insert(r)
	case what == drop && old != nil:
		s.remove(g, old, b, slot)
	}
}

// insert adds r, whose key is absent.
func (s *shard[T]) insert(r *record[T]) {
	g := s.grid.Load()
	live := s.live.Add(1)
	if g == nil || live > int64(len(g.buckets))*bucketSlots*3/4 {
		g = s.rebuild(live)
	}
	for !g.add(r) { // a bucket's count of passed records is full, which hardly ever happens
		g = s.rebuild(int64(len(g.buckets)) * bucketSlots)
	}
}

// add puts r into the first free slot from its own bucket on.
func (g *grid[T]) add(r *record[T]) bool {
	home := r.hash & g.mask
	at := home
	for ; ; at = (at + 1) & g.mask {
		b := &g.buckets[at]
		tags := b.tags.Load()
		if tags>>passedShift == passedMost {
			return false
		}
		if free := ^tags & (0x80 * lowBits) << 8 >> 8; free != 0 {
			// Count first, so that a search reaches a record that is visible.
			for i := home; i != at; i = (i + 1) & g.mask {
				g.buckets[i].tags.Add(1 << passedShift)
			}
			slot := slotOf(free)
			b.slots[slot].Store(r)
			b.tags.Store(tags | tagOf(r.hash)<<(8*slot))
			return true
		}
	}
}

// remove removes r from its slot.
func (s *shard[T]) remove(g *grid[T], r *record[T], b *bucket[T], slot int) {
	b.tags.Store(b.tags.Load() &^ (0xff << (8 * slot)))
	b.slots[slot].Store(nil)
	for i := r.hash & g.mask; &g.buckets[i] != b; i = (i + 1) & g.mask {
		g.buckets[i].tags.Add(^uint64(1<<passedShift) + 1)
	}
	if live := s.live.Add(-1); len(g.buckets) > 1 && live < int64(len(g.buckets))*bucketSlots/8 {
		s.rebuild(live)
	}
}

// rebuild moves the live records to a grid that they fill at most by half. Readers of the
// old grid read what was true when they began.
func (s *shard[T]) rebuild(live int64) *grid[T] {
	n := 1
	for int64(n)*bucketSlots < 2*live {
		n *= 2
	}
	for {
		g := &grid[T]{mask: uint32(n - 1), buckets: make([]bucket[T], n)}
		if g.addAll(s.grid.Load()) {
			s.grid.Store(g)
			return g
		}
		n *= 2
	}
}

func (g *grid[T]) addAll(old *grid[T]) bool {
	for r := range old.all {
		if !g.add(r) {
			return false
		}
	}
	return true
}

// all yields the records of g.
func (g *grid[T]) all(yield func(*record[T]) bool) {
	if g == nil {
		return
	}
	for i := range g.buckets {
		for j := range g.buckets[i].slots {
			if r := g.buckets[i].slots[j].Load(); r != nil && !yield(r) {
				return
			}
		}
	}
}

// shardAt appends the records of the i-th shard, as they are at one moment, to records.
func (t *table[T]) shardAt(i int, records []*record[T]) []*record[T] {
	s := &t.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.grid.Load().all {
		records = append(records, r)
	}
	return records
}

// len returns the number of records.
func (t *table[T]) len() int {
	n := int64(0)
	for i := range t.shards {
		n += t.shards[i].live.Load()
	}
	return int(n)
}

// clear removes all records.
func (t *table[T]) clear() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.grid.Store(nil)
		s.live.Store(0)
		s.mu.Unlock()
	}
}
