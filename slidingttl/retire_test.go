package slidingttl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// Promise 14: a retired record is dead at once, and stays what it was.
func TestRetire(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		t.Run(step.String(), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](step)
				s := open(t, d, withSlack(session, time.Minute), nil)
				wantErr(t, s.Retire(t.Context(), "k"), slidingttl.ErrNotFound)
				must(t, s.Insert(t.Context(), "k", 7))
				was := stored(t, under, "k")
				time.Sleep(10*time.Minute + 300*time.Millisecond)
				must(t, s.Retire(t.Context(), "k"))
				ended := instant(time.Now())
				e := stored(t, under, "k")
				past := ended.Add(-time.Minute) // MaxSkew, so that it is dead by any clock
				if e.Value != 7 || e.CreatedAt != was.CreatedAt || e.ExpiresAt > past || e.ExpiresAt <= past.Add(-step) {
					t.Errorf("stored %+v, %v after its end", e, ended.Sub(e.ExpiresAt))
				}
				_, err := s.Get(t.Context(), "k")
				wantErr(t, err, slidingttl.ErrNotFound)
				wantErr(t, s.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
				wantErr(t, s.Retire(t.Context(), "k"), slidingttl.ErrNotFound)
				history, err := s.History(t.Context(), "k")
				must(t, err)
				if history.Value != 7 || history.DiedAt != e.ExpiresAt || history.Cause != slidingttl.ReadDiedIdle {
					t.Errorf("its history is %+v", history)
				}
				must(t, s.Insert(t.Context(), "k", 8))
				if e := stored(t, under, "k"); e.CreatedAt != ended {
					t.Errorf("its successor is %v old", ended.Sub(e.CreatedAt))
				}
			})
		})
	}
}

// Retire ends what is stored, and a touch that is under way does not bring it back.
func TestRetireIsACompareAndSwap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, session, nil), open(t, under, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		overwrite := once("touch", func() { must(t, other.Upsert(t.Context(), "k", 2)) })
		d.before = func(_ context.Context, op, _ string) error { overwrite(op); return nil }
		must(t, s.Retire(t.Context(), "k"))
		if e := stored(t, under, "k"); e.Value != 2 || e.Alive(instant(time.Now())) || d.count("touch") != 2 {
			t.Errorf("stored %+v after %d attempts", e, d.count("touch"))
		}
		must(t, s.Insert(t.Context(), "k", 3))
		time.Sleep(time.Minute)
		retire := once("touch", func() { must(t, other.Retire(t.Context(), "k")) })
		d.before = func(_ context.Context, op, _ string) error { retire(op); return nil }
		_, err := s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		if e := stored(t, under, "k"); e.Alive(instant(time.Now())) {
			t.Error("a touch brought it back")
		}
	})
}

func TestRetireForeign(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		under.Plant("k", 1, driver.Life{})
		wantErr(t, open(t, d, session, &slidingttl.Options[int]{Foreign: slidingttl.ReadOnly}).Retire(t.Context(), "k"), slidingttl.ErrForeign)
		must(t, open(t, d, session, nil).Retire(t.Context(), "k"))
		if e := stored(t, under, "k"); e.Alive(instant(time.Now())) {
			t.Errorf("stored %+v", e)
		}
	})
}

// Promise 14: no process whose clock is behind by less than MaxSkew brings a retired record back, and
// none that is created at once after it is hindered by that. A death is not dated before its birth.
func TestRetireForClocksBehind(t *testing.T) {
	for _, step := range []time.Duration{time.Millisecond, time.Second} {
		for _, behind := range []time.Duration{2 * time.Millisecond, 500 * time.Millisecond, 59 * time.Second} {
			t.Run(fmt.Sprint(step, behind), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					time.Sleep(700 * time.Millisecond)
					d, under := newRemote[int](step)
					s := open(t, d, session, nil)
					late := open(t, d, session, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-behind) }})
					must(t, s.Insert(t.Context(), "k", 1))
					e := stored(t, under, "k")
					must(t, s.Retire(t.Context(), "k"))
					_, err := late.Get(t.Context(), "k")
					wantErr(t, err, slidingttl.ErrNotFound)
					wantErr(t, late.Keep(t.Context(), "k"), slidingttl.ErrNotFound)
					_, err = s.Get(t.Context(), "k")
					wantErr(t, err, slidingttl.ErrNotFound)
					past, err := s.History(t.Context(), "k")
					must(t, err)
					if past.DiedAt != e.CreatedAt {
						t.Errorf("born at %v, died at %v", e.CreatedAt, past.DiedAt)
					}
					must(t, late.Insert(t.Context(), "k", 2))
				})
			})
		}
	}
}

// Retire ends a life that is past this policy's cap and alive by another's.
func TestRetireWhateverThePolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		tight := open(t, d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 2 * time.Minute}, nil)
		loose := open(t, under, session, nil)
		must(t, loose.Insert(t.Context(), "k", 1))
		time.Sleep(3 * time.Minute)
		must(t, tight.Retire(t.Context(), "k"))
		_, err := loose.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		wantErr(t, tight.Retire(t.Context(), "k"), slidingttl.ErrNotFound)
	})
}

// Retire and Upsert of a record that others touch all the time do not end with a conflict.
func TestWritesBesideTouches(t *testing.T) {
	for name, write := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"retire": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Retire(ctx, "k") },
		"upsert": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Upsert(ctx, "k", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				inner := d.Handle
				d.Handle = func(c *fakestore.Call[int]) {
					time.Sleep(time.Duration(500+rand.IntN(1000)) * time.Microsecond)
					inner(c)
					time.Sleep(time.Duration(500+rand.IntN(1000)) * time.Microsecond)
				}
				var stores []*slidingttl.Store[int]
				for range 16 {
					stores = append(stores, open(t, d, session, nil))
				}
				for range 10 {
					must(t, stores[0].Upsert(t.Context(), "k", 1))
					ctx, stop := context.WithCancel(t.Context())
					var readers sync.WaitGroup
					for _, s := range stores {
						for range 2 {
							readers.Go(func() {
								for err := error(nil); err == nil; _, err = s.Get(ctx, "k") {
								}
							})
						}
					}
					time.Sleep(100 * time.Millisecond)
					must(t, write(t.Context(), stores[0]))
					stop()
					readers.Wait()
				}
			})
		})
	}
}

// A conflict that finds what is known is no touch: an Upsert that always meets it ends.
func TestUpsertEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		inner, n := d.Handle, 0
		d.Handle = func(c *fakestore.Call[int]) {
			switch {
			case c.Op != fakestore.Replace:
				inner(c)
			case n > 100: // so that the test ends
				c.Err = errDown
			default:
				n++
				c.Err = &driver.ConflictError{Found: stored(t, under, "k").Meta}
			}
		}
		if wantErr(t, s.Upsert(t.Context(), "k", 2), driver.ErrConflict); n > 100 {
			t.Errorf("%d replaces", n)
		}
	})
}
