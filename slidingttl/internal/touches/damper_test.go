package touches

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// However many keys have come down, the next costs as little as the first, and no more memory.
func TestDamperIsBounded(t *testing.T) {
	d := newDamper(maphash.MakeSeed(), 0)
	before := heapInUse()
	began := time.Now()
	for i := range 200_000 {
		key := fmt.Sprint(i)
		if d.claim(key, 1, 1000, true) == 0 || d.claim(key, 1, 1000, false) == 0 {
			t.Fatalf("key %d may not come down", i)
		}
		d.end(key, 1, 1, 0)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("200,000 keys took %v", took)
	}
	const table = 2 * leastLowered * 32
	if grown := heapInUse() - before; grown > 2*table {
		t.Errorf("they take %d bytes, of a table of %d", grown, table)
	}
	runtime.KeepAlive(d)
}

// heapInUse is how many bytes are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestDamper(t *testing.T) {
	d := newDamper(maphash.MakeSeed(), 0)
	want := func(what string, now, window driver.Instant, ask, want bool) {
		t.Helper()
		if got := d.claim("k", now, window, ask) != 0; got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	end := func(claimed, end driver.Instant) { d.end("k", claimed, end, 0) }
	want("asked first", 100, 50, true, true)
	want("first", 100, 50, false, true)
	want("while its write runs", 40_000, 50, false, false)
	want("while its write runs, hours later", 10_000_000, 50, true, false)
	end(100, 110)
	want("within the window from its end", 159, 50, false, false)
	want("asked within it", 159, 50, true, false)
	want("asked after it", 160, 50, true, true)
	want("after it", 160, 50, false, true)
	end(160, 0)
	want("after its release, by a longer window that the first still fills", 161, 60, true, false)
	want("after its release", 161, 50, true, true)
	want("again", 161, 50, false, true)
	end(161, 300)
	want("after the clock was set back", 300-60_001, 50, true, true)
	if d.ended("k", 0) != nil || d.many.Load() != 0 {
		t.Error("a write is under way when all have ended")
	}
}

// Whatever keys come down in the same set next, what was read beside the lowering is known to be old.
func TestDamperRemembersBesideOthers(t *testing.T) {
	seed := maphash.MakeSeed()
	d := newDamper(seed, 0)
	set, _ := d.set("k")
	var others []string
	for i := 0; len(others) < damperSet; i++ {
		if s, _ := d.set(fmt.Sprint(i)); &s[0] == &set[0] {
			others = append(others, fmt.Sprint(i))
		}
	}
	for _, held := range []bool{false, true} { // by the others' claims as k's ends
		d = newDamper(seed, 0)
		claim, claims := d.claim("k", 1, 1, false), make([]driver.Instant, len(others))
		take := func(at driver.Instant) {
			for i, other := range others {
				claims[i] = d.claim(other, at, 1, false)
			}
		}
		if held {
			take(2)
		}
		d.end("k", claim, 3, 7)
		if !held {
			take(4)
		}
		for i, other := range others {
			d.end(other, claims[i], 5, 6) // which had the clock before k's end did
		}
		if d.ended("k", 6) == nil || d.ended("k", 7) != nil {
			t.Errorf("held %v: k's lowering is not known, or is for ever", held)
		}
	}
}

// Of as many keys as it is for, nearly all are remembered, however often the others come down.
func TestDamperRemembersMostKeys(t *testing.T) {
	for _, keys := range []int{0, 1 << 17} {
		d := newDamper(maphash.MakeSeed(), keys)
		many, forgotten := max(leastLowered, keys), 0
		for range 3 {
			forgotten = 0
			for i := range many {
				key := fmt.Sprint(i)
				if claim := d.claim(key, 1, 1000, false); claim != 0 {
					d.end(key, claim, 1, 0)
					forgotten++
				}
			}
		}
		if forgotten > many/50 {
			t.Errorf("%d of %d keys are forgotten", forgotten, many)
		}
	}
}
