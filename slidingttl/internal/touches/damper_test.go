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
	d := damper{seed: maphash.MakeSeed()}
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
	const table = damperBlocks * damperBlock * 32
	if grown := heapInUse() - before; grown > 2*table {
		t.Errorf("they take %d bytes, of a table of %d", grown, table)
	}
	runtime.KeepAlive(&d)
}

// heapInUse is how many bytes are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestDamper(t *testing.T) {
	d := damper{seed: maphash.MakeSeed()}
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

// Whatever key comes down in the same slot next, what was read beside the lowering is known to be old.
func TestDamperRemembersBesideOthers(t *testing.T) {
	d := damper{seed: maphash.MakeSeed()}
	k, _ := d.slot("k")
	other := ""
	for i := 0; other == ""; i++ {
		if l, _ := d.slot(fmt.Sprint(i)); l == k {
			other = fmt.Sprint(i)
		}
	}
	for _, held := range []bool{false, true} { // by other's claim as k's ends
		d = damper{seed: d.seed}
		claim, others := d.claim("k", 1, 1, false), driver.Instant(0)
		if held {
			others = d.claim(other, 2, 1, false)
		}
		d.end("k", claim, 3, 7)
		if !held {
			others = d.claim(other, 4, 1, false)
		}
		d.end(other, others, 5, 6) // which had the clock before k's end did
		if d.ended("k", 6) == nil || d.ended("k", 7) != nil {
			t.Errorf("held %v: k's lowering is not known, or is for ever", held)
		}
	}
}
