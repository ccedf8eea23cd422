package memory

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// slots is how many records the table has room for.
func (t *table[T]) slots() (n int) {
	for i := range t.shards {
		if g := t.shards[i].grid.Load(); g != nil {
			n += bucketSlots * len(g.buckets)
		}
	}
	return n
}

// check holds a shard's bookkeeping against the records in it.
func (s *shard[T]) check(t *testing.T) {
	t.Helper()
	g := s.grid.Load()
	passed := make(map[uint32]uint64)
	live := int64(0)
	if g == nil {
		if n := s.live.Load(); n != 0 {
			t.Fatalf("%d records counted in no grid", n)
		}
		return
	}
	for i := range g.buckets {
		b := &g.buckets[i]
		tags := b.tags.Load()
		for j := range b.slots {
			r, tag := b.slots[j].Load(), tags>>(8*j)&0xff
			if r == nil {
				if tag != 0 {
					t.Fatalf("a free slot has the tag %x", tag)
				}
				continue
			}
			live++
			if tag != tagOf(r.hash) {
				t.Fatalf("a record of tag %x is marked %x", tagOf(r.hash), tag)
			}
			for at := r.hash & g.mask; at != uint32(i); at = (at + 1) & g.mask {
				passed[at]++
			}
		}
	}
	if n := s.live.Load(); n != live {
		t.Fatalf("%d records counted, %d there", n, live)
	}
	for i := range g.buckets {
		if got, want := g.buckets[i].tags.Load()>>passedShift, passed[uint32(i)]; got != want {
			t.Fatalf("%d records counted as passed over a bucket, want %d", got, want)
		}
	}
}

func (t *table[T]) put(r *record[T]) {
	t.compute(r.key(), func(*record[T]) (*record[T], change) { return r, put })
}

func (t *table[T]) drop(key string) {
	t.compute(key, func(*record[T]) (*record[T], change) { return nil, drop })
}

// TestMatches: no byte that is the tag is missed, and none is named but such a byte or
// one that a byte before it may have misled about; the last is none's.
func TestMatches(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		hash := r.Uint32()
		tag := byte(tagOf(hash))
		var tags uint64
		equal := [8]bool{}
		for i := range equal {
			b := tag ^ byte(r.IntN(3)) // the neighbours are where a borrow misleads
			equal[i] = b == tag
			tags |= uint64(b) << (8 * i)
		}
		before := false
		for i := range equal {
			named := matches(tags, hash)>>(8*i)&0xff != 0
			if last := i == bucketSlots; named && last || !last && equal[i] && !named || named && !equal[i] && !before {
				t.Fatalf("tags %x, tag %x, byte %d: named %t", tags, tag, i, named)
			}
			before = before || equal[i]
		}
	}
}

// mostKeys is how many keys the table is held against a map with. At night there are more.
var mostKeys = 10_000

// TestTableAgainstMap lets a table and a map grow, shrink and churn alike.
func TestTableAgainstMap(t *testing.T) {
	table, model := newTable[int](), make(map[string]*record[int])
	r := rand.New(rand.NewPCG(1, 2))
	for step, keys := range []int{10, mostKeys / 100, mostKeys * 2 / 5, mostKeys * 3 / 100, mostKeys, 50, mostKeys, 1} {
		for range 3 * keys {
			key := fmt.Sprint(r.IntN(keys))
			switch {
			case r.IntN(3) == 0:
				table.drop(key)
				delete(model, key)
			default:
				rec := newRecord[int](key, nil)
				table.put(rec)
				model[key] = rec
			}
		}
		for i := range mostKeys { // leave what the next step can know
			if key := fmt.Sprint(i); i >= keys/2 {
				table.drop(key)
				delete(model, key)
			}
		}
		for i := range mostKeys {
			key := fmt.Sprint(i)
			if got, want := table.load(key), model[key]; got != want {
				t.Fatalf("step %d: key %s: got %p, want %p", step, key, got, want)
			}
		}
		if got, want := table.len(), len(model); got != want {
			t.Fatalf("step %d: len %d, want %d", step, got, want)
		}
		for i := range table.shards {
			table.shards[i].check(t)
		}
	}
	if n := table.slots(); n > bucketSlots*tableShards {
		t.Errorf("%d slots are left for %d records", n, table.len())
	}
	table.clear()
	if table.len() != 0 || table.load("0") != nil {
		t.Error("a record is left after clear")
	}
}

// TestTableOneHash: records whose hashes are all the same share buckets, and those
// that passed over a full bucket are found behind it, whichever others are removed.
func TestTableOneHash(t *testing.T) {
	var s shard[int]
	const n = 200
	recs := make([]*record[int], n)
	for i := range recs {
		recs[i] = newRecord[int](fmt.Sprint(i), nil)
		recs[i].hash = 0xffffffff
		s.insert(recs[i])
	}
	s.check(t)
	for i := 0; i < n; i += 3 {
		g := s.grid.Load()
		r, b, slot := g.search(recs[i].key(), recs[i].hash)
		if r != recs[i] {
			t.Fatalf("record %d is not found", i)
		}
		s.remove(g, r, b, slot)
		s.check(t)
	}
	for i, want := range recs {
		if i%3 == 0 {
			want = nil
		}
		if got, _, _ := s.grid.Load().search(fmt.Sprint(i), 0xffffffff); got != want {
			t.Fatalf("record %d: got %p, want %p", i, got, want)
		}
	}
}

// TestTableManyPassed: a bucket's count of those that passed over it has an end, and
// no record is lost there.
func TestTableManyPassed(t *testing.T) {
	var s shard[int]
	const n = 1000
	for i := range n {
		// They begin to part when there are 512 buckets.
		r := newRecord[int](fmt.Sprint(i), nil)
		r.hash = uint32(i) << 8
		s.insert(r)
	}
	s.check(t)
	for i := range n {
		if r, _, _ := s.grid.Load().search(fmt.Sprint(i), uint32(i)<<8); r == nil {
			t.Fatalf("record %d is lost", i)
		}
	}
}

// laps is how often the table grows and shrinks under its readers.
var laps = 4

// TestTableReadersSeeSteadyRecords: while others come and go and the table grows and
// shrinks, a record that stays is never missed, and a replaced one never seen again.
func TestTableReadersSeeSteadyRecords(t *testing.T) {
	table := newTable[int]()
	const steady, passing = 500, 5_000
	for i := range steady {
		table.put(newRecord[int](fmt.Sprint("steady-", i), nil))
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			last := make([]int, steady)
			for {
				select {
				case <-stop:
					return
				default:
				}
				for i := range steady {
					r := table.load(fmt.Sprint("steady-", i))
					if r == nil || r.value < last[i] {
						t.Errorf("steady record %d: %+v after %d", i, r, last[i])
						return
					}
					last[i] = r.value
				}
			}
		})
	}
	for w := range 2 {
		writers.Go(func() {
			for lap := range laps {
				for i := range passing {
					table.put(newRecord[int](fmt.Sprint(w, "-", i), nil))
				}
				for i := w; i < steady; i += 2 {
					r := newRecord[int](fmt.Sprint("steady-", i), nil)
					r.value = lap
					table.put(r)
				}
				for i := range passing {
					table.drop(fmt.Sprint(w, "-", i))
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	if n := table.len(); n != steady {
		t.Errorf("%d records left, want %d", n, steady)
	}
	for i := range table.shards {
		table.shards[i].check(t)
	}
}
