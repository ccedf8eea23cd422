package slidingttl_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
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

// TouchEntry goes by what the store remembers of the record that was read, and returns that, unless another value has its
// place, which by PolicyOf has rules of its own.
func TestTouchEntryOfARememberedRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, session, &slidingttl.Options[int]{Budget: 1000}), open(t, under, session, nil)
		e, err := s.InsertEntry(t.Context(), "k", 1)
		must(t, err)
		time.Sleep(20 * time.Minute)
		read(t, s, "k")
		now, err := s.Peek(t.Context(), "k")
		must(t, err)
		d.counts()
		got, err := s.TouchEntry(t.Context(), "k", e)
		if calls := d.counts(); err != nil || got != now || now == e || len(calls) > 0 {
			t.Errorf("%+v, %v with the calls %v; want %+v with none", got, err, calls, now)
		}
		time.Sleep(10 * time.Minute)
		must(t, other.Delete(t.Context(), "k"))
		next, err := other.InsertEntry(t.Context(), "k", 2)
		must(t, err)
		time.Sleep(time.Until(now.ExpiresAt.Time()) + time.Millisecond)
		if stored(t, under, "k") != next {
			t.Fatal("the next record is not as it was inserted")
		}
		if got, err := s.TouchEntry(t.Context(), "k", e); err != nil || got != e || stored(t, under, "k") != next {
			t.Errorf("%+v, %v; stored is %+v, want %+v untouched", got, err, stored(t, under, "k"), next)
		}
	})
}

func TestTouchEntryOfAnotherValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(v int) slidingttl.Policy {
			p := session
			p.IdleGrace = time.Duration(v) * time.Minute
			return p
		}})
		e, err := s.InsertEntry(t.Context(), "k", 1)
		must(t, err)
		_, err = s.Update(t.Context(), "k", func(int) (int, error) { return 60, nil })
		must(t, err)
		time.Sleep(30 * time.Second)
		_, err = s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < 59*time.Minute {
			t.Errorf("TouchEntry of the value before leaves %v", left)
		}
	})
}

// A record without created_at is another one if its version is.
func TestTouchEntryOfAnotherForeignRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, session, nil)
		under.Plant("k", 1, driver.Life{ExpiresAt: instant(time.Now().Add(20 * time.Minute))})
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		under.Plant("k", 2, driver.Life{ExpiresAt: instant(time.Now().Add(10 * time.Minute))})
		next, err := s.Peek(t.Context(), "k")
		must(t, err)
		if got, err := s.TouchEntry(t.Context(), "k", e); err != nil || got != e || stored(t, under, "k") != next {
			t.Errorf("%+v, %v; stored is %+v, want %+v untouched", got, err, stored(t, under, "k"), next)
		}
	})
}

// bumping returns the driver of a store whose touches change the version, as on Couchbase, if bumps is set.
func bumping(bumps bool) *fakestore.Driver[int] {
	records := map[string]*driver.Entry[int]{}
	var version driver.Version
	d := &fakestore.Driver[int]{Step: time.Millisecond, Has: []any{(*driver.Remover)(nil)}}
	d.Handle = func(c *fakestore.Call[int]) {
		if is, writes := c.Apply(records[c.Key], version+1, fakestore.Rules{Bumps: bumps}); writes {
			if is == nil {
				delete(records, c.Key)
				return
			}
			version = max(version, is.Version)
			records[c.Key] = is
		}
	}
	return d
}

// TouchEntry of an entry that another process wrote, and that was found by other means, returns it as it is stored.
func TestTouchEntryNewerThanTheMemo(t *testing.T) {
	for name, bumps := range map[string]bool{"versions change": true, "versions stay": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d := bumping(bumps)
				s, other := open(t, driver.Driver[int](d), session, nil), open(t, driver.Driver[int](d), session, nil)
				must(t, s.Insert(t.Context(), "k", 1)) // s remembers it
				time.Sleep(10 * time.Minute)
				must(t, other.Upsert(t.Context(), "k", 2)) // another process writes
				e, err := d.Get(t.Context(), "k")          // found by other means: a query of the application's own, see Store.Alive
				must(t, err)
				if ok, err := s.Alive("k", e); !ok || err != nil {
					t.Fatal(ok, err)
				}
				time.Sleep(10 * time.Minute)
				got, err := s.TouchEntry(t.Context(), "k", e) // due, and waited for
				must(t, err)
				if is := stored(t, driver.Driver[int](d), "k"); got.Meta != is.Meta {
					t.Errorf("TouchEntry returns %+v, stored %+v", got.Meta, is.Meta)
				}
				if err := s.DeleteEntry(t.Context(), "k", got); err != nil {
					t.Errorf("DeleteEntry of what TouchEntry returned: %v", err)
				}
			})
		})
	}
}

// The entry that comes back has an earlier expiry than the one that was given.
func TestTouchEntryKeepsTheLaterExpiry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := bumping(false)
		p := withSlack(session, 15*time.Minute)
		s := open(t, driver.Driver[int](d), p, nil)
		ahead := open(t, driver.Driver[int](d), p, &slidingttl.Options[int]{Now: func() time.Time { return time.Now().Add(time.Minute) }})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(14*time.Minute + 2*time.Second)
		_, err := ahead.Touch(t.Context(), "k")
		must(t, err)
		x, err := d.Get(t.Context(), "k")
		must(t, err)
		got, err := s.TouchEntry(t.Context(), "k", x)
		must(t, err)
		if got.ExpiresAt < x.ExpiresAt {
			t.Errorf("given an expiry of %v, stored so, back comes one of %v", x.ExpiresAt, got.ExpiresAt)
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

// A read and touch in one that meets another process's value tells nothing of the value that others read before it.
func TestEntryBesideAReadTouchOfAnotherValue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := fakestore.New[int](time.Millisecond)
		d := &fakestore.Driver[int]{Step: time.Millisecond, Has: []any{(*driver.ReadToucher[int])(nil)}}
		var mu sync.Mutex
		d.Handle = func(c *fakestore.Call[int]) {
			there, back := time.Millisecond, time.Millisecond
			switch c.Op {
			case fakestore.ReadTouch:
				there, back = 20*time.Millisecond, 10*time.Millisecond
			case fakestore.Get: // its answer is slow
				there, back = 5*time.Millisecond, 60*time.Millisecond
			}
			if c.Err = sleep(c.Ctx, there); c.Err != nil {
				return
			}
			mu.Lock()
			under.Do(c)
			mu.Unlock()
			if err := sleep(c.Ctx, back); err != nil {
				c.Err = err
			}
		}
		p := session
		p.Promote = true
		s, other := open(t, driver.Driver[int](d), p, nil), open(t, driver.Driver[int](under), p, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		var wg sync.WaitGroup
		wg.Go(func() { read(t, s, "k") }) // reads and touches at 20 ms, in one trip
		var e slidingttl.Entry[int]
		wg.Go(func() {
			time.Sleep(time.Millisecond)
			var err error
			e, err = s.Entry(t.Context(), "k") // reads 1, at 6 ms
			must(t, err)
		})
		wg.Go(func() {
			time.Sleep(10 * time.Millisecond)
			must(t, other.Upsert(t.Context(), "k", 100)) // another process
		})
		wg.Wait()
		is := stored(t, driver.Driver[int](under), "k")
		if e.Version == is.Version && e.Value != is.Value {
			t.Errorf("Entry returns %+v, stored with that version is %d", e, is.Value)
		}
		_, err := s.UpdateEntry(t.Context(), "k", e, func(v int) (int, error) { return v + 1, nil })
		must(t, err)
		if v := stored(t, driver.Driver[int](under), "k").Value; v != 101 {
			t.Errorf("after an upsert of 100 and an increment: %d; the upsert is lost", v)
		}
	})
}

// Rows without a version (SQL, DynamoDB: that of another program's record is zero): the touch that a Get waits with for
// its Budget is lost, with the TouchEntry of the row that was there before.
func TestTouchEntryTakesAnothersTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		recs := map[string]*driver.Entry[int]{}
		d := &fakestore.Driver[int]{Step: time.Millisecond}
		d.Handle = func(c *fakestore.Call[int]) {
			if is, writes := c.Apply(recs[c.Key], 77, fakestore.Rules{}); writes {
				recs[c.Key] = is
			}
		}
		put := func(key string, v int, left time.Duration) {
			recs[key] = &driver.Entry[int]{Value: v, Meta: driver.Meta{Life: driver.Life{ExpiresAt: instant(time.Now().Add(left))}}}
		}
		s := open(t, driver.Driver[int](d), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[int]{Budget: 0.1})
		put("other", 0, 10*time.Minute)
		put("k", 1, 20*time.Minute)
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		put("k", 2, 10*time.Minute) // another row
		read(t, s, "other")         // takes the budget
		if v, err := s.Get(t.Context(), "k"); err != nil || v != 2 {
			t.Fatal(v, err)
		}
		if n := s.Stats().Pending; n != 1 {
			t.Fatalf("%d wait", n)
		}
		_, err = s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		time.Sleep(9 * time.Minute)
		st := s.Stats()
		if left := time.Until(recs["k"].ExpiresAt.Time()); left < 50*time.Minute {
			t.Errorf("9 min after the access %v are left; failed %d, lost %d", left, st.TouchFails, st.TouchLost)
		}
		time.Sleep(2 * time.Minute)
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("11 min after the access: %v", err)
		}
	})
}

// On a store whose server decides (SQL, Redis): a Get reads and touches the next record of a key while TouchEntry waits
// behind it with an entry of the one before. It leaves the next one alone.
func TestTouchEntryBehindAReadTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var rec *driver.Entry[int]
		var next driver.Version
		slow := time.Duration(0)
		type write struct {
			op  string
			was driver.Meta
			is  driver.Meta
		}
		var writes []write
		d := &fakestore.Driver[int]{Step: time.Millisecond, Has: []any{(*driver.ReadToucher[int])(nil), (*driver.Overwriter[int])(nil)}}
		d.Handle = func(c *fakestore.Call[int]) {
			mu.Lock()
			next++
			was := rec
			is, w := c.Apply(rec, next, fakestore.Rules{})
			if w {
				if was != nil {
					writes = append(writes, write{c.Op, was.Meta, is.Meta})
				}
				rec = is
			}
			mu.Unlock()
			if c.Op == fakestore.ReadTouch {
				time.Sleep(slow)
			}
		}
		s := open(t, driver.Driver[int](d), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(time.Minute)
		// Another process deletes it, and inserts another.
		now := instant(time.Now())
		rec = &driver.Entry[int]{Value: 2, Meta: driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, Version: 1000}}
		time.Sleep(time.Minute)
		slow = 50 * time.Millisecond
		var wg sync.WaitGroup
		wg.Go(func() {
			if v, err := s.Get(context.Background(), "k"); err != nil || v != 2 {
				t.Error(v, err)
			}
		})
		synctest.Wait()
		time.Sleep(20 * time.Millisecond)
		got, err := s.TouchEntry(t.Context(), "k", e)
		must(t, err)
		wg.Wait()
		synctest.Wait()
		if got != e {
			t.Errorf("TouchEntry returns %+v, want %+v", got, e)
		}
		for _, w := range writes {
			if w.op == fakestore.Touch {
				t.Errorf("TouchEntry of %+v touches %+v: %+v", e.Meta, w.was, w.is)
			}
		}
	})
}
