package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// queueing is a store whose touches all wait, until release is called, behind one that runs.
func queueing(t *testing.T, o slidingttl.Options[int]) (s *slidingttl.Store[int], d *remote[int], under *hoard[int], release func()) {
	t.Helper()
	d, under = newRemote[int](time.Millisecond)
	held := make(chan struct{})
	d.before = func(ctx context.Context, op, key string) error {
		if op == "touch" && key == "busy" {
			select {
			case <-held:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	}
	o.Touches, o.Workers, o.TouchTimeout = slidingttl.Background, 1, time.Minute
	s = open(t, d, session, &o)
	plant(under, "busy", time.Minute)
	read(t, s, "busy")
	synctest.Wait()
	return s, d, under, func() { close(held) }
}

// A waiting touch whose record another process has touched meanwhile, as a later access sees, waits
// for its new turn, and is the first to be shed if it is then farthest from death.
func TestMergedTouchTakesItsNewTurn(t *testing.T) {
	lasts := func(t *testing.T, under *hoard[int], key string, left time.Duration) {
		e := stored(t, under, key)
		e.Life.ExpiresAt = instant(time.Now()).Add(left)
		under.Plant(key, e.Value, e.Life)
	}
	bubble(t, func(t *testing.T) {
		s, d, under, release := queueing(t, slidingttl.Options[int]{})
		for i, left := range []time.Duration{10, 12, 14, 16, 18} {
			plant(under, fmt.Sprint(i), left*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		lasts(t, under, "0", 17*time.Minute)
		read(t, s, "0")
		lasts(t, under, "4", 11*time.Minute)
		read(t, s, "4")
		release()
		time.Sleep(time.Second)
		if got, want := d.touched(), []string{"busy", "4", "1", "2", "3", "0"}; !slices.Equal(got, want) {
			t.Errorf("touched %v, want %v", got, want)
		}
	})
	bubble(t, func(t *testing.T) {
		var shed []string
		s, d, under, release := queueing(t, slidingttl.Options[int]{Queue: 3, Budget: 1000, OnTouchError: func(_ context.Context, key string, _ error) {
			shed = append(shed, key)
		}})
		for i, left := range []time.Duration{10, 12, 14} {
			plant(under, fmt.Sprint(i), left*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		lasts(t, under, "0", 17*time.Minute)
		read(t, s, "0")
		plant(under, "3", 13*time.Minute)
		read(t, s, "3")
		synctest.Wait()
		if !slices.Equal(shed, []string{"0"}) {
			t.Errorf("shed %v, want the one that now is farthest from death", shed)
		}
		release()
		time.Sleep(time.Second)
		if got, want := d.touched(), []string{"busy", "1", "3", "2"}; !slices.Equal(got, want) {
			t.Errorf("touched %v, want %v", got, want)
		}
	})
}

// Failures say nothing of a store that has taken a touch since these were sent.
func TestFailuresBeforeALandingAreNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var works atomic.Bool
		d.before = func(ctx context.Context, op, key string) error {
			if op != "touch" || key == "good" || works.Load() {
				return nil
			}
			_ = sleep(ctx, 50*time.Millisecond)
			return errDown
		}
		s := open(t, d, session, nil)
		for i := range 8 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			go func() { _, _ = s.Get(t.Context(), fmt.Sprint(i)) }()
		}
		time.Sleep(10 * time.Millisecond)
		plant(under, "good", 20*time.Minute)
		read(t, s, "good")
		time.Sleep(100 * time.Millisecond)
		if st := s.Stats(); st.BreakerOpen || st.TouchFails != 8 {
			t.Errorf("the breaker is open (%v) after %d failures of touches sent before one landed", st.BreakerOpen, st.TouchFails)
		}
		works.Store(true)
		time.Sleep(time.Minute)
	})
}

// A store that recovers from an outage is in time again with the first touch that lands.
func TestLateEndsWithTheOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var works atomic.Bool
		var landed atomic.Int32
		d.before = func(ctx context.Context, op, _ string) error {
			switch {
			case op != "touch":
				return nil
			case !works.Load():
				return sleep(ctx, time.Hour)
			case landed.Add(1) > 1:
				return sleep(ctx, 90*time.Millisecond)
			}
			return nil
		}
		s := open(t, d, session, nil)
		for i := range 8 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(10 * time.Second)
		if st := s.Stats(); !st.BreakerOpen || !st.Late {
			t.Fatalf("touches that hang leave %+v", st)
		}
		works.Store(true)
		for landed.Load() == 0 {
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(5 * time.Millisecond)
		if st := s.Stats(); st.BreakerOpen || st.Late {
			t.Errorf("open %v, late %v after a touch that landed in time", st.BreakerOpen, st.Late)
		}
		time.Sleep(time.Minute)
	})
}

// A touch that failed is tried again before its record dies, however soon that is.
func TestRestEndsBeforeTheRecordDies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for i, left := range []time.Duration{200 * time.Millisecond, 500 * time.Millisecond, 900 * time.Millisecond} {
			d, under := newRemote[int](time.Millisecond)
			d.trip = time.Millisecond
			failed := false
			d.before = func(_ context.Context, op, _ string) error {
				if op == "touch" && !failed {
					failed = true
					return errDown
				}
				return nil
			}
			s := open(t, d, session, nil)
			plant(under, "k", left)
			read(t, s, "k")
			time.Sleep(time.Second)
			if e := stored(t, under, "k"); !e.Alive(instant(time.Now())) {
				t.Errorf("%d: a record with %v left died after one failure: %+v", i, left, s.Stats())
			}
		}
	})
}

// A touch of a record without created_at touches no record but the one that was read, whichever accesses share it.
func TestTouchesOfSuccessors(t *testing.T) {
	for name, calls := range map[string][]string{
		"TouchEntry twice":    {"entry", "entry"},
		"TouchEntry, and Get": {"entry", "get"},
		"Get, and TouchEntry": {"get", "entry"},
		"Get twice":           {"get", "get"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, session, nil)
				var trips atomic.Int32
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" && trips.Add(1) == 1 {
						return sleep(ctx, 50*time.Millisecond)
					}
					return nil
				}
				touchEntry := func() {
					e, err := s.Peek(t.Context(), "k")
					if err == nil {
						_, err = s.TouchEntry(t.Context(), "k", e)
					}
					if err != nil {
						t.Error(err)
					}
				}
				under.Plant("k", 1, driver.Life{})
				go touchEntry()
				time.Sleep(10 * time.Millisecond)
				under.Plant("k", 2, driver.Life{})
				for _, call := range calls {
					if call == "get" {
						go func() { _, _ = s.Get(t.Context(), "k") }()
					} else {
						go touchEntry()
					}
					time.Sleep(time.Millisecond)
				}
				under.Plant("k", 3, driver.Life{})
				time.Sleep(time.Second)
				if e := stored(t, under, "k"); e.CreatedAt != 0 {
					t.Errorf("the successor has created_at %v, though nobody has read it", e.CreatedAt)
				}
			})
		})
	}
}

// Promise 9: an outcome serves all accesses that waited for it, a failure too.
func TestFailureServesThoseThatWait(t *testing.T) {
	for name, fails := range map[string]error{"failed": errDown, "gone": driver.ErrNotFound} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" {
						_ = sleep(ctx, 50*time.Millisecond)
						return fails
					}
					return nil
				}
				s := open(t, d, session, &slidingttl.Options[int]{Strict: true})
				plant(under, "k", 20*time.Minute)
				for range 3 {
					go func() {
						if _, err := s.Get(t.Context(), "k"); err == nil {
							t.Error("Get succeeds")
						}
					}()
				}
				time.Sleep(time.Minute)
				if st := s.Stats(); d.count("touch") != 1 || st.Shared != 2 {
					t.Errorf("%d touches, %+v", d.count("touch"), st)
				}
			})
		})
	}
}

// What Close gives up is counted as failed.
func TestGivenUpIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s, err := slidingttl.New[int](d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 1})
		must(t, err)
		for i := range 5 {
			plant(under, fmt.Sprint(i), 20*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		drain, ok := errors.AsType[*slidingttl.DrainError](s.Close(ctx))
		synctest.Wait()
		if st := s.Stats(); !ok || drain.Abandoned != 5 || st.TouchFails != 5 || st.Touched != 0 || st.Broken != 5*10*time.Minute {
			t.Errorf("%v, %+v", drain, st)
		}
	})
}

// The touches that wait for one key have a bound, though each access finds another record.
func TestPendingOfOneKey(t *testing.T) {
	for name, created := range map[string]bool{"lives": true, "records without created_at": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				first := true
				d.before = func(ctx context.Context, op, _ string) error {
					if op == "touch" && first {
						first = false
						return sleep(ctx, 4*time.Second)
					}
					return nil
				}
				s := open(t, d, session, nil)
				for range 1000 {
					now := instant(time.Now())
					l := driver.Life{ExpiresAt: now.Add(10 * time.Minute)}
					if created {
						l.CreatedAt = now
					}
					under.Plant("k", 1, l)
					read(t, s, "k")
					time.Sleep(time.Millisecond)
				}
				at := instant(time.Now()).Add(-time.Millisecond)
				if n := s.Stats().Pending; n > 8 {
					t.Errorf("%d touches of one key wait", n)
				}
				synctest.Wait()
				time.Sleep(10 * time.Second)
				if e := stored(t, under, "k"); e.ExpiresAt < at.Add(session.IdleGrace) {
					t.Errorf("the last record dies %v before its promise", at.Add(session.IdleGrace).Sub(e.ExpiresAt))
				}
				accounted(t, s.Stats())
			})
		})
	}
}

// Nothing waits for a worker any more once Close has given up.
func TestSaturatedEndsWithClose(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, _, under, release := queueing(t, slidingttl.Options[int]{})
		plant(under, "k", time.Minute)
		read(t, s, "k")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s.Close(ctx) == nil {
			t.Error("Close gives up nothing")
		}
		was := s.Stats().Saturated
		time.Sleep(time.Hour)
		if st := s.Stats(); st.Saturated != was || was == 0 {
			t.Errorf("saturated for %v at the end of Close, %v an hour later", was, st.Saturated)
		}
		release()
	})
}
