package touches

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/rules"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/policy"
)

var minute = rules.New(policy.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, time.Millisecond, time.Second, false)

var hourly = rules.New(policy.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, time.Millisecond, time.Second, false)

// fixture is touches whose writes and reads the test decides and counts.
type fixture struct {
	*Touches
	down, slow    atomic.Bool // writes fail, and take 20 ms
	stored        atomic.Pointer[driver.Meta]
	wrote         atomic.Pointer[driver.Life]
	writes, reads atomic.Int64
}

func newFixture(c Config) *fixture {
	f := new(fixture)
	c.Write = func(_ context.Context, _ string, was driver.Meta, life driver.Life, _ driver.Instant) (driver.Version, error) {
		f.writes.Add(1)
		f.wrote.Store(&life)
		if f.slow.Load() {
			time.Sleep(20 * time.Millisecond)
		}
		if f.down.Load() {
			return 0, errDown
		}
		return was.Version + 1, nil
	}
	c.Read = func(context.Context, string) (driver.Meta, *rules.Rules, error) {
		f.reads.Add(1)
		return *f.stored.Load(), minute, nil
	}
	c.Changed, c.Clock, c.Tally, c.Memo = func(State) {}, wallClock{}, new(tally.Tally), NewMemo(64)
	c.Wait, c.MaxSkew = 100*time.Millisecond, time.Second
	c.Timeout, c.Queue = cmp.Or(c.Timeout, 5*time.Second), cmp.Or(c.Queue, 100)
	f.Touches = New(c)
	return f
}

func bubble(f func(*testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, f) }
}

// record is one of the bubble's first instant, with left to live.
func record(left time.Duration) driver.Meta {
	now := driver.Floor(time.Now())
	return driver.Meta{Life: driver.Life{CreatedAt: 946684800_000, ExpiresAt: now.Add(left)}, Version: 1}
}

// touch makes an access to key that read m, and returns its outcome and how long it waited.
func (f *fixture) touch(t *testing.T, key string, m driver.Meta) (o Outcome, waited time.Duration) {
	t.Helper()
	began := time.Now()
	var a Access
	if !f.Due(&a, began, key, m, minute, driver.Life{}, f.Memo.Clock()) {
		t.Error("no touch is due")
	}
	o = f.TouchOrQueue(t.Context(), &a, f.Late(), false)
	return o, time.Since(began)
}

var errDown = errors.New("store is down")

// A read whose key's touch rests after a failure neither waits nor sends it.
func TestRestingTouchIsNotSentByReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{})
		f.down.Store(true)
		m := record(50 * time.Second)
		f.stored.Store(&m)
		f.touch(t, "a", m)
		time.Sleep(100 * time.Millisecond)
		if _, waited := f.touch(t, "a", m); waited != 0 || f.writes.Load() != 1 {
			t.Errorf("it waited %v, and %d touches were sent", waited, f.writes.Load())
		}
		f.down.Store(false)
		time.Sleep(time.Second)
		if f.writes.Load() != 2 {
			t.Errorf("%d touches", f.writes.Load())
		}
	})
}

// A second read of a key whose touch of another life is under way waits for its own.
func TestReadWaitsForTheTouchItShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{})
		f.slow.Store(true)
		life, next := record(30*time.Second), record(40*time.Second)
		next.CreatedAt++
		f.stored.Store(&next)
		go f.touch(t, "a", life)
		synctest.Wait()
		for range 2 { // the second shares the touch that the first has added
			go func() {
				if o, waited := f.touch(t, "a", next); o.Err != nil || waited != 40*time.Millisecond {
					t.Errorf("it waited %v: %v", waited, o.Err)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
	})
}

// A touch that a read and a save share is a read's, whichever came first: with Promote it keeps the record
// to its cap.
func TestReadPromotesBesideASave(t *testing.T) {
	promote := rules.New(policy.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour, Promote: true}, time.Millisecond, time.Second, false)
	for _, saves := range [][]bool{{false, true}, {true, false}, {true, true}} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(Config{Background: true, Wait: time.Millisecond})
			m := record(time.Second)
			m.CreatedAt = driver.Floor(time.Now())
			f.Read = func(context.Context, string) (driver.Meta, *rules.Rules, error) { return m, promote, nil }
			f.slow.Store(true)
			f.down.Store(true)
			for i, saved := range slices.Concat(saves[:1], saves) { // the first fails, and rests
				var a Access
				if !f.Due(&a, time.Now(), "a", m, promote, driver.Life{}, f.Memo.Clock()) {
					t.Error("no touch is due")
				}
				a.Saved = saved
				f.TouchOrQueue(t.Context(), &a, time.Time{}, false)
				time.Sleep(time.Duration(21-20*i) * time.Millisecond)
			}
			f.down.Store(false)
			if err := f.Flush(t.Context()); err != nil {
				t.Error(err)
			}
			if l, read := *f.wrote.Load(), !(saves[0] && saves[1]); (l.ExpiresAt > m.CreatedAt.Add(2*time.Minute)) != read {
				t.Errorf("saves %v: %v are left", saves, l.ExpiresAt.Sub(m.CreatedAt))
			}
		})
	}
}

// Flush sends at once what rests after a failure, each time, and once each time. Its own failure may
// be the one that makes the store a failing one.
func TestFlushEndsRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{})
		f.down.Store(true)
		m := record(50 * time.Second)
		f.stored.Store(&m)
		f.touch(t, "a", m)
		time.Sleep(10 * time.Second) // the rest now is of 4 s or 8 s
		began := time.Now()
		if err := f.Flush(t.Context()); !errors.Is(err, errDown) {
			t.Errorf("Flush: %v", err)
		}
		synctest.Wait()
		if n := f.writes.Load(); n != 5 {
			t.Errorf("%d touches; want 4 and that of Flush", n)
		}
		f.down.Store(false)
		if err := f.Flush(t.Context()); err != nil || time.Since(began) != 0 {
			t.Errorf("Flush: %v after %v", err, time.Since(began))
		}
	})
}

// A failing store that refuses touches is tried by one at a time, again within a second. One that hangs is
// tried by eight, and by another within eight seconds. So it is whatever Timeout is, and though a touch
// never returns.
func TestProbes(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 5 * time.Second, time.Minute, time.Hour, math.MaxInt64} {
		t.Run(timeout.String(), bubble(func(t *testing.T) {
			f := newFixture(Config{Timeout: timeout, Background: true})
			var hangs, works, deaf atomic.Bool
			stuck := make(chan struct{})
			var under, most, sent atomic.Int64
			f.Write = func(ctx context.Context, _ string, was driver.Meta, _ driver.Life, _ driver.Instant) (driver.Version, error) {
				sent.Add(1)
				most.Store(max(most.Load(), under.Add(1)))
				defer under.Add(-1)
				if deaf.CompareAndSwap(true, false) {
					<-stuck
				}
				if hangs.Load() {
					<-ctx.Done()
				}
				if !works.Load() {
					return 0, errDown
				}
				return was.Version + 1, nil
			}
			began, pending := time.Now(), 100
			m := record(20 * time.Minute)
			var a Access
			f.Read = func(context.Context, string) (driver.Meta, *rules.Rules, error) { return m, hourly, nil }
			for i := range pending {
				if !f.Due(&a, began, fmt.Sprint(i), m, hourly, driver.Life{}, 0) {
					t.Fatal("no touch is due")
				}
				f.TouchOrQueue(t.Context(), &a, time.Time{}, false)
				synctest.Wait()
			}
			during := func(d time.Duration) (int64, int64) {
				sent.Store(0)
				most.Store(under.Load())
				time.Sleep(d)
				return sent.Load(), most.Load()
			}
			if n, most := during(20500 * time.Millisecond); n < 20 || most > 1 {
				t.Errorf("a store that refuses was tried %d times in 20.5 s, by %d at once", n, most)
			}
			hangs.Store(true)
			if n, most := during(3 * time.Minute); n < 23 || most > mostTries+1 {
				t.Errorf("a store that hangs was tried %d times in 3 min, by %d at once", n, most)
			}
			hangs.Store(false)
			deaf.Store(true)
			during(8 * time.Second)
			if deaf.Load() {
				t.Error("none was tried for 8 s")
			}
			works.Store(true)
			during(8 * time.Second)
			if state, _, _ := f.Now(); state.Failing {
				t.Error("the breaker is open")
			}
			close(stuck)
			if err := f.Flush(t.Context()); err != nil {
				t.Error(err)
			}
		}))
	}
}

// A hook that hangs holds one goroutine, however many touches are shed meanwhile, and of those after
// 65,536 no hook is called.
func TestHungHookHoldsOneGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, told := make(chan bool), 0
		f := newFixture(Config{Queue: 5, Budget: 0.001, Ended: func(_ context.Context, e Event) {
			if e.Err == ErrShed {
				told++
				<-release
			}
		}})
		const accesses = 70_000
		m := record(10 * time.Minute)
		before := runtime.NumGoroutine()
		for i := range accesses {
			f.touch(t, fmt.Sprint(i), m)
		}
		synctest.Wait()
		if n := runtime.NumGoroutine(); n > before+10 {
			t.Errorf("%d goroutines more", n-before)
		}
		shed, skipped := f.Tally.Sum(tally.Outcomes+tally.Counter(Shed)), f.Tally.Sum(tally.HooksSkipped)
		if skipped == 0 || skipped > shed-1<<16 {
			t.Errorf("%d hooks of %d were skipped", skipped, shed)
		}
		close(release)
		calls := make(chan struct{})
		close(calls)
		_, _, _, _ = f.Close(t.Context(), calls, noCalls)
		if told != int(shed-skipped) {
			t.Errorf("%d hooks were called, of %d shed and %d skipped", told, shed, skipped)
		}
	})
}

// What Close gives up is told in any case, however many hooks wait.
func TestGivenUpIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, told := make(chan bool), 0
		f := newFixture(Config{Queue: 70_000, Background: true, Budget: 0.001, Failures: true, Ended: func(context.Context, Event) {
			told++
			<-release
		}})
		m := record(50 * time.Second)
		for i := range 70_000 {
			f.touch(t, fmt.Sprint(i), m)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		givenUp, _, _, _ := f.Close(ctx, nil, noCalls)
		synctest.Wait()
		close(release)
		if synctest.Wait(); givenUp < 1<<16 || told != givenUp {
			t.Errorf("%d were given up, and %d told", givenUp, told)
		}
	})
}

// A call whose touch is refused while Close counts the calls is in one number or the other.
func TestRefusedWhileCloseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Background: true})
		m := record(50 * time.Second)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		givenUp, _, _, _ := f.Close(ctx, nil, func() int {
			f.touch(t, "a", m)
			return 0
		})
		if givenUp != 1 {
			t.Errorf("Close gave up %d touches, and one was refused", givenUp)
		}
	})
}

func noCalls() int { return 0 }

// If only failures are to be told, other touches do not wait behind a hook that hangs.
func TestOnlyFailuresAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release, told := make(chan bool), 0
		f := newFixture(Config{Failures: true, Ended: func(context.Context, Event) {
			told++
			<-release
		}})
		m := record(time.Minute / 2)
		f.stored.Store(&m)
		f.down.Store(true)
		f.touch(t, "a", m)
		f.down.Store(false)
		for i := range 10 {
			f.touch(t, fmt.Sprint(i), m)
		}
		synctest.Wait()
		f.lock()
		waiting := len(f.hooks)
		f.unlock()
		if told != 1 || waiting != 0 {
			t.Errorf("%d told, %d wait", told, waiting)
		}
		close(release)
		calls := make(chan struct{})
		close(calls)
		if _, _, _, _ = f.Close(t.Context(), calls, noCalls); told != 1 {
			t.Errorf("%d told", told)
		}
	})
}

// A touch that landed since a record was read serves its access without another write.
func TestLandedTouchServesALaterAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{})
		m := record(30 * time.Second)
		var second Access
		if !f.Due(&second, time.Now(), "a", m, minute, driver.Life{}, f.Memo.Clock()) {
			t.Fatal("no touch is due")
		}
		f.touch(t, "a", m)
		if o := f.TouchOrQueue(t.Context(), &second, time.Time{}, true); o.Err != nil || o.result != Shared || f.writes.Load() != 1 {
			t.Errorf("%+v, %d writes", o, f.writes.Load())
		}
	})
}

// A read and touch in one that ends without an answer is no touch, and spoils none that waits.
func TestReadTouchWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Ended: func(_ context.Context, e Event) {
			if e.Result != Written {
				t.Errorf("told %+v", e)
			}
		}})
		done := f.ReadTouch(t.Context(), "a", func(context.Context) (Outcome, bool) {
			time.Sleep(10 * time.Millisecond)
			runtime.Goexit()
			return Outcome{}, false
		})
		f.touch(t, "a", record(30*time.Second))
		<-done
		if n := f.Tally.Sum(tally.Outcomes + tally.Counter(Written)); n != 1 || f.reads.Load() != 0 {
			t.Errorf("%d touches, %d reads", n, f.reads.Load())
		}
	})
}

// An access that does not wait has its record as it was.
func TestNoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Background: true})
		m := record(30 * time.Second)
		if o, waited := f.touch(t, "a", m); o.Meta != m || o.Err != nil || waited != 0 {
			t.Errorf("%+v after %v", o, waited)
		}
	})
}

// A life that a save carries over stays with what it saved, whichever access comes first.
func TestMergeKeepsTheLifeBefore(t *testing.T) {
	saved, other := driver.Meta{Version: 2}, driver.Meta{Version: 3}
	before, earlier := driver.Life{CreatedAt: 5, ExpiresAt: 50}, driver.Life{CreatedAt: 4, ExpiresAt: 40}
	for _, tt := range []struct {
		was, later  Access
		keeps       driver.Life
		description string
	}{
		{Access{Was: saved, Before: before}, Access{Was: saved, At: 1}, before, "a read after the save"},
		{Access{Was: saved, Before: before}, Access{Was: saved, Before: earlier, At: 1}, earlier, "another save"},
		{Access{Was: saved, Before: before}, Access{Was: other, At: 1}, driver.Life{}, "a read of another version"},
		{Access{Was: saved, At: 1}, Access{Was: saved, Before: before}, before, "a save whose access is earlier"},
	} {
		n := &touch{Access: tt.was}
		n.Rules, tt.later.Rules = minute, minute
		if n.merge(tt.later); n.Before != tt.keeps {
			t.Errorf("%s: %+v", tt.description, n.Before)
		}
	}
}

// A touch serves an access that read the record which it was planned for, or the one that it replaced
// after a race, and none that read another.
func TestTouchServesWhatItKnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := driver.Floor(time.Now())
		planned, replaced, written := record(30*time.Second), record(31*time.Second), record(time.Minute)
		replaced.Version, written.Version = 2, 3
		other := planned
		other.Version = 4
		for want, all := range map[bool][]driver.Meta{true: {planned, replaced}, false: {other}} {
			for _, m := range all {
				a, o := Access{Was: m, Rules: minute, At: now, DueFrom: now}, Outcome{Was: planned, Replaced: replaced, Meta: written}
				if o.serves(&a) != want {
					t.Errorf("serves an access that read version %d: %v", m.Version, !want)
				}
			}
		}
	})
}

// What a touch wrote does not serve an access that is to lower the expiry.
func TestTouchServesNoLowering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		far := record(24 * time.Hour)
		now := driver.Floor(time.Now())
		a := Access{Was: far, Rules: minute, At: now, DueFrom: now}
		o := Outcome{Was: far, Replaced: far, Meta: far}
		if !a.lowers() || o.serves(&a) {
			t.Errorf("lowers %v, served %v", a.lowers(), o.serves(&a))
		}
	})
}

// The bound on touches in flight: small after a bad time, and grown by touches that land.
func TestLimits(t *testing.T) {
	l := newLimits(0)
	l.running = 100
	l.slowStart()
	if l.most != 100+leastInFlight {
		t.Errorf("after slowStart %d may run", l.most)
	}
	l.running, l.queued = l.most, leastInFlight
	if !l.isFull() {
		t.Error("more run than may")
	}
	if l.running--; l.isFull() {
		t.Error("fewer run than may")
	}
	synctest.Test(t, func(t *testing.T) {
		for _, late := range []bool{false, true} {
			f := newFixture(Config{})
			f.limits.slowStart()
			f.pressure.Late, f.pressure.trouble = late, time.Now()
			f.touch(t, "a", record(30*time.Second))
			synctest.Wait()
			f.mu.Lock()
			if want := map[bool]int{false: mostInFlight, true: leastInFlight + 1}[late]; f.limits.most != want {
				t.Errorf("after a touch that landed (late ones: %v) %d may run, want %d", late, f.limits.most, want)
			}
			f.mu.Unlock()
		}
	})
}

// A key that is being deleted blocks the memory of few others.
func TestDeletingBlocksFewKeys(t *testing.T) {
	m := NewMemo(1 << 10)
	defer m.Deleting("a")()
	known := 0
	for i := range 100 {
		key := string(rune('b' + i))
		m.Wrote(key, meta(10), m.Clock(), 0, false)
		if m.Known(key) != nil {
			known++
		}
	}
	if known < 90 {
		t.Errorf("%d of 100 keys are remembered", known)
	}
}

// A touch that is to read first and cannot, and one whose goroutine a caller's function ends, have failed:
// once, until they are tried again.
func TestTouchCannotReadOrExits(t *testing.T) {
	for _, exits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			f := newFixture(Config{Background: true})
			f.Read = func(context.Context, string) (driver.Meta, *rules.Rules, error) {
				if f.reads.Add(1); exits {
					runtime.Goexit()
				}
				return driver.Meta{}, nil, errDown
			}
			f.down.Store(true)
			f.touch(t, "a", record(50*time.Second))
			synctest.Wait()
			time.Sleep(1500 * time.Millisecond) // rests of 1 s and 2 s
			if reads, failed := f.reads.Load(), f.Tally.Sum(tally.Outcomes+tally.Counter(Failed)); reads != 1 || failed != 2 {
				t.Errorf("exits: %v: read %d times, %d failures", exits, reads, failed)
			}
		})
	}
}

// What failed while the store failed no others is tried again in one turn of eight, even if its record
// is the nearest to death.
func TestRetryTakesOneTurnOfEight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(Config{Background: true, Workers: 1})
		var order []string
		f.Write = func(_ context.Context, key string, was driver.Meta, _ driver.Life, _ driver.Instant) (driver.Version, error) {
			if order = append(order, key); len(order) == 1 {
				return 0, errDown
			}
			time.Sleep(50 * time.Millisecond)
			return was.Version + 1, nil
		}
		near, far := record(30*time.Second), record(50*time.Second)
		f.stored.Store(&near)
		f.touch(t, "near", near)
		time.Sleep(shortestRest - 10*time.Millisecond)
		for i := range 20 {
			f.touch(t, fmt.Sprint(i), far)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if at := slices.Index(order[1:], "near"); at != retryShare-2 {
			t.Errorf("it was tried again after %d others, want %d: %v", at, retryShare-2, order)
		}
	})
}
