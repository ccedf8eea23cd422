package client

import (
	"context"
	"runtime"
	"testing"
	"time"
	"weak"
)

// All drivers over a pool share its slots, which are forgotten with it.
func TestSlots(t *testing.T) {
	type pool struct{ conns []byte }
	one, other := &pool{make([]byte, 1)}, &pool{make([]byte, 1)}
	if shared := SlotsOf(one, 8).shared; SlotsOf(one, 8).shared != shared || SlotsOf(other, 8).shared == shared {
		t.Error("slots are not the pool's")
	}
	for conns, want := range map[int]int64{0: unlimited, 1: 1, 8: 6} {
		if s := SlotsOf(&pool{}, conns).shared; !s.TryAcquire(want) || s.TryAcquire(1) {
			t.Errorf("%d connections have not %d slots", conns, want)
		}
	}
	for conns, want := range map[int]int{0: 28, 2: 1, 8: 5, 20: 14} { // what one driver can take
		p := &pool{}
		s, n := SlotsOf(p, conns), 0
		for s.TryAcquire() {
			n++
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Acquire(ended); n != want || err == nil {
			t.Errorf("%d connections: one driver takes %d slots, and then %v; want %d", conns, n, err, want)
		}
		next := SlotsOf(p, conns)
		if ok := next.TryAcquire(); ok != (conns != 2) {
			t.Errorf("%d connections: another driver has a slot: %v", conns, ok)
		}
		s.Release()
		if err := s.Acquire(t.Context()); err != nil || s.TryAcquire() {
			t.Errorf("%d connections: a slot that was released: %v", conns, err)
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
