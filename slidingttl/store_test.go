package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

func TestNewRejectsBadInput(t *testing.T) {
	type options = slidingttl.Options[int]
	good := fakestore.New[int](time.Second)
	for _, tt := range []struct {
		field  string
		d      driver.Driver[int]
		policy slidingttl.Policy
		opts   *options
	}{
		{"driver", nil, session, nil},
		{"driver.Resolution", fakestore.New[int](0), session, nil},
		{"driver.Resolution", fakestore.New[int](1500 * time.Microsecond), session, nil},
		{"Policy.IdleGrace", good, slidingttl.Policy{MaxLifetime: time.Hour}, nil},
		{"Options.Touches", good, session, &options{Touches: 2}},
		{"Options.Foreign", good, session, &options{Foreign: -1}},
		{"Options.Queue", good, session, &options{Queue: -1}},
		{"Options.Workers", good, session, &options{Workers: -1}},
		{"Options.TouchTimeout", good, session, &options{TouchTimeout: -1}},
		{"Options.Strict", good, session, &options{Strict: true, Touches: slidingttl.Background}},
		{"Options.Strict", good, session, &options{Strict: true, Budget: 1}},
		{"Options.Budget", good, session, &options{Budget: -1}},
		{"Options.Budget", good, session, &options{Budget: math.NaN()}},
		{"Options.Budget", good, session, &options{Budget: 5e-324}},
		{"Options.Parallel", good, session, &options{Parallel: -1}},
		{"Options.Remember", good, session, &options{Remember: -1}},
		{"Options.Budget", good, session, &options{Budget: math.Inf(1)}},
		{"Policy.MaxSlack", good, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour, Slack: 2 * time.Second, MaxSlack: time.Second}, nil},
	} {
		_, err := slidingttl.New(tt.d, tt.policy, tt.opts)
		var invalid *slidingttl.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != tt.field || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("New: %v, want an InvalidError on %s", err, tt.field)
		}
	}
}

func TestEmptyKeyAndEndedContext(t *testing.T) {
	d, _ := newRemote[int](time.Second)
	s := open(t, d, session, nil)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(ctx context.Context, key string) error{
		"Get":      func(ctx context.Context, key string) error { _, err := s.Get(ctx, key); return err },
		"Entry":    func(ctx context.Context, key string) error { _, err := s.Entry(ctx, key); return err },
		"Peek":     func(ctx context.Context, key string) error { _, err := s.Peek(ctx, key); return err },
		"Touch":    func(ctx context.Context, key string) error { _, err := s.Touch(ctx, key); return err },
		"GetMulti": func(ctx context.Context, key string) error { _, err := s.GetMulti(ctx, []string{key}); return err },
		"Upsert":   func(ctx context.Context, key string) error { return s.Upsert(ctx, key, 1) },
		"Insert":   func(ctx context.Context, key string) error { return s.Insert(ctx, key, 1) },
		"Delete":   func(ctx context.Context, key string) error { return s.Delete(ctx, key) },
		"Update": func(ctx context.Context, key string) error {
			_, err := s.Update(ctx, key, func(v int) (int, error) { return v, nil })
			return err
		},
	} {
		var invalid *slidingttl.InvalidError
		if err := call(t.Context(), ""); !errors.As(err, &invalid) || invalid.Field != "key" {
			t.Errorf("%s of an empty key: %v", name, err)
		}
		if err := call(ended, "k"); err != context.Canceled {
			t.Errorf("%s with an ended context: %v, want the context's error itself", name, err)
		}
	}
	if n := d.counts(); len(n) > 1 || n["get"] > 1 { // GetMulti leaves it to the driver to say which keys are bad
		t.Errorf("calls %v reached the store", n)
	}
	if _, _, err := s.GetOrInsert(t.Context(), "k", nil); !errors.Is(err, slidingttl.ErrInvalid) {
		t.Errorf("GetOrInsert without a function: %v; want ErrInvalid", err)
	}
	if _, err := s.Update(t.Context(), "k", nil); !errors.Is(err, slidingttl.ErrInvalid) {
		t.Errorf("Update without a function: %v", err)
	}
}

// TestRoundTrips counts the trips of each operation on a driver without optional capabilities, as
// in the README's table.
func TestRoundTrips(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		p := withSlack(session, 3*time.Minute)
		s := open(t, d, p, nil)
		fresh := func() *slidingttl.Store[int] { return open(t, d, p, nil) } // knows no key
		expect := func(name string, want map[string]int) {
			t.Helper()
			if got := d.counts(); !maps.Equal(got, want) {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
		must(t, s.Insert(t.Context(), "k", 1))
		expect("insert", map[string]int{"insert": 1})
		must(t, s.Upsert(t.Context(), "new", 1))
		expect("upsert of a new key", map[string]int{"insert": 1})
		must(t, s.Upsert(t.Context(), "k", 2))
		expect("upsert of a live key, known", map[string]int{"replace": 1})
		must(t, fresh().Upsert(t.Context(), "k", 3))
		expect("upsert of a live key, unknown", map[string]int{"insert": 1, "replace": 1})
		must(t, s.Upsert(t.Context(), "k", 4))
		expect("upsert of a live key, known wrongly", map[string]int{"replace": 2})
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		expect("get, not due", map[string]int{"get": 1})
		time.Sleep(5 * time.Minute)
		_, err = s.Get(t.Context(), "k")
		must(t, err)
		expect("get, due", map[string]int{"get": 1, "touch": 1})
		time.Sleep(5 * time.Minute)
		until, err := s.Touch(t.Context(), "k")
		must(t, err)
		expect("touch by key", map[string]int{"get": 1, "touch": 1})
		if want := time.Now().Add(33 * time.Minute); !until.Equal(want) {
			t.Errorf("Touch says %v, want %v", until, want)
		}
		_, err = s.Touch(t.Context(), "k")
		must(t, err)
		expect("touch by key, not due", map[string]int{"get": 1})
		_, err = s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
		must(t, err)
		expect("update", map[string]int{"get": 1, "replace": 1})
		must(t, s.Upsert(t.Context(), "k", 5))
		expect("upsert after update", map[string]int{"replace": 1})
		must(t, under.Delete(t.Context(), "k"))
		must(t, s.Upsert(t.Context(), "k", 6))
		expect("upsert of a key remembered and gone", map[string]int{"replace": 1, "insert": 1})
		must(t, s.Delete(t.Context(), "k"))
		must(t, s.Upsert(t.Context(), "k", 7))
		expect("delete, upsert", map[string]int{"delete": 1, "insert": 1})
	})
}

func TestPeekNeverTouches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		for range 29 {
			time.Sleep(time.Minute)
			e, err := s.Peek(t.Context(), "k")
			must(t, err)
			if e.Value != 1 || e.ExpiresAt.Time().Sub(e.CreatedAt.Time()) != session.IdleGrace {
				t.Fatalf("peeked %+v", e)
			}
		}
		time.Sleep(time.Minute)
		_, err := s.Peek(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}

func TestEntrySaysWhatIsStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		e, err := s.Entry(t.Context(), "k")
		must(t, err)
		if want := stored(t, under, "k"); e != want {
			t.Errorf("Entry %+v, stored %+v", e, want)
		}
	})
}

func TestPromote(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Second)
		p := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour, Promote: true}
		s := open(t, d, p, nil)
		must(t, s.Insert(t.Context(), "never read", 1))
		must(t, s.Insert(t.Context(), "read once", 1))
		time.Sleep(59 * time.Minute)
		_, err := s.Get(t.Context(), "read once")
		must(t, err)
		time.Sleep(time.Minute)
		_, err = s.Get(t.Context(), "never read")
		wantErr(t, err, slidingttl.ErrNotFound)
		for range 22 {
			time.Sleep(time.Hour)
			_, err = s.Get(t.Context(), "read once")
			must(t, err)
		}
		must(t, s.Upsert(t.Context(), "read once", 2)) // does not bring it back down
		time.Sleep(time.Hour - 1)
		_, err = s.Get(t.Context(), "read once")
		must(t, err)
		if n := d.count("touch"); n != 1 {
			t.Errorf("%d touches in a whole life, want 1", n)
		}
		time.Sleep(time.Nanosecond)
		_, err = s.Get(t.Context(), "read once")
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}

type user struct {
	Name     string
	Remember bool
}

func TestPolicyByRecord(t *testing.T) {
	remember := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day}
	policyOf := func(u user) slidingttl.Policy {
		if u.Remember {
			return remember
		}
		return session
	}
	bubble(t, func(t *testing.T) {
		d, under := newRemote[user](time.Second)
		s := open(t, d, session, &slidingttl.Options[user]{PolicyOf: policyOf})
		must(t, s.Insert(t.Context(), "short", user{"a", false}))
		must(t, s.Insert(t.Context(), "long", user{"b", true}))
		time.Sleep(13 * time.Hour)
		_, err := s.Get(t.Context(), "short")
		wantErr(t, err, slidingttl.ErrNotFound)
		wantErr(t, s.Insert(t.Context(), "long", user{"c", false}), slidingttl.ErrExists)
		until, err := s.Touch(t.Context(), "long")
		must(t, err)
		if want := time.Now().Add(remember.IdleGrace); !until.Equal(want) {
			t.Errorf("touch by key wrote %v, want the record's own policy, %v", until, want)
		}
		// A value that brings a tighter policy takes it at once.
		must(t, s.Insert(t.Context(), "other", user{"d", true}))
		_, err = s.Update(t.Context(), "other", func(u user) (user, error) { u.Remember = false; return u, nil })
		must(t, err)
		if e := stored(t, under, "other"); e.ExpiresAt != instant(time.Now().Add(session.IdleGrace+time.Minute)) {
			t.Errorf("after the update the record lives %v on", time.Until(e.ExpiresAt.Time()))
		}
		// One that is past the cap it brings is not written.
		_, err = s.Update(t.Context(), "long", func(u user) (user, error) { u.Remember = false; return u, nil })
		wantErr(t, err, slidingttl.ErrNotFound)
		if e := stored(t, under, "long"); !e.Value.Remember {
			t.Errorf("the update was written")
		}

		bad := open(t, d, session, &slidingttl.Options[user]{PolicyOf: func(user) slidingttl.Policy { return slidingttl.Policy{} }})
		_, err = bad.Get(t.Context(), "long")
		wantErr(t, err, slidingttl.ErrInvalid)
		wantErr(t, bad.Upsert(t.Context(), "long", user{}), slidingttl.ErrInvalid)
	})
}

// TestComputedPolicy: durations that PolicyOf computes are rounded up, and only those.
func TestComputedPolicy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		third := slidingttl.Policy{IdleGrace: 100 * time.Millisecond / 3, MaxLifetime: time.Hour / 7}
		d, under := newRemote[int](time.Millisecond)
		_, err := slidingttl.New(d, third, nil)
		wantErr(t, err, slidingttl.ErrInvalid)
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(int) slidingttl.Policy { return third }})
		must(t, s.Upsert(t.Context(), "k", 1))
		if e := stored(t, under, "k"); e.ExpiresAt.Sub(e.CreatedAt) != 34*time.Millisecond {
			t.Errorf("it lives for %v, want 34ms", e.ExpiresAt.Sub(e.CreatedAt))
		}
		_, err = s.Get(t.Context(), "k")
		must(t, err)
	})
}

func TestGetMulti(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
			d, under := newRemote[int](time.Second)
			d.trip = 10 * time.Millisecond
			s := open(t, d, session, &slidingttl.Options[int]{Touches: mode, Workers: 4})
			keys := []string{"absent", "k0", "k0"}
			for i := range 40 {
				k := fmt.Sprint("k", i)
				keys = append(keys, k)
				must(t, s.Insert(t.Context(), k, i))
			}
			time.Sleep(time.Minute)
			m, err := s.GetMulti(t.Context(), keys)
			must(t, err)
			time.Sleep(time.Second)
			if len(m) != 40 || m["k7"] != 7 {
				t.Errorf("read %v", m)
			}
			if st := s.Stats(); st.Hits != 40 || st.Misses != 1 || st.Touched != 40 || st.Pending != 0 {
				t.Errorf("stats %+v", st)
			}
			if e := stored(t, under, "k39"); e.ExpiresAt.Time().Before(time.Now().Add(session.IdleGrace - 5*time.Second)) {
				t.Errorf("not touched: %+v", e)
			}
			if m, err := s.GetMulti(t.Context(), nil); m == nil || len(m) != 0 || err != nil {
				t.Errorf("of no keys: %v, %v", m, err)
			}
			d.before = func(context.Context, string, string) error { return errDown }
			_, err = s.GetMulti(t.Context(), keys)
			wantErr(t, err, errDown)
		}
	})
}

// TestUpdate has 64 goroutines count one record up while others touch it.
func TestUpdate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		stores := []*slidingttl.Store[int]{open(t, d, session, nil), open(t, d, session, nil)}
		must(t, stores[0].Insert(t.Context(), "k", 0))
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				_, err := stores[i%2].Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
				if err != nil {
					t.Error(err)
				}
			})
			wg.Go(func() {
				if _, err := stores[i%2].Get(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if e := stored(t, under, "k"); e.Value != 64 {
			t.Errorf("64 updates counted %d", e.Value)
		}
	})
}

func TestUpdateIsNotCalledAgainForATouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s, other := open(t, d, session, nil), open[int](t, under, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.before = func(ctx context.Context, op, key string) error {
			if op == "replace" && d.count("replace") == 1 {
				time.Sleep(time.Second)
				_, err := other.Get(ctx, key)
				return err
			}
			return nil
		}
		calls := 0
		_, err := s.Update(t.Context(), "k", func(v int) (int, error) { calls++; return v + 1, nil })
		must(t, err)
		if n := d.count("replace"); calls != 1 || n != 2 {
			t.Errorf("f called %d times in %d attempts, want once in 2", calls, n)
		}
	})
}

func TestUpdateThatFailsWritesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		mine := errors.New("mine")
		if _, err := s.Update(t.Context(), "k", func(int) (int, error) { return 2, mine }); err != mine {
			t.Errorf("got %v, want the function's own error", err)
		}
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("recovered %v", v)
				}
			}()
			_, _ = s.Update(t.Context(), "k", func(int) (int, error) { panic("boom") })
		}()
		if e := stored(t, under, "k"); e.Value != 1 {
			t.Errorf("stored %d", e.Value)
		}
		v, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v + 1, nil })
		if v != 2 || err != nil {
			t.Errorf("after the panic: %v, %v", v, err)
		}
		_, err = s.Update(t.Context(), "absent", func(v int) (int, error) { return v, nil })
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}

func TestUpdateGivesUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		d.before = func(_ context.Context, op, key string) error {
			if op == "replace" {
				under.Plant(key, 5, stored(t, under, key).Life)
			}
			return nil
		}
		_, err := s.Update(t.Context(), "k", func(v int) (int, error) { return v, nil })
		wantErr(t, err, slidingttl.ErrConflict)
		wantErr(t, s.Upsert(t.Context(), "k", 2), slidingttl.ErrConflict)
	})
}

// TestFullQueueWaits shows that a promise is not dropped because the store is slow.
func TestFullQueueWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Queue: 3, Workers: 1, TouchWait: time.Hour})
		start := time.Now().Add(time.Minute)
		fill(t, s, under, 10)
		if time.Since(start) < time.Second {
			t.Errorf("10 reads with a queue of 3 took %v", time.Since(start))
		}
		if st := s.Stats(); st.QueueFull == 0 || st.Pending == 0 {
			t.Errorf("stats %+v", st)
		}
		must(t, s.Close(t.Context()))
		if st := s.Stats(); st.Touched != 10 || st.Pending != 0 {
			t.Errorf("stats %+v, want all touched", st)
		}
	})
}

// TestQueueMergesByKey: many reads of one key wait for one worker.
func TestQueueMergesByKey(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key == "slow" {
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Queue: 2, Workers: 1})
		for _, k := range []string{"slow", "k"} {
			must(t, s.Insert(t.Context(), k, 1))
		}
		time.Sleep(time.Minute)
		_, err := s.Get(t.Context(), "slow")
		must(t, err)
		time.Sleep(time.Millisecond)
		for range 50 {
			time.Sleep(10 * time.Millisecond)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		}
		last := time.Now()
		if st := s.Stats(); st.Pending != 1 || st.QueueFull != 0 {
			t.Errorf("stats %+v", st)
		}
		time.Sleep(2 * time.Second)
		if n := d.count("touch"); n != 2 {
			t.Errorf("%d touches, want 2", n)
		}
		e := stored(t, under, "k")
		if want := session.Deadline(e.CreatedAt, driver.Ceil(last)); e.ExpiresAt != want {
			t.Errorf("the merged touch fell short of the last read by %v", want.Sub(e.ExpiresAt))
		}
	})
}

func TestHookThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, mode := range []slidingttl.TouchMode{slidingttl.Wait, slidingttl.Background} {
			d, _ := newRemote[int](time.Second)
			d.before = func(_ context.Context, op, _ string) error {
				if op == "touch" {
					return errDown
				}
				return nil
			}
			s, err := slidingttl.New(d, session, &slidingttl.Options[int]{
				Touches:      mode,
				OnTouchError: func(context.Context, string, error) { panic("boom") },
			})
			must(t, err)
			must(t, s.Insert(t.Context(), "k", 1))
			for range 3 {
				time.Sleep(time.Minute)
				v, err := s.Get(t.Context(), "k")
				if v != 1 || err != nil {
					t.Errorf("read %v, %v", v, err)
				}
			}
			synctest.Wait() // for a touch and its hook that are under way
			if st := s.Stats(); st.HookPanics < 3 || st.TouchFails != st.HookPanics {
				t.Errorf("stats %+v", st)
			}
			var panicked *slidingttl.PanicError
			if err := s.Close(t.Context()); !errors.As(err, &panicked) || panicked.Value != "boom" || len(panicked.Stack) == 0 {
				t.Errorf("Close = %v, want the panic", err)
			}
		}
	})
}

// A panic of a policy function is an error of the call, and leaves no lock or slot held.
func TestPolicyOfThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: func(v int) slidingttl.Policy {
			if v == 13 {
				panic("boom")
			}
			return session
		}})
		now := instant(time.Now())
		under.Plant("bad", 13, driver.Life{CreatedAt: now, ExpiresAt: now + 1000})
		for range 2 {
			_, err := s.Get(t.Context(), "bad")
			var p *slidingttl.PanicError
			if !errors.As(err, &p) || p.Value != "boom" || !errors.Is(err, slidingttl.ErrInvalid) {
				t.Errorf("Get: %v, want the panic", err)
			}
		}
		must(t, s.Upsert(t.Context(), "bad", 1))
	})
}

func TestTouchByKeyAlone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Second)
		p := withSlack(session, 3*time.Minute)
		s := open[int](t, d, p, nil)
		touch := func(want time.Time, calls map[string]int) {
			t.Helper()
			until, err := s.Touch(t.Context(), "k")
			must(t, err)
			if !until.Equal(want) {
				t.Errorf("until %v, want %v", until, want)
			}
			if got := d.counts(); !maps.Equal(got, calls) {
				t.Errorf("calls %v, want %v", got, calls)
			}
		}
		must(t, s.Insert(t.Context(), "k", 1))
		born := time.Now()
		d.counts()
		time.Sleep(10 * time.Minute)
		touch(time.Now().Add(33*time.Minute), map[string]int{"get": 1, "touch": 1})
		touch(time.Now().Add(33*time.Minute), map[string]int{"get": 1}) // not due
		for time.Since(born) < 11*time.Hour+40*time.Minute {
			time.Sleep(20 * time.Minute)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		}
		d.counts()
		touch(born.Add(session.MaxLifetime), map[string]int{"get": 1}) // at the cap

		// Foreign, gone, dead.
		under.Plant("k", 1, driver.Life{})
		touch(time.Now().Add(33*time.Minute), map[string]int{"get": 1, "touch": 1})
		must(t, under.Delete(t.Context(), "k"))
		_, err := s.Touch(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(33 * time.Minute)
		_, err = s.Touch(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)

		// Many at once share.
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(10 * time.Minute)
		d.counts()
		d.trip = 10 * time.Millisecond
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Touch(t.Context(), "k"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got, want := d.counts(), map[string]int{"get": 100, "touch": 1}; !maps.Equal(got, want) {
			t.Errorf("calls %v, want %v", got, want)
		}
	})
}

func TestExtremePolicies(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const longest = slidingttl.NoCap
		for _, p := range []slidingttl.Policy{
			{IdleGrace: time.Millisecond, MaxLifetime: time.Millisecond},
			{IdleGrace: time.Millisecond, MaxLifetime: longest},
			{IdleGrace: longest, MaxLifetime: longest, Slack: longest},
		} {
			d, _ := newRemote[int](time.Millisecond)
			s := open(t, d, p, nil)
			must(t, s.Insert(t.Context(), "k", 1))
			time.Sleep(time.Millisecond - 1)
			_, err := s.Get(t.Context(), "k")
			must(t, err)
		}
	})
}

// checker is a remote whose Check can fail.
type checker struct {
	*remote[int]
	asked []time.Duration
	wrong error
}

func (c *checker) Check(_ context.Context, longest time.Duration) error {
	c.asked = append(c.asked, longest)
	return c.wrong
}

func TestCheck(t *testing.T) {
	d, _ := newRemote[int](time.Second)
	must(t, open(t, d, session, nil).Check(t.Context()))
	for _, tt := range []struct {
		policy  slidingttl.Policy
		longest time.Duration
	}{
		{session, session.IdleGrace + time.Minute}, // for a lowering, Options.MaxSkew
		{withSlack(session, 10*time.Minute), session.IdleGrace + 11*time.Minute},
		{slidingttl.Policy{IdleGrace: 8 * time.Hour, MaxLifetime: day, Slack: time.Hour, MaxSlack: 8 * time.Hour}, 16*time.Hour + time.Minute},
		{slidingttl.Policy{IdleGrace: 18 * time.Hour, MaxLifetime: day, Slack: 8 * time.Hour}, day},
		{slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: day, Promote: true}, day},
	} {
		d.Has = []any{(*driver.Checker)(nil)}
		c := &checker{remote: d, wrong: errors.New("max TTL is 1h")}
		err := open[int](t, c, tt.policy, nil).Check(t.Context())
		wantErr(t, err, c.wrong)
		if c.asked[0] != tt.longest {
			t.Errorf("%+v asks for %v, want %v", tt.policy, c.asked[0], tt.longest)
		}
	}
}

// TestInsertOverARecordPastItsCap: the store still holds the record as alive.
func TestInsertOverARecordPastItsCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, policyOf := range []func(int) slidingttl.Policy{nil, func(int) slidingttl.Policy { return session }} {
			d, under := newRemote[int](time.Second)
			s := open(t, d, session, &slidingttl.Options[int]{PolicyOf: policyOf})
			old := driver.Life{CreatedAt: instant(time.Now().Add(-session.MaxLifetime)), ExpiresAt: instant(time.Now().Add(time.Hour))}
			for _, write := range []func(context.Context, string, int) error{s.Insert, s.Upsert} {
				under.Plant("k", 1, old)
				must(t, write(t.Context(), "k", 2))
				if e := stored(t, under, "k"); e.CreatedAt != instant(time.Now()) || e.Value != 2 {
					t.Errorf("stored %+v, want a new life", e)
				}
			}
		}
	})
}
