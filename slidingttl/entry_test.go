package slidingttl_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// entryStore runs f on a store of ten minutes idle and an hour in all, in
// virtual time.
func entryStore(t *testing.T, f func(context.Context, *slidingttl.Store[string])) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[string](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		f(t.Context(), s)
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func TestTouchEntry(t *testing.T) {
	entryStore(t, func(ctx context.Context, s *slidingttl.Store[string]) {
		start := s.Now()
		if err := s.Insert(ctx, "k", "v"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		e, err := s.Peek(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		if got := e.ExpiresAt.Time().Sub(start).Round(time.Second); got != 10*time.Minute {
			t.Fatalf("a peek moved the expiry to %v after the start", got)
		}
		e, err = s.TouchEntry(ctx, "k", e)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.ExpiresAt.Time().Sub(start).Round(time.Second); got != 15*time.Minute {
			t.Fatalf("TouchEntry says the record expires %v after the start, want 15m", got)
		}
		stored, err := s.Peek(ctx, "k")
		if err != nil || stored.Meta != e.Meta {
			t.Fatalf("stored %+v, %v; TouchEntry returned %+v", stored.Meta, err, e.Meta)
		}
		if err := s.Delete(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, err := s.TouchEntry(ctx, "k", e); err != nil || got.Meta != e.Meta {
			t.Fatalf("TouchEntry of a deleted record: %+v, %v; want it as it was read", got.Meta, err)
		}
		if _, err := s.Peek(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Fatalf("a touch brought a deleted record back: %v", err)
		}
	})
}

// TouchEntry of a record that was replaced touches neither.
func TestTouchEntryOfTheRecordBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		e, err := s.InsertEntry(t.Context(), "k", 1)
		must(t, err)
		must(t, s.Delete(t.Context(), "k"))
		time.Sleep(time.Minute)
		next, err := s.InsertEntry(t.Context(), "k", 2)
		must(t, err)
		time.Sleep(time.Minute)
		if got, err := s.TouchEntry(t.Context(), "k", e); err != nil || got.Meta != e.Meta {
			t.Errorf("TouchEntry: %+v, %v; want it as it was read", got.Meta, err)
		}
		if stored, err := s.Peek(t.Context(), "k"); err != nil || stored.Meta != next.Meta {
			t.Errorf("TouchEntry of the record before touched the next one: %+v, %v", stored.Meta, err)
		}
	})
}

// What UpdateEntry wrote is remembered as what Update wrote: Keep reads nothing.
func TestUpdateEntryIsRemembered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open(t, d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 10 * time.Hour, Slack: time.Minute}, nil)
		must(t, s.Upsert(t.Context(), "k", 1))
		must(t, s.Delete(t.Context(), "k"))
		must(t, s.Upsert(t.Context(), "k", 2))
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		_, err = s.UpdateEntry(t.Context(), "k", e, func(i int) (int, error) { return i + 1, nil })
		must(t, err)
		d.counts()
		must(t, s.Keep(t.Context(), "k"))
		if calls := d.counts(); len(calls) > 0 {
			t.Errorf("Keep after UpdateEntry calls %v", calls)
		}
	})
}

func TestUpdateEntry(t *testing.T) {
	entryStore(t, func(ctx context.Context, s *slidingttl.Store[string]) {
		e, err := s.InsertEntry(ctx, "k", "a")
		if err != nil {
			t.Fatal(err)
		}
		if stored, err := s.Peek(ctx, "k"); err != nil || stored != e {
			t.Fatalf("InsertEntry returned %+v, stored is %+v, %v", e, stored, err)
		}
		var saw []string
		appended := func(to string) func(string) (string, error) {
			return func(v string) (string, error) {
				saw = append(saw, v)
				return v + to, nil
			}
		}
		second, err := s.UpdateEntry(ctx, "k", e, appended("b"))
		if err != nil || second.Value != "ab" {
			t.Fatalf("UpdateEntry: %+v, %v", second, err)
		}
		if stored, err := s.Peek(ctx, "k"); err != nil || stored != second {
			t.Fatalf("UpdateEntry returned %+v, stored is %+v, %v", second, stored, err)
		}
		third, err := s.UpdateEntry(ctx, "k", e, appended("c"))
		if err != nil || third.Value != "abc" {
			t.Fatalf("UpdateEntry from an outdated entry: %+v, %v", third, err)
		}
		if want := []string{"a", "a", "ab"}; len(saw) != 3 || saw[0] != want[0] || saw[1] != want[1] || saw[2] != want[2] {
			t.Fatalf("f saw %q, want %q: the entry first, what is stored after a lost race", saw, want)
		}
		if err := s.Delete(ctx, "k"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.UpdateEntry(ctx, "k", third, appended("d")); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Fatalf("UpdateEntry of a deleted record: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := s.UpdateEntry(ctx, "k", third, appended("d")); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Fatalf("UpdateEntry of a dead record: %v", err)
		}
	})
}

func TestPeekMulti(t *testing.T) {
	entryStore(t, func(ctx context.Context, s *slidingttl.Store[string]) {
		if err := s.Insert(ctx, "old", "1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		if err := s.Insert(ctx, "new", "2"); err != nil {
			t.Fatal(err)
		}
		found, err := s.PeekMulti(ctx, []string{"old", "new", "none", "old"})
		if err != nil || len(found) != 2 || found["old"].Value != "1" || found["new"].Value != "2" {
			t.Fatalf("%+v, %v", found, err)
		}
		time.Sleep(6 * time.Minute)
		found, err = s.PeekMulti(ctx, []string{"old", "new"})
		if err != nil || len(found) != 1 || found["new"].Value != "2" {
			t.Fatalf("%+v, %v; want only what is not idle for 10 minutes: a peek keeps nothing alive", found, err)
		}
		if _, err := s.PeekMulti(ctx, []string{"new", ""}); !errors.Is(err, slidingttl.ErrInvalid) {
			t.Fatalf("empty key: %v", err)
		}
	})
}

func TestKeep(t *testing.T) {
	entryStore(t, func(ctx context.Context, s *slidingttl.Store[string]) {
		if err := s.Insert(ctx, "k", "v"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			time.Sleep(9 * time.Minute)
			if err := s.Keep(ctx, "k"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(11 * time.Minute)
		if err := s.Keep(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Fatalf("Keep of a dead record: %v", err)
		}
	})
}

// TestManyPolicies uses more policies than a store remembers, and one that is invalid.
func TestManyPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}, &slidingttl.Options[int]{
			PolicyOf: func(minutes int) slidingttl.Policy {
				return slidingttl.Policy{IdleGrace: time.Duration(minutes) * time.Minute, MaxLifetime: time.Hour}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			for minutes := range 10 {
				key := string(rune('a' + minutes))
				err := s.Upsert(t.Context(), key, minutes)
				if minutes == 0 {
					if !errors.Is(err, slidingttl.ErrInvalid) {
						t.Errorf("an invalid policy: %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				e, err := s.Peek(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := e.ExpiresAt.Time().Sub(s.Now()).Round(time.Second), time.Duration(minutes)*time.Minute; got != want {
					t.Errorf("expires in %v, want %v", got, want)
				}
			}
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TouchEntry of a record that the store only reads, or rejects, writes nothing.
func TestTouchEntryOfAForeignRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{Foreign: slidingttl.ReadOnly})
		under.Plant("k", 1, driver.Life{ExpiresAt: instant(time.Now().Add(time.Hour))})
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		got, err := s.TouchEntry(t.Context(), "k", e)
		if err != nil || got != e || d.count("touch") != 0 || stored(t, under, "k") != e {
			t.Errorf("%+v, %v, %d touches; stored is %+v, want what it was: %+v", got, err, d.count("touch"), stored(t, under, "k"), e)
		}
	})
}

// In a transaction an Update that loses a race is tried once more, for the driver reads with a lock.
func TestUpdateInATransaction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "a", 1))
		d.before = func(_ context.Context, op, _ string) error {
			if op == "replace" {
				plant(under, "a", time.Hour)
			}
			return nil
		}
		_, err := s.Update(driver.WithUndo(t.Context()), "a", func(v int) (int, error) { return v + 1, nil })
		wantErr(t, err, slidingttl.ErrConflict)
		if n := d.count("replace"); n != 2 {
			t.Errorf("%d attempts", n)
		}
	})
}

func TestUpdateWithoutAFunction(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		_, err := open(t, d, session, nil).Update(t.Context(), "a", nil)
		if invalid, ok := errors.AsType[*slidingttl.InvalidError](err); !ok || invalid.Field != "f" || invalid.Rule == "" {
			t.Errorf("%v", err)
		}
	})
}
