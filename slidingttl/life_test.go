package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// Promise 9: a touch that fails says nothing of the record that took its record's place.
func TestFailureIsNotTheSuccessors(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		hang := true
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && hang {
				hang = false
				return hangs(ctx)
			}
			return nil
		}
		s := open(t, d, session, nil)
		plant(under, "k", 10*time.Minute)
		read(t, s, "k") // its touch hangs
		must(t, s.Delete(t.Context(), "k"))
		must(t, s.Upsert(t.Context(), "k", 2))
		time.Sleep(time.Second)
		read(t, s, "k") // due, and waits for the touch that hangs
		promised := instant(time.Now()).Add(session.IdleGrace)
		time.Sleep(time.Minute)
		if e := stored(t, under, "k"); e.ExpiresAt < promised {
			t.Errorf("dies %v before what was promised: %+v", promised.Sub(e.ExpiresAt), s.Stats())
		}
	})
}

// Promise 3: a record whose expiry passes while a touch reads it again may have been touched by
// another process, and is looked at once more.
func TestTouchReadsAgainNearDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		other := open(t, under, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return session }})
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return session }})
		plant(under, "k", 50*time.Millisecond)
		overwrite := once("touch", func() { // the first touch meets another value, and reads again
			e := stored(t, under, "k")
			under.Plant("k", 2, e.Life)
		})
		d.before = func(_ context.Context, op, _ string) error { overwrite(op); return nil }
		reads := 0
		d.after = func(op, _ string) {
			if op == "get" {
				if reads++; reads == 2 { // its answer takes until the record would be dead
					_, err := other.Get(t.Context(), "k")
					must(t, err)
					time.Sleep(60 * time.Millisecond)
				}
			}
		}
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("%v, of a record that was alive all along", err)
		}
	})
}

// A caller that has left starts no touches: they wait for their turn.
func TestCancelledBatchIsQueued(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var now, most atomic.Int32
		ctx, cancel := context.WithCancel(t.Context())
		d.before = func(ctx context.Context, op, _ string) error {
			if op != "touch" {
				return nil
			}
			cancel()
			n := now.Add(1)
			defer now.Add(-1)
			for most.Load() < n {
				most.Store(n)
			}
			return sleep(ctx, 20*time.Millisecond)
		}
		s := open(t, d, session, nil)
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
			plant(under, keys[i], 20*time.Minute)
		}
		_, _ = s.GetMulti(ctx, keys)
		time.Sleep(time.Minute)
		if n := most.Load(); n > 64+8 {
			t.Errorf("%d touches at once", n)
		}
		if st := s.Stats(); st.Touched != 2000 {
			t.Errorf("%+v", st)
		}
	})
}

// A process whose clock is behind, as the records show, lowers nothing.
func TestClockBehindLowersNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		late := open(t, d, session, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(-time.Hour) }})
		must(t, s.Check(t.Context()))
		for i := range 10 {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
		}
		before := stored(t, under, "1").ExpiresAt
		for i := range 10 {
			read(t, late, fmt.Sprint(i))
			must(t, late.Upsert(t.Context(), fmt.Sprint(i), -i))
		}
		if e := stored(t, under, "1"); e.ExpiresAt < before || late.Stats().Behind == 0 || late.Stats().Lowered > 0 {
			t.Errorf("lowered by %v: %+v", before.Sub(e.ExpiresAt), late.Stats())
		}
		if err := late.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("Check: %v", err)
		}
		time.Sleep(2 * time.Minute)
		must(t, late.Check(t.Context()))
		under.Plant("odd", 1, driver.Life{CreatedAt: instant(time.Now()).Add(2 * 365 * 24 * time.Hour), ExpiresAt: driver.MaxInstant})
		_, _ = s.Get(t.Context(), "odd")
		must(t, s.Check(t.Context()))
	})
}

// What is saved through a wrapped repository is new, and not adopted.
func TestSavedIsNotAdopted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		s := open(t, d, session, nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{}))
		if st := s.Stats(); st.Adopted != 0 || st.Touched != 1 {
			t.Errorf("%+v", st)
		}
		under.Plant(profileKey(2), profile{}, driver.Life{})
		_, err = w.Get(t.Context(), 2)
		must(t, err)
		if st := s.Stats(); st.Adopted != 1 {
			t.Errorf("%+v", st)
		}
	})
}

// The time left of a record that never expires is the longest there is.
func TestLeftOfARecordWithoutExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var left time.Duration
		s := open(t, d, session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{
			Touch: func(_ context.Context, e slidingttl.TouchEvent) { left = e.Left },
		}})
		under.Plant("k", 1, driver.Life{})
		read(t, s, "k")
		synctest.Wait()
		if left < 100*365*24*time.Hour {
			t.Errorf("%v left", left)
		}
	})
}

// A touch that finds its record gone makes the store forget it: an upsert then needs no second trip.
func TestLostTouchIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		plant(under, "a", time.Minute)
		gone := once("touch", func() { must(t, under.Delete(t.Context(), "a")) })
		d.before = func(_ context.Context, op, _ string) error { gone(op); return nil }
		_, err := s.Get(t.Context(), "a")
		wantErr(t, err, slidingttl.ErrNotFound)
		d.counts()
		must(t, s.Upsert(t.Context(), "a", 2))
		if trips := d.counts(); len(trips) != 1 || trips["insert"] != 1 {
			t.Errorf("the upsert took %v", trips)
		}
	})
}

// Promise 3: a touch that a store decides when the record has died, so long was it on its way, is counted as given up,
// and so is one that shares it.
func TestDeadBeforeItsTouchLandedIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		inner := d.Handle
		d.Handle = func(c *fakestore.Call[int]) {
			if c.Op == fakestore.Touch {
				time.Sleep(3 * time.Second)
				c.Now = max(c.Now, driver.Floor(time.Now())) // the store decides by its own time
			}
			inner(c)
		}
		told := 0
		s := open(t, d, session, &slidingttl.Options[int]{OnTouchError: func(context.Context, string, error) { told++ }})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace - time.Second)
		for range 2 {
			go func() { _, _ = s.Get(t.Context(), "k") }()
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n := s.Stats(); n.Shed == 0 || n.TouchLost > 0 || n.Broken == 0 || told == 0 {
			t.Errorf("OnTouchError was called %d times: %+v", told, n)
		}
	})
}

// In the background no caller waits for the touch, however short it is.
func TestDeadBeforeItsBackgroundTouchLandedIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace - 10*time.Millisecond)
		d.before = func(_ context.Context, op, _ string) error {
			if op != "touch" {
				return nil
			}
			time.Sleep(15 * time.Millisecond)
			return driver.ErrNotFound
		}
		read(t, s, "k")
		time.Sleep(time.Second)
		if n := s.Stats(); n.Shed != 1 || n.TouchLost > 0 {
			t.Errorf("%+v", n)
		}
	})
}

// A record that this store has ended, or that a Get was told is gone, broke no promise when its touch fails after what
// was its expiry.
func TestEndedBeforeItsTouchLandedIsNoFailure(t *testing.T) {
	for name, ends := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"delete": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Delete(ctx, "k") },
		"retire": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Retire(ctx, "k") },
		"delete and insert": func(ctx context.Context, s *slidingttl.Store[int]) error {
			_ = s.Delete(ctx, "k")
			return s.Insert(ctx, "k", 2)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				s := open(t, d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
				must(t, s.Insert(t.Context(), "k", 1))
				time.Sleep(58 * time.Second)
				slow := once("touch", func() { time.Sleep(4 * time.Second) })
				d.before = func(_ context.Context, op, _ string) error { slow(op); return nil }
				read(t, s, "k")
				must(t, ends(t.Context(), s))
				time.Sleep(10 * time.Second)
				if n := s.Stats(); n.TouchLost == 0 || n.Shed > 0 || n.Broken > 0 {
					t.Errorf("%+v", n)
				}
			})
		})
	}
	t.Run("Get says so", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			s := open(t, d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(time.Minute - 20*time.Millisecond)
			d.before = func(_ context.Context, op, _ string) error {
				if op != "touch" {
					return nil
				}
				time.Sleep(40 * time.Millisecond)
				return driver.ErrNotFound
			}
			_, err := s.Get(t.Context(), "k")
			wantErr(t, err, slidingttl.ErrNotFound)
			if n := s.Stats(); n.TouchLost == 0 || n.Shed > 0 || n.Broken > 0 {
				t.Errorf("%+v", n)
			}
		})
	})
}

// A Strict TouchEntry whose record was replaced returns the entry as it was read, though a Get that shares its touch is told.
func TestStrictTouchEntryOfTheReplaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		decidesLate(d, 60*time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Strict: true})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(session.IdleGrace - 50*time.Millisecond)
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(10 * time.Millisecond)
		go func() { _, _ = s.Get(context.Background(), "k") }()
		time.Sleep(10 * time.Millisecond)
		go func() {
			time.Sleep(5 * time.Millisecond)
			_, _ = s.Get(context.Background(), "k")
		}()
		time.AfterFunc(40*time.Millisecond, func() { must(t, s.Insert(context.Background(), "k", 2)) })
		if got, err := s.TouchEntry(t.Context(), "k", e); err != nil || got != e {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// So it is where the deletion ends before the read is answered, and where the touch fails and is tried again.
func TestDeletedBesideAReadIsNoFailure(t *testing.T) {
	for _, fails := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			s := open(t, d, session, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(session.IdleGrace - 2*time.Second)
			var refused atomic.Bool
			late, slow := once("get", func() { time.Sleep(time.Second) }), once("touch", func() { time.Sleep(4 * time.Second) })
			d.after = func(op, _ string) { late(op) }
			d.before = func(_ context.Context, op, _ string) error {
				if slow(op); op == "touch" && fails && refused.CompareAndSwap(false, true) {
					return errDown
				}
				return nil
			}
			go read(t, s, "k")
			time.Sleep(500 * time.Millisecond)
			if fails { // while the touch runs
				time.Sleep(time.Second)
			}
			must(t, s.Delete(t.Context(), "k"))
			time.Sleep(time.Minute)
			if n := s.Stats(); n.TouchLost == 0 || n.Shed > 0 || n.Broken > 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// decidesLate has d's touches take trip, and decide by the time at their end.
func decidesLate(d *remote[int], trip time.Duration) {
	inner := d.Handle
	d.Handle = func(c *fakestore.Call[int]) {
		if c.Op == fakestore.Touch {
			time.Sleep(trip)
			c.Now = max(c.Now, driver.Floor(time.Now()))
		}
		inner(c)
	}
}

// Promise 3: a caller that has the value was promised that it stays, however soon that caller went on: where the record died
// first, that is counted. A caller that waited and was told that it is gone was promised nothing.
func TestDeathIsCountedForThoseWhoHaveTheValue(t *testing.T) {
	get := func(_ *testing.T, s *slidingttl.Store[int]) error {
		_, err := s.Get(context.Background(), "k")
		return err
	}
	replaced := func(t *testing.T, s *slidingttl.Store[int]) error {
		time.AfterFunc(50*time.Millisecond, func() { must(t, s.Insert(context.Background(), "k", 2)) })
		return get(t, s)
	}
	for name, c := range map[string]struct {
		options slidingttl.Options[int]
		before  func(t *testing.T, s *slidingttl.Store[int], d *remote[int]) // the access
		access  func(t *testing.T, s *slidingttl.Store[int]) error
		err     error
	}{
		"its context ends": {access: func(_ *testing.T, s *slidingttl.Store[int]) error {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			_, err := s.Get(ctx, "k")
			return err
		}},
		"over the budget": {
			options: slidingttl.Options[int]{Budget: 1},
			before: func(t *testing.T, s *slidingttl.Store[int], _ *remote[int]) {
				must(t, s.Insert(t.Context(), "other", 1))
				time.Sleep(900 * time.Millisecond)
				read(t, s, "other") // takes the token
			},
			access: get,
		},
		"late touches": {
			before: func(t *testing.T, s *slidingttl.Store[int], d *remote[int]) {
				var others []string
				for i := range 6 {
					others = append(others, fmt.Sprint(i))
					must(t, s.Insert(t.Context(), others[i], i))
				}
				time.Sleep(time.Millisecond)
				d.before = func(_ context.Context, op, key string) error {
					if op == "touch" && key != "k" {
						time.Sleep(time.Second)
					}
					return nil
				}
				for _, key := range others {
					go func() { _, _ = s.Get(context.Background(), key) }()
				}
				time.Sleep(200 * time.Millisecond)
				if n := s.Stats(); !n.Late {
					t.Fatalf("%+v", n)
				}
			},
			access: get,
		},
		"replaced":         {access: replaced},
		"replaced, Strict": {options: slidingttl.Options[int]{Strict: true}, access: replaced, err: slidingttl.ErrShed},
		"deleted once dead": {access: func(t *testing.T, s *slidingttl.Store[int]) error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
			defer cancel()
			_, err := s.Get(ctx, "k")
			time.Sleep(49 * time.Millisecond)
			must(t, s.Delete(context.Background(), "k"))
			return err
		}},
		"a deletion was not sent": {
			before: func(_ *testing.T, _ *slidingttl.Store[int], d *remote[int]) {
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "delete" {
						return hangs(ctx)
					}
					return nil
				}
			},
			access: func(t *testing.T, s *slidingttl.Store[int]) error {
				ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				_, err := s.Get(ctx, "k")
				time.Sleep(time.Millisecond)
				ctx, cancel = context.WithTimeout(context.Background(), time.Millisecond)
				defer cancel()
				wantErr(t, s.Delete(ctx, "k"), context.DeadlineExceeded)
				return err
			}},
		"Get is told": {access: get, err: slidingttl.ErrNotFound},
		"Touch is told": {
			access: func(_ *testing.T, s *slidingttl.Store[int]) error {
				_, err := s.Touch(context.Background(), "k")
				return err
			},
			err: slidingttl.ErrNotFound,
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				decidesLate(d, 60*time.Millisecond)
				told := 0
				c.options.OnTouchError = func(context.Context, string, error) { told++ }
				s := open(t, d, session, &c.options)
				must(t, s.Insert(t.Context(), "k", 1))
				dies := time.Now().Add(session.IdleGrace)
				time.Sleep(session.IdleGrace - time.Second - 200*time.Millisecond)
				if c.before != nil {
					c.before(t, s, d)
				}
				time.Sleep(time.Until(dies) - 40*time.Millisecond)
				was := s.Stats()
				if err := c.access(t, s); !errors.Is(err, c.err) {
					t.Fatalf("the access: %v, want %v", err, c.err)
				}
				time.Sleep(5 * time.Second)
				n := s.Stats()
				counted := n.Shed-was.Shed > 0 && n.Broken > was.Broken && told > 0
				if isTold := errors.Is(c.err, slidingttl.ErrNotFound); counted == isTold || isTold && (n.TouchLost == was.TouchLost || n.Broken > was.Broken || told > 0) {
					t.Errorf("OnTouchError was called %d times: %+v", told, n)
				}
			})
		})
	}
}

// Promise 3: a touch that waited for another one, which hung until the record had died, is counted as given up.
func TestDeadBehindAHungTouchIsCounted(t *testing.T) {
	for _, inOneTrip := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			if inOneTrip {
				d = pairing(d)
			}
			told := 0
			s := open[int](t, d, session, &slidingttl.Options[int]{OnTouchError: func(context.Context, string, error) { told++ }})
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(session.IdleGrace - 3*time.Second)
			d.before = func(ctx context.Context, op, _ string) error {
				if op == "read touch" || op == "touch" && !inOneTrip {
					return hangs(ctx)
				}
				return nil
			}
			for range 2 {
				go func() { _, _ = s.Get(t.Context(), "k") }()
				time.Sleep(10 * time.Millisecond)
			}
			time.Sleep(time.Minute)
			if n := s.Stats(); n.TouchFails+n.Shed == 0 || n.Broken == 0 || told == 0 {
				t.Errorf("in one trip %v: OnTouchError was called %d times: %+v", inOneTrip, told, n)
			}
		})
	}
}
