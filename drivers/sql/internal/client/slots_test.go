package client

import (
	"runtime"
	"testing"
	"time"
	"weak"
)

// All drivers over a pool share its slots, which are forgotten with it.
func TestSlots(t *testing.T) {
	type pool struct{ conns []byte }
	one, other := &pool{make([]byte, 1)}, &pool{make([]byte, 1)}
	if SlotsOf(one, 8) != SlotsOf(one, 8) || SlotsOf(one, 8) == SlotsOf(other, 8) {
		t.Error("slots are not the pool's")
	}
	for conns, want := range map[int]int64{0: unlimited, 1: 1, 8: 6} {
		if s := SlotsOf(&pool{}, conns); !s.TryAcquire(want) || s.TryAcquire(1) {
			t.Errorf("%d connections have not %d slots", conns, want)
		}
	}
	gone := weak.Make(one)
	runtime.KeepAlive(one)
	for hung := time.Now().Add(20 * time.Second); ; runtime.Gosched() {
		runtime.GC()
		if _, known := slots.Load(gone); !known {
			break
		} else if time.Now().After(hung) {
			t.Fatal("the slots of a pool that is gone are kept")
		}
	}
	if _, known := slots.Load(weak.Make(other)); !known {
		t.Error("the slots of a pool in use are forgotten")
	}
}
