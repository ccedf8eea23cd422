package slidingttl_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// tenSeconds is an idle grace that tests wait for.
var tenSeconds = slidingttl.Policy{IdleGrace: 10 * time.Second, MaxLifetime: time.Hour}

// getBriefly gets "k", whose touch goes on.
func getBriefly(t *testing.T, s *slidingttl.Store[int]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err := s.Get(ctx, "k")
	must(t, err)
}

// wantBroken checks that promised life was counted as broken, or none was.
func wantBroken[T any](t *testing.T, s *slidingttl.Store[T], broken bool) {
	t.Helper()
	if n := s.Stats(); (n.Broken > 0) != broken || (n.Shed > 0) != broken {
		t.Errorf("want broken promises counted: %t; %+v", broken, n)
	}
}

// A save finds that the record has died of idleness, which excuses nobody.
func TestSaveExcusesNoDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Millisecond)
		d.trip = 10 * time.Millisecond
		s := open(t, d, tenSeconds, nil)
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		dies := stored(t, under, profileKey(1)).ExpiresAt.Time()
		inner, slow := d.Handle, true
		d.Handle = func(c *fakestore.Call[profile]) {
			if c.Op == fakestore.Touch && slow {
				slow = false
				time.Sleep(60 * time.Millisecond)
				c.Now = max(c.Now, driver.Floor(time.Now()))
			}
			inner(c)
		}
		time.Sleep(time.Until(dies) - 50*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		_, err = w.Get(ctx, 1)
		must(t, err)
		time.Sleep(time.Until(dies) - 5*time.Millisecond)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		time.Sleep(time.Minute)
		wantBroken(t, s, true)
	})
}

// A touch that failed while its record was perhaps deleted leaves its reader to the next one, which finds the record dead.
func TestLostDeletionExcusesNoDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		inner, first := d.Handle, true
		d.Handle = func(c *fakestore.Call[int]) {
			switch {
			case c.Op == fakestore.Touch && first:
				first = false
				time.Sleep(30 * time.Millisecond)
				c.Err = errDown
				return
			case c.Op == fakestore.Touch:
				time.Sleep(60 * time.Millisecond)
				c.Now = max(c.Now, driver.Floor(time.Now()))
			case c.Op == fakestore.Delete:
				c.Err = driver.ErrAmbiguous
				return
			}
			inner(c)
		}
		s := open(t, d, tenSeconds, nil)
		dies := time.Now().Add(5 * time.Second)
		under.Plant("k", 1, driver.Life{ExpiresAt: driver.Floor(dies)})
		time.Sleep(time.Until(dies) - 60*time.Millisecond)
		go func() { _, _ = s.Get(context.Background(), "k") }()
		time.Sleep(10 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		wantErr(t, s.Delete(ctx, "k"), driver.ErrAmbiguous)
		time.Sleep(5 * time.Millisecond)
		go func() { _, _ = s.Get(context.Background(), "k") }()
		time.Sleep(time.Minute)
		wantBroken(t, s, true)
	})
}

// Of records without created_at, a deletion excuses the death of the one that it deleted.
func TestDeletionExcusesOneForeignDeath(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		decidesLate(d, 500*time.Millisecond)
		s := open(t, d, tenSeconds, nil)
		dies := time.Now().Add(5 * time.Second)
		under.Plant("k", 1, driver.Life{ExpiresAt: driver.Floor(dies)})
		time.Sleep(time.Until(dies) - 200*time.Millisecond)
		getBriefly(t, s)
		time.Sleep(210 * time.Millisecond)
		under.Plant("k", 2, driver.Life{ExpiresAt: driver.Floor(dies.Add(5 * time.Second))})
		_, err := s.Peek(t.Context(), "k")
		must(t, err)
		must(t, s.Delete(t.Context(), "k"))
		time.Sleep(time.Minute)
		wantBroken(t, s, true)
	})
}

// A record that was born after another's expiry is not that one, adopted: it is not touched.
func TestSuccessorIsNotAdopted(t *testing.T) {
	for _, promote := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			d, under := newRemote[int](time.Millisecond)
			decidesLate(d, 60*time.Millisecond)
			p := tenSeconds
			p.Promote = promote
			s := open(t, d, p, nil)
			dies := time.Now().Add(5 * time.Second)
			under.Plant("k", 1, driver.Life{ExpiresAt: driver.Floor(dies)})
			time.Sleep(time.Until(dies) - 40*time.Millisecond)
			time.AfterFunc(50*time.Millisecond, func() { must(t, s.Insert(context.Background(), "k", 2)) })
			_, err := s.Get(t.Context(), "k")
			must(t, err)
			time.Sleep(time.Second)
			if e := stored(t, under, "k"); e.Value != 2 || e.ExpiresAt != e.CreatedAt.Add(p.IdleGrace) {
				t.Errorf("nobody has read the new record, and it lives for %v", e.ExpiresAt.Sub(e.CreatedAt))
			}
			if n := s.Stats(); n.Shed == 0 {
				t.Errorf("the death of the first is not counted: %+v", n)
			}
		})
	}
}

// A Touch that finds the next record, and touches it, has told its caller all.
func TestTouchOfTheNextBreaksNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, tenSeconds, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(tenSeconds.IdleGrace - 40*time.Millisecond)
		decidesLate(d, 60*time.Millisecond)
		time.AfterFunc(50*time.Millisecond, func() { must(t, s.Insert(context.Background(), "k", 2)) })
		_, err := s.Touch(t.Context(), "k")
		must(t, err)
		time.Sleep(time.Minute)
		wantBroken(t, s, false)
	})
}

// What this store has deleted alive has lost no promised life, though its touch fails until long after its expiry.
func TestDeletedInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, tenSeconds, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(tenSeconds.IdleGrace - time.Second)
		begins := time.Now().Add(20 * time.Millisecond)
		inner := d.Handle
		d.Handle = func(c *fakestore.Call[int]) {
			if c.Op == fakestore.Touch {
				time.Sleep(40 * time.Millisecond)
			}
			if time.Now().After(begins) && time.Since(begins) < time.Minute {
				c.Err = errDown
				return
			}
			inner(c)
		}
		go func() { _, _ = s.Get(context.Background(), "k") }()
		time.Sleep(10 * time.Millisecond)
		must(t, s.Delete(t.Context(), "k"))
		time.Sleep(10 * time.Minute)
		wantBroken(t, s, false)
	})
}

// A deletion of another record, of long ago, and one that was undone excuse no death of the record that Retire finds dead.
func TestNoOtherDeletionExcuses(t *testing.T) {
	for name, before := range map[string]func(t *testing.T, s *slidingttl.Store[int], under *hoard[int]){
		"none": func(t *testing.T, s *slidingttl.Store[int], _ *hoard[int]) { must(t, s.Insert(t.Context(), "k", 1)) },
		"long ago": func(t *testing.T, s *slidingttl.Store[int], under *hoard[int]) {
			must(t, s.Insert(t.Context(), "k", 1))
			must(t, s.Delete(t.Context(), "k"))
			time.Sleep(time.Hour)
			under.Plant("k", 1, driver.Life{ExpiresAt: driver.Floor(time.Now().Add(5 * time.Second))}) // another program's
		},
		"undone": func(t *testing.T, s *slidingttl.Store[int], under *hoard[int]) {
			must(t, s.Insert(t.Context(), "k", 1))
			e := stored(t, under, "k")
			must(t, s.Delete(driver.WithUndo(t.Context()), "k"))
			under.Plant("k", 1, e.Life)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s := open(t, d, tenSeconds, nil)
				before(t, s, under)
				touches := failTouches(d, all)
				touches(true)
				dies := stored(t, under, "k").ExpiresAt.Time()
				time.Sleep(time.Until(dies) - 230*time.Millisecond)
				_, err := s.Get(context.Background(), "k") // promises it ten seconds; its touch fails
				must(t, err)
				time.Sleep(time.Until(dies) + 10*time.Millisecond)
				wantErr(t, s.Retire(t.Context(), "k"), slidingttl.ErrNotFound)
				touches(false)
				time.Sleep(time.Minute)
				wantBroken(t, s, true)
			})
		})
	}
}

// An entry that was dead was promised nothing, though its touch failed once.
func TestDeadEntry(t *testing.T) {
	for _, fails := range []bool{false, true} {
		name := "at once"
		if fails {
			name = "after a failure"
		}
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				s := open(t, d, tenSeconds, nil)
				must(t, s.Insert(t.Context(), "k", 1))
				e, err := s.Peek(t.Context(), "k")
				must(t, err)
				var down atomic.Bool
				down.Store(fails)
				d.before = func(context.Context, string, string) error {
					if down.Load() {
						return errDown
					}
					return nil
				}
				time.Sleep(tenSeconds.IdleGrace + time.Second)
				_, err = s.TouchEntry(t.Context(), "k", e)
				must(t, err)
				down.Store(false)
				time.Sleep(time.Minute)
				wantBroken(t, s, false)
			})
		})
	}
}
