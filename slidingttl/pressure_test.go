package slidingttl_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// plant stores a record under key, made an hour ago, that dies in left.
func plant(under *hoard[int], key string, left time.Duration) {
	now := instant(time.Now())
	under.Plant(key, 1, driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(left)})
}

// read reads key, which must exist, and returns how long that took.
func read(t *testing.T, s *slidingttl.Store[int], key string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := s.Get(t.Context(), key); err != nil {
		t.Errorf("Get %s: %v", key, err)
	}
	return time.Since(began)
}

// failTouches makes the touches of keys for which fail returns true fail, while it is switched on.
func failTouches[T any](d *remote[T], fail func(key string) bool) (set func(bool)) {
	var failing atomic.Bool
	d.before = func(_ context.Context, op, key string) error {
		if op == "touch" && failing.Load() && fail(key) {
			return errDown
		}
		return nil
	}
	return failing.Store
}

func all(string) bool { return true }

// breakOpen opens the breaker of s, whose touches must fail.
func breakOpen(t *testing.T, s *slidingttl.Store[int], under *hoard[int]) {
	t.Helper()
	for i := range 5 {
		key := fmt.Sprint("broken", i)
		plant(under, key, 20*time.Minute)
		read(t, s, key)
	}
	synctest.Wait()
	if !s.Stats().BreakerOpen {
		t.Fatal("the breaker is closed after 5 failures in a row")
	}
}

// touched returns the keys that touches have landed on, in order.
func (r *remote[T]) touched() (keys []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.lives {
		if s.op == "touch" {
			keys = append(keys, s.key)
		}
	}
	return keys
}

// accounted wants every due access to have ended in exactly one way.
func accounted(t *testing.T, st slidingttl.Stats) {
	t.Helper()
	if ended := st.Touched + st.Shared + st.TouchLost + st.Deferred + st.TouchFails + st.Shed; st.Due+st.Retried != ended || st.Pending != 0 {
		t.Errorf("%d due and %d retried, but %d ended: %+v", st.Due, st.Retried, ended, st)
	}
}

// A read waits no longer than TouchWait for its touch, which continues.
func TestBoundedWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 2*time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{TouchWait: 40 * time.Millisecond})
		plant(under, "k", time.Minute)
		promised := instant(time.Now()).Add(session.IdleGrace)
		if took := read(t, s, "k"); took != 40*time.Millisecond {
			t.Errorf("the read took %v, want TouchWait", took)
		}
		time.Sleep(2 * time.Second)
		if e := stored(t, under, "k"); e.ExpiresAt != promised {
			t.Errorf("the touch that went on left %v less than promised", promised.Sub(e.ExpiresAt))
		}
	})
}

// GetMulti waits for all of its touches as long as for one, with no more of them under
// way than it makes at once, and there are workers.
func TestGetMultiWaitsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var touches crowd
		d.before = func(ctx context.Context, op, _ string) error {
			if op != "touch" {
				return nil
			}
			defer touches.enter()()
			return sleep(ctx, time.Second)
		}
		s := open(t, d, session, &slidingttl.Options[int]{Workers: 4, Parallel: 4})
		var keys []string
		for i := range 64 {
			keys = append(keys, fmt.Sprint(i))
			plant(under, keys[i], 10*time.Minute)
		}
		began := time.Now()
		_, err := s.GetMulti(t.Context(), keys)
		must(t, err)
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("GetMulti took %v, want TouchWait", took)
		}
		time.Sleep(time.Minute)
		if n := d.count("touch"); n != 64 {
			t.Errorf("%d touches, want 64", n)
		}
		if n := touches.most.Load(); n > 2*4 { // those waited for, and those that were queued then
			t.Errorf("%d touches under way at once by 4 workers", n)
		}
	})
}

// A store that executes touches, but later than reads wait, gets them as fast as it can.
func TestSlowStoreIsNotProbed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 200*time.Millisecond)
			}
			return nil
		}
		s := open(t, d, session, nil)
		var waited time.Duration
		for i := range 1000 {
			plant(under, fmt.Sprint(i), 5*time.Minute)
			waited += read(t, s, fmt.Sprint(i))
		}
		if waited > time.Second {
			t.Errorf("1000 reads waited %v", waited)
		}
		// 8 workers, 5 a second each: 25 s.
		time.Sleep(27 * time.Second)
		if st := s.Stats(); st.Pending != 0 || st.Touched != 1000 {
			t.Errorf("after 27 s %d wait and %d are done", st.Pending, st.Touched)
		}
	})
}

// While the breaker is open, records whose touches fail do not delay others.
func TestFailingRecordsHoldBackNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		down := func(key string) bool { return key[0] == 'b' }
		set := failTouches(d, down)
		set(true)
		s := open(t, d, session, nil)
		breakOpen(t, s, under)
		for i := range 3 {
			plant(under, fmt.Sprint("bad", i), 3*time.Minute)
			read(t, s, fmt.Sprint("bad", i))
			plant(under, fmt.Sprint("good", i), 4*time.Minute)
			read(t, s, fmt.Sprint("good", i))
		}
		time.Sleep(30 * time.Second)
		for i := range 3 {
			if e := stored(t, under, fmt.Sprint("good", i)); e.ExpiresAt.Sub(instant(time.Now())) < 20*time.Minute {
				t.Errorf("good%d waits behind records whose touches fail", i)
			}
		}
		set(false)
		time.Sleep(30 * time.Second)
	})
}

// Records that died while the store was down do not delay live ones.
func TestDeadRecordsHoldBackNoOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, nil)
		breakOpen(t, s, under)
		for i := range 200 {
			plant(under, fmt.Sprint("dead", i), 30*time.Second)
			read(t, s, fmt.Sprint("dead", i))
		}
		time.Sleep(time.Minute)
		plant(under, "k", 10*time.Minute)
		read(t, s, "k")
		set(false)
		time.Sleep(3 * time.Second)
		if got := d.touched(); !slices.Contains(got, "k") {
			t.Errorf("k waits with %d others", s.Stats().Pending-1)
		}
		if st := s.Stats(); st.Shed != 200 {
			t.Errorf("%d touches whose record has died are counted as shed, want 200", st.Shed)
		}
	})
}

// A probe that fails after another has closed the breaker is tried again.
func TestLateProbeIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var down atomic.Bool
		down.Store(true)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" && down.Load() {
				return errors.Join(sleep(ctx, 4*time.Second), errDown)
			}
			return nil
		}
		s := open(t, d, session, nil)
		for i := range 20 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		time.Sleep(30 * time.Second)
		if !s.Stats().BreakerOpen {
			t.Fatal("the breaker is closed")
		}
		down.Store(false)
		time.Sleep(10 * time.Second)
		if st := s.Stats(); st.BreakerOpen || st.Touched != 20 || st.TouchFails != st.Retried {
			t.Errorf("%d of 20 touched, %+v", st.Touched, st)
		}
	})
}

// When the store works again, the waiting touches nearest to death are made first.
func TestNearestDeathFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, &slidingttl.Options[int]{Workers: 1})
		breakOpen(t, s, under)
		want := make([]string, 50)
		for i := range want {
			want[i] = fmt.Sprint(i)
		}
		for _, i := range rand.Perm(len(want)) {
			plant(under, want[i], time.Minute+time.Duration(i)*time.Second)
			read(t, s, want[i])
		}
		set(false)
		time.Sleep(10 * time.Second)
		if got := d.touched(); len(got) != 55 || !slices.Equal(got[:50], want) {
			t.Errorf("touched %v, want the nearest to death first", got)
		}
	})
}

// Waiting touches merge by life: a later access covers an earlier one, and a record that replaced
// another has its own touch.
func TestQueueMergesByLife(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, nil)
		breakOpen(t, s, under)
		plant(under, "k", 10*time.Minute)
		for range 3 {
			read(t, s, "k")
			time.Sleep(time.Millisecond)
		}
		if st := s.Stats(); st.Pending != 6 || st.Shared != 2 {
			t.Errorf("%d wait, %d merged, want 6 and 2", st.Pending, st.Shared)
		}
		plant(under, "k", 10*time.Minute)
		read(t, s, "k")
		promised := instant(time.Now()).Add(session.IdleGrace)
		if st := s.Stats(); st.Pending != 7 {
			t.Errorf("%d wait, want the new life as well", st.Pending)
		}
		set(false)
		time.Sleep(10 * time.Second)
		st := s.Stats()
		accounted(t, st)
		if e := stored(t, under, "k"); e.ExpiresAt != promised || st.Touched != 6 {
			t.Errorf("expires %v from what was promised, %+v", e.ExpiresAt.Sub(promised), st)
		}
	})
}

// A key whose touch is slow keeps one worker, however often it is read.
func TestSlowKeyKeepsOneWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key == "slow" {
				return sleep(ctx, 4*time.Second)
			}
			return nil
		}
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 2})
		for _, key := range []string{"slow", "quick"} {
			plant(under, key, 10*time.Minute)
		}
		for range 5 {
			read(t, s, "slow")
			time.Sleep(10 * time.Millisecond)
		}
		last := instant(time.Now()).Add(-10 * time.Millisecond)
		read(t, s, "quick")
		time.Sleep(10 * time.Millisecond)
		if got := d.touched(); !slices.Equal(got, []string{"quick"}) {
			t.Errorf("touched %v, want quick", got)
		}
		time.Sleep(10 * time.Second)
		if e := stored(t, under, "slow"); e.ExpiresAt != last.Add(session.IdleGrace) {
			t.Errorf("slow expires %v from what its last read promised", e.ExpiresAt.Sub(last.Add(session.IdleGrace)))
		}
	})
}

// Close makes the waiting touches nearest to death first, and ignores the budget.
func TestCloseIgnoresTheBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		s := open(t, d, session, &slidingttl.Options[int]{Budget: 0.01, Workers: 1})
		plant(under, "first", 10*time.Minute)
		read(t, s, "first") // spends what there is
		want := []string{"first"}
		for i := range 50 {
			want = append(want, fmt.Sprint(i))
		}
		for _, i := range rand.Perm(50) {
			plant(under, fmt.Sprint(i), 10*time.Minute+time.Duration(i)*time.Second)
			read(t, s, fmt.Sprint(i))
		}
		if n := s.Stats().Pending; n != 50 {
			t.Fatalf("%d wait, want 50", n)
		}
		began := time.Now()
		must(t, s.Close(t.Context()))
		if took := time.Since(began); took > time.Second {
			t.Errorf("Close took %v", took)
		}
		if got := d.touched(); !slices.Equal(got, want) {
			t.Errorf("touched %v, want the nearest to death first", got)
		}
	})
}

// With the breaker open, Close gives up and counts the rest if the store refuses one touch. If it
// accepts one, the rest is made.
func TestCloseOverAnOpenBreaker(t *testing.T) {
	for name, back := range map[string]bool{"down": false, "back": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				set := failTouches(d, all)
				set(true)
				s, err := slidingttl.New(d, session, nil)
				must(t, err)
				breakOpen(t, s, under)
				for i := range 100 {
					plant(under, fmt.Sprint(i), 10*time.Minute)
					read(t, s, fmt.Sprint(i))
				}
				d.counts()
				set(!back)
				err = s.Close(t.Context())
				accounted(t, s.Stats())
				if back {
					must(t, err)
					if n := d.count("touch"); n != 105 {
						t.Errorf("%d touches, want 105", n)
					}
					return
				}
				var drain *slidingttl.DrainError
				if !errors.As(err, &drain) || drain.Abandoned != 104 || !errors.Is(err, errDown) {
					t.Errorf("Close: %v, want 104 given up, for the store is down", err)
				}
				if n := d.count("touch"); n != 1 {
					t.Errorf("%d touches, want 1", n)
				}
				must(t, s.Close(t.Context()))
			})
		})
	}
}

// A full queue sheds the touch farthest from death, and counts what that costs at most.
func TestShedIsCounted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		var shed atomic.Int32
		s := open(t, d, session, &slidingttl.Options[int]{Queue: 5, OnTouchError: func(_ context.Context, _ string, err error) {
			if errors.Is(err, slidingttl.ErrShed) {
				shed.Add(1)
			}
		}})
		breakOpen(t, s, under) // those die in 20 min
		was := s.Stats()
		for i, left := range []time.Duration{10, 15, 25} {
			plant(under, fmt.Sprint(i), left*time.Minute)
			read(t, s, fmt.Sprint(i))
		}
		synctest.Wait() // hooks run beside the reads
		st := s.Stats()
		// Two of those that die in 20 min, and the one that dies in 25.
		if st.Shed != 3 || shed.Load() != 3 || st.Pending != 5 || st.Broken-was.Broken != 25*time.Minute {
			t.Errorf("%d shed, %d told, %d wait, %v broken", st.Shed, shed.Load(), st.Pending, st.Broken-was.Broken)
		}
		set(false)
		time.Sleep(10 * time.Second)
		accounted(t, s.Stats())
	})
}

// A caller may hold a lock that its hooks want: none runs on the goroutine of a call.
func TestHooksWantTheCallersLock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		lock := make(chan bool, 1) // synctest sees a wait for it
		locked := func(f func()) {
			lock <- true
			f()
			<-lock
		}
		var told int
		tell := func(bool) { locked(func() { told++ }) }
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, &slidingttl.Options[int]{
			Queue:        5,
			Observer:     &slidingttl.Observer{Breaker: tell, Budget: tell},
			OnTouchError: func(context.Context, string, error) { tell(true) },
		})
		breakOpen(t, s, under)
		for i := range 9 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			locked(func() { read(t, s, fmt.Sprint(i)) })
			locked(func() { s.Stats() })
		}
		set(false)
		time.Sleep(time.Minute)
		locked(func() { s.Stats() })
		synctest.Wait()
		if told < 2+9 {
			t.Errorf("hooks ran %d times", told)
		}
	})
}

// A touch whose record died while it waited is shed, and counts as a broken promise.
func TestDeadInTheQueueIsBroken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		set := failTouches(d, all)
		set(true)
		s := open(t, d, session, &slidingttl.Options[int]{Touches: slidingttl.Background})
		for i := range 20 {
			plant(under, fmt.Sprint(i), 10*time.Minute)
			read(t, s, fmt.Sprint(i)) // which promises half an hour
		}
		time.Sleep(10*time.Minute - time.Millisecond)
		synctest.Wait()
		set(false)
		d.trip = 2 * time.Millisecond
		err := s.Flush(t.Context())
		if st := s.Stats(); st.Shed != 20 || st.Broken < 20*20*time.Minute {
			t.Errorf("%d touches are shed, and %v of the promised life is missing", st.Shed, st.Broken)
		}
		if err == nil {
			t.Error("Flush tells of none of them")
		}
	})
}

// A touch that fails rests as long once its record has died as before: the shard that refuses it gets
// few calls, and those of the others stay together above it.
func TestDeadRecordsRest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		var bad atomic.Bool
		var calls atomic.Int64
		d.before = func(_ context.Context, op, key string) error {
			if key[0] == 'b' && (bad.Load() || op == "touch") {
				calls.Add(1)
				return errDown
			}
			return nil
		}
		s := open(t, d, session, nil)
		const keys = 20
		for i := range keys {
			plant(under, fmt.Sprint("b", i), 20*time.Second)
			read(t, s, fmt.Sprint("b", i))
		}
		bad.Store(true)
		broken := 0
		for i := range 1200 {
			if i == 600 { // all have died
				calls.Store(0)
			}
			key := fmt.Sprint("good", i)
			plant(under, key, 10*time.Minute)
			read(t, s, key)
			time.Sleep(100 * time.Millisecond)
			if i > 600 && s.Stats().BreakerOpen {
				broken++
			}
		}
		if n := calls.Load(); n > 8*keys || broken > 60 {
			t.Errorf("%d calls in a minute for %d records that are dead; the breaker is open %d times of 600", n, keys, broken)
		}
	})
}

// A store that makes four fifths of the touches in time saves about four fifths of the records, also while it is closed:
// none takes the turn of another that will be dead before it has landed.
func TestSlowStoreSavesWhatItCan(t *testing.T) {
	for _, closes := range []bool{false, true} {
		t.Run(fmt.Sprint("closes: ", closes), func(t *testing.T) {
			bubble(t, func(t *testing.T) { judgeSlowStore(t, closes) })
		})
	}
}

func judgeSlowStore(t *testing.T, closes bool) {
	const records, rate = 3600, 10 // which die over 290 s: 12 a second
	d, under := newRemote[int](time.Millisecond)
	server := make(chan bool, 1) // makes one touch at a time
	saved := 0
	d.before = func(ctx context.Context, op, key string) error {
		if op != "touch" {
			return nil
		}
		select {
		case server <- true:
			defer func() { <-server }()
		case <-ctx.Done():
			return ctx.Err()
		}
		err := sleep(ctx, time.Second/rate)
		e, gone := under.Get(context.Background(), key)
		switch {
		case err != nil || gone != nil:
		case !e.Alive(instant(time.Now())):
			err = driver.ErrNotFound // by the store's own time
		default:
			saved++
		}
		return err
	}
	s, err := slidingttl.New(d, session, &slidingttl.Options[int]{Touches: slidingttl.Background, Workers: 8})
	must(t, err)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range records {
		key := fmt.Sprint(i)
		plant(under, key, 10*time.Second+time.Duration(r.Int64N(int64(290*time.Second))))
		read(t, s, key)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if !closes {
		time.Sleep(5 * time.Minute)
	}
	_ = s.Close(ctx)
	synctest.Wait()
	server <- true // what is saved has been counted
	if saved < rate*300*9/10 {
		t.Errorf("%d of %d records are saved, after %d touches could be made", saved, records, rate*300)
	}
}

// With a Budget, a record near its death does not wait for those that have time, however long other touches take.
func TestNearDeathBesideSlowTouches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, key string) error {
			if op == "touch" && key[0] == 's' { // of a shard that is slow
				return sleep(ctx, 3*time.Second)
			}
			return nil
		}
		monthly := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: 90 * 24 * time.Hour}
		s := open(t, d, monthly, &slidingttl.Options[int]{Touches: slidingttl.Background, Budget: 5})
		for i := range 200 {
			key := fmt.Sprint("slow", i)
			plant(under, key, 25*24*time.Hour)
			read(t, s, key)
		}
		time.Sleep(20 * time.Second)
		for i := range 3 {
			key := fmt.Sprint("near", i)
			plant(under, key, time.Second)
			read(t, s, key)
			time.Sleep(2 * time.Second)
			if e := stored(t, under, key); !e.Alive(instant(time.Now())) {
				t.Errorf("%s is dead", key)
			}
		}
	})
}
