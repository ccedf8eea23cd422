package slidingttl_test

import (
	"context"
	"runtime"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

type big [1 << 16]byte

// cut returns a key that is a part of a long string, and a pointer to that.
func cut(name string) (key string, whole weak.Pointer[big]) {
	b := new(big)
	copy(b[:], name)
	return unsafe.String(&b[0], len(name)), weak.Make(b)
}

type bigKey struct{}

// readAndForget reads key, cut from a long string, with a context that has long values.
func readAndForget(t *testing.T, s *slidingttl.Store[int], name string) (held func() []string) {
	t.Helper()
	key, whole := cut(name)
	value := new(big)
	values := weak.Make(value)
	if _, err := s.Get(context.WithValue(t.Context(), bigKey{}, value), key); err != nil {
		t.Error(err)
	}
	return func() (held []string) {
		runtime.GC()
		runtime.GC()
		if whole.Value() != nil {
			held = append(held, "the string that "+name+" was cut from")
		}
		if values.Value() != nil {
			held = append(held, "its context's values")
		}
		return held
	}
}

// Promise 11: touches that wait or rest, and remembered records, keep nothing of their caller's but
// the key.
func TestWhatWaitsHoldsOnlyTheKey(t *testing.T) {
	for name, opts := range map[string]*slidingttl.Options[int]{
		"remembered": {},
		"waits":      {Touches: slidingttl.Background, Workers: 1},
		"rests":      {},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, session, opts)
				for _, key := range []string{"busy", "k"} {
					plant(under, key, 20*time.Minute)
				}
				fails := 0
				d.before = func(ctx context.Context, op, key string) error {
					switch {
					case op != "touch":
					case key == "busy":
						return sleep(ctx, time.Second)
					case name == "rests" && fails == 0:
						fails++
						return errDown
					}
					return nil
				}
				if name == "waits" {
					read(t, s, "busy")
					time.Sleep(time.Millisecond)
				}
				held := readAndForget(t, s, "k")
				time.Sleep(100 * time.Millisecond)
				if pending := s.Stats().Pending; name != "remembered" && pending != 1 {
					t.Errorf("%d wait, want the one", pending)
				}
				if h := held(); h != nil {
					t.Errorf("%q held", h)
				}
				time.Sleep(time.Minute)
				if e := stored(t, under, "k"); e.ExpiresAt.Sub(instant(time.Now())) < 25*time.Minute {
					t.Error("the touch was lost")
				}
			})
		})
	}
}

// Nor does a deletion whose key may be remembered again only later: in a transaction, or where reads may be stale.
func TestDeletionHoldsOnlyTheKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := open(t, fakestore.New[int](time.Millisecond), session, nil)
		key, whole := cut("k")
		must(t, s.Delete(driver.WithUndo(t.Context()), key))
		runtime.GC()
		runtime.GC()
		if whole.Value() != nil {
			t.Error("a long string is held")
		}
	})
}

// Nor do the hooks of touches keep the string that a key was cut from while they wait for one that hangs.
func TestWaitingHookHoldsNoLongString(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		release := make(chan bool)
		s := open(t, d, session, &slidingttl.Options[int]{
			Observer: &slidingttl.Observer{Touch: func(context.Context, slidingttl.TouchEvent) { <-release }},
		})
		failTouches(d, all)(true)
		plant(under, "k", 20*time.Minute)
		read(t, s, "k")
		key, whole := cut("k")
		if read(t, s, key); s.Stats().Shared != 1 { // the first touch rests
			t.Errorf("%+v", s.Stats())
		}
		d.before = func(context.Context, string, string) error { return errDown }
		kept, keptWhole := cut("k")
		must(t, s.Keep(t.Context(), kept))
		runtime.GC()
		runtime.GC()
		if whole.Value() != nil || keptWhole.Value() != nil {
			t.Error("a long string is held")
		}
		d.before = nil
		close(release)
	})
}
