package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The error of one key in a call for many has its index, and the others get their answer.
func TestOneBadKeyOfMany(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Foreign: slidingttl.Reject})
		must(t, s.UpsertMulti(t.Context(), []slidingttl.Item[int]{{Key: "a", Value: 1}, {Key: "b", Value: 2}}))
		under.Plant("secret", 3, driver.Life{})
		keys := []string{"a", "secret", "b", "a", "none"}
		values, err := s.GetMulti(t.Context(), keys)
		if len(values) != 2 || values["a"] != 1 || values["b"] != 2 {
			t.Errorf("GetMulti: %v", values)
		}
		entries, perr := s.PeekMulti(t.Context(), keys)
		if len(entries) != 2 || entries["b"].Value != 2 {
			t.Errorf("PeekMulti: %v", entries)
		}
		for _, err := range []error{err, perr} {
			var failed slidingttl.KeyErrors
			if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 1 || !errors.Is(err, slidingttl.ErrForeign) {
				t.Errorf("error %v, want ErrForeign of key 1", err)
			}
		}

		err = s.UpsertMulti(t.Context(), []slidingttl.Item[int]{{Key: "c", Value: 3}, {Key: "", Value: 4}})
		var failed slidingttl.KeyErrors
		if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 1 || !errors.Is(err, slidingttl.ErrInvalid) {
			t.Errorf("UpsertMulti: %v, want ErrInvalid of item 1", err)
		}
		if v, err := s.Get(t.Context(), "c"); v != 3 || err != nil {
			t.Errorf("the item beside it: %v, %v", v, err)
		}
	})
}

func TestUpsertEntryTellsWhatWasWritten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		for i := range 3 {
			e, err := s.UpsertEntry(t.Context(), "k", i)
			must(t, err)
			if now := stored(t, under, "k"); e != now {
				t.Errorf("told %+v, stored is %+v", e, now)
			}
			time.Sleep(time.Minute)
		}
	})
}

// DeleteEntry deletes the record that was read, even after touches, and no other.
func TestDeleteEntry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, session, nil), open(t, under, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		first, err := s.Peek(t.Context(), "k")
		must(t, err)
		must(t, other.Upsert(t.Context(), "k", 2))
		wantErr(t, s.DeleteEntry(t.Context(), "k", first), slidingttl.ErrConflict)
		second, err := s.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(time.Minute)
		_, err = other.Get(t.Context(), "k") // touches
		must(t, err)
		must(t, s.DeleteEntry(t.Context(), "k", second))
		_, err = other.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		wantErr(t, s.DeleteEntry(t.Context(), "k", second), slidingttl.ErrNotFound)
		must(t, other.Insert(t.Context(), "k", 3))
		if err := s.DeleteEntry(t.Context(), "k", second); !errors.Is(err, slidingttl.ErrConflict) {
			t.Errorf("another life: %v", err)
		}
	})
}

// Of many calls that find no record at once one inserts, and all return its record.
func TestGetOrInsert(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		d.trip = 5 * time.Millisecond
		s := open(t, d, session, nil)
		var made, inserted atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				v, in, err := s.GetOrInsert(t.Context(), "k", func(context.Context) (int, error) { return int(made.Add(1)), nil })
				if err != nil {
					t.Error(err)
				}
				if in {
					inserted.Add(1)
				}
				if now, err := s.Get(t.Context(), "k"); now != v || err != nil {
					t.Errorf("returned %d, stored is %d, %v", v, now, err)
				}
			})
		}
		wg.Wait()
		if n := inserted.Load(); n != 1 {
			t.Errorf("%d inserted, want 1", n)
		}
		failed := errors.New("no value")
		_, _, err := s.GetOrInsert(t.Context(), "other", func(context.Context) (int, error) { return 0, failed })
		if err != failed {
			t.Errorf("error %v, want the function's own", err)
		}
	})
}

// A tenant's policy needs no value: reads through Wrap whose touch is not due cost
// nothing but the repository's own.
func TestPolicyForCostsNoLookUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[profile](time.Second)
		var longer atomic.Bool
		policyFor := func(key string) slidingttl.Policy {
			if longer.Load() {
				return slidingttl.Policy{IdleGrace: 20 * day, MaxLifetime: 90 * day}
			}
			return slidingttl.Policy{IdleGrace: 10 * day, MaxLifetime: 90 * day, Slack: day}
		}
		s := open(t, d, session, &slidingttl.Options[profile]{PolicyFor: policyFor})
		w, err := slidingttl.Wrap(profiles{under}, s, profileKey, nil)
		must(t, err)
		const keys = 10 // of a hundred, one may evict another from the memo
		for id := range keys {
			must(t, w.Upsert(t.Context(), id, profile{Name: fmt.Sprint(id)}))
		}
		d.counts()
		for id := range keys {
			if _, err := w.Get(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if calls := d.counts(); len(calls) != 0 {
			t.Errorf("%d reads of records whose touch is not due made calls %v", keys, calls)
		}
		longer.Store(true)
		_, err = w.Get(t.Context(), 7)
		must(t, err)
		if e := stored(t, under, profileKey(7)); e.ExpiresAt < instant(time.Now().Add(20*day)) {
			t.Errorf("the tenant's longer policy is not kept: %v left", e.ExpiresAt.Sub(instant(time.Now())))
		}
		wantErr(t, s.SetPolicy(session), slidingttl.ErrInvalid)
		_, err = slidingttl.New(d, session, &slidingttl.Options[profile]{
			PolicyFor: policyFor, PolicyOf: func(profile) slidingttl.Policy { return session },
		})
		wantErr(t, err, slidingttl.ErrInvalid)
	})
}

// A key that is due, and asked for twice in one call, is one access.
func TestRepeatedKeyIsOneAccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		d.trip = 10 * time.Millisecond
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		values, err := s.GetMulti(t.Context(), []string{"k", "k", "k"})
		if st := s.Stats(); err != nil || len(values) != 1 || st.Due != 1 || st.Touched != 1 || st.Shared != 0 {
			t.Errorf("%v, %v, %+v", values, err, st)
		}
	})
}

// Promise 11: an Update, or GetOrInsert, whose function returns after Close has given up writes
// nothing.
func TestNothingIsWrittenAfterCloseGaveUp(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *slidingttl.Store[int], f func()) error{
		"Update": func(ctx context.Context, s *slidingttl.Store[int], f func()) error {
			_, err := s.Update(ctx, "k", func(v int) (int, error) { f(); return v + 1, nil })
			return err
		},
		"GetOrInsert": func(ctx context.Context, s *slidingttl.Store[int], f func()) error {
			_, _, err := s.GetOrInsert(ctx, "new", func(context.Context) (int, error) { f(); return 1, nil })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s, err := slidingttl.New[int](d, session, nil)
				must(t, err)
				must(t, s.Insert(t.Context(), "k", 1))
				inside, closed := make(chan struct{}), make(chan struct{})
				ended := make(chan error, 1)
				go func() {
					ended <- call(context.Background(), s, func() { close(inside); <-closed })
				}()
				<-inside
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var drain *slidingttl.DrainError
				if err := s.Close(ctx); !errors.As(err, &drain) || drain.Calls != 1 {
					t.Errorf("Close: %v, want one call under way", err)
				}
				close(closed)
				wantErr(t, <-ended, slidingttl.ErrClosed)
				if _, err := under.Get(t.Context(), "new"); err == nil || stored(t, under, "k").Value != 1 {
					t.Error("it has written")
				}
			})
		})
	}
}

// A driver is told of each write that a store with Options.Now plans, for its own clock may be another.
func TestWritesByAnotherClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Now: time.Now})
		d.before = func(ctx context.Context, op, _ string) error {
			if op != "get" && op != "delete" && !driver.OtherClock(ctx) {
				t.Errorf("%s is not told", op)
			}
			return nil
		}
		must(t, s.Insert(t.Context(), "a", 1))
		must(t, s.Upsert(t.Context(), "a", 2))
		time.Sleep(time.Minute)
		read(t, s, "a")
		must(t, update(s, "a"))
		must(t, s.Retire(t.Context(), "a"))
		if n := d.counts(); n["insert"] == 0 || n["replace"] < 2 || n["touch"] != 2 {
			t.Errorf("trips %v", n)
		}
	})
}

// Keep tells what Get tells: of a policy function that panics, and of a caller that has left.
func TestKeepTellsWhatGetTells(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		plant(under, "k", time.Minute)
		policyFor := func(string) slidingttl.Policy { panic("no such tenant") }
		s, err := slidingttl.New(d, session, &slidingttl.Options[int]{PolicyFor: policyFor})
		must(t, err)
		_, err = s.Get(t.Context(), "k")
		kerr := s.Keep(t.Context(), "k")
		if err == nil || !errors.Is(kerr, slidingttl.ErrInvalid) || s.Stats().TouchFails != 0 {
			t.Errorf("Get: %v, Keep: %v, %+v", err, kerr, s.Stats())
		}
		_ = s.Close(t.Context())
	})
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		plant(under, "k", time.Minute)
		d.trip = time.Second
		s := open(t, d, session, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := s.Keep(ctx, "k"); err != ctx.Err() || s.Stats().TouchFails != 0 {
			t.Errorf("Keep of a caller that left: %v, %+v", err, s.Stats())
		}
	})
}
