package slidingttl_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/fakestore"
)

// lagging is a remote store whose Get returns the records as of the last call of catchUp, like an
// eventually consistent read.
type lagging[T any] struct {
	*remote[T]
	view map[string]driver.Entry[T]
}

func newLagging[T any](step time.Duration) (*lagging[T], *hoard[T]) {
	d, under := newRemote[T](step)
	d.Has = []any{(*driver.Latest[T])(nil)}
	return &lagging[T]{d, map[string]driver.Entry[T]{}}, under
}

// catchUp makes Get return key's present record from now on.
func (d *lagging[T]) catchUp(t *testing.T, key string) { d.view[key] = stored(t, d.under, key) }

func (d *lagging[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	if e, ok := d.view[key]; ok {
		return e, ctx.Err()
	}
	return d.remote.Get(ctx, key)
}

// Latest implements driver.Latest.
func (d *lagging[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.remote.Get(ctx, key)
}

// Promise 3: an update that begins with a record as it was read asks the store before
// it says that the record died since.
func TestUpdateEntryAsksTheStore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s, other := open(t, d, brink, nil), open(t, under, brink, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		e, err := s.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(900 * time.Millisecond)
		_, err = other.Get(t.Context(), "k")
		must(t, err)
		time.Sleep(200 * time.Millisecond)
		if _, err := s.UpdateEntry(t.Context(), "k", e, func(v int) (int, error) { return v + 1, nil }); err != nil {
			t.Errorf("an update of a record that never died: %v", err)
		}
	})
}

// Promise 3: a record that is dead by a stale read is read again, even if the clock of the process
// that touched it is behind.
func TestStaleReadByAClockAhead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		ahead := func() time.Time { return time.Now().Add(30 * time.Second) }
		s, other := open(t, d, brink, &slidingttl.Options[int]{Now: ahead}), open(t, under, withSlack(session, time.Minute), nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(12 * time.Second)
		d.catchUp(t, "k")
		_, err := other.Get(t.Context(), "k")
		must(t, err)
		time.Sleep(9 * time.Second)
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("a record that another touched 9 s ago: %v", err)
		}
	})
}

// A deleted key is remembered again once no stale read can show the record any more.
func TestDeletedKeyIsRememberedAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newLagging[int](time.Millisecond)
		s := open(t, d, withSlack(session, time.Minute), nil)
		must(t, s.Insert(t.Context(), "k", 1))
		must(t, s.Delete(t.Context(), "k"))
		must(t, s.Insert(t.Context(), "k", 2))
		for _, want := range []int{1, 1, 1, 0} {
			d.counts()
			must(t, s.Keep(t.Context(), "k"))
			if n := d.counts()["get"]; n != want {
				t.Errorf("Keep reads %d times, want %d", n, want)
			}
			time.Sleep(6 * time.Second)
		}
	})
}

// As TestStaleReadByAClockAhead, if the clocks may be any time apart.
func TestStaleReadByAnyClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		s, other := open(t, d, brink, &slidingttl.Options[int]{MaxSkew: math.MaxInt64}), open(t, under, brink, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(brink.IdleGrace / 2)
		d.catchUp(t, "k")
		_, err := other.Get(t.Context(), "k")
		must(t, err)
		time.Sleep(brink.IdleGrace * 3 / 4)
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("a record that another has touched: %v", err)
		}
	})
}

// Promise 6: an entry's version is that of its value, so that an update which begins
// with it loses no other's.
func TestEntryHasItsOwnVersion(t *testing.T) {
	for name, access := range map[string]func(context.Context, *slidingttl.Store[int]) (slidingttl.Entry[int], error){
		"Entry": func(ctx context.Context, s *slidingttl.Store[int]) (slidingttl.Entry[int], error) {
			return s.Entry(ctx, "k")
		},
		"TouchEntry": func(ctx context.Context, s *slidingttl.Store[int]) (slidingttl.Entry[int], error) {
			e, err := s.Peek(ctx, "k")
			if err != nil {
				return e, err
			}
			return s.TouchEntry(ctx, "k", e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newRemote[int](time.Millisecond)
				s, other := open(t, d, session, nil), open(t, under, session, nil)
				must(t, s.Insert(t.Context(), "k", 1))
				time.Sleep(time.Minute)
				overwrite := once("touch", func() { must(t, other.Upsert(t.Context(), "k", 10)) })
				d.before = func(_ context.Context, op, _ string) error { overwrite(op); return nil }
				e, err := access(t.Context(), s)
				must(t, err)
				if now := stored(t, under, "k"); e.Value != now.Value && e.Version == now.Version {
					t.Errorf("value %d comes with the version of value %d", e.Value, now.Value)
				}
				_, err = s.UpdateEntry(t.Context(), "k", e, func(v int) (int, error) { return v + 1, nil })
				must(t, err)
				if now := stored(t, under, "k"); now.Value != 11 {
					t.Errorf("the update made %d of the 10 that another wrote", now.Value)
				}
			})
		})
	}
}

// Promise 7: how often a policy that is tightened again may lower an expiry is a matter
// of what it says, and not of what the policy before it said.
func TestTighterTwice(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open(t, d, loose30d, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		for _, idle := range []time.Duration{24 * time.Hour, time.Hour} {
			time.Sleep(10 * time.Minute) // more than an eighth of the last
			must(t, s.SetPolicy(slidingttl.Policy{IdleGrace: idle, MaxLifetime: loose30d.MaxLifetime}))
			_, err := s.Get(t.Context(), "k")
			must(t, err)
			if left := stored(t, under, "k").ExpiresAt.Sub(instant(time.Now())); left > idle+maxSkew+2*time.Millisecond {
				t.Errorf("lives for %v more, want %v", left, idle)
			}
		}
	})
}

// Promise 5: the created_at that Wrap puts back is not that of a record which a stale
// read still shows.
func TestWrapIsNotMisledByAStaleRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[profile](time.Second)
		w, err := slidingttl.Wrap(profiles{under}, open(t, d, account, nil), profileKey, nil)
		must(t, err)
		must(t, w.Upsert(t.Context(), 1, profile{Name: "ann"}))
		time.Sleep(24 * time.Hour)
		d.catchUp(t, profileKey(1))
		must(t, under.Delete(t.Context(), profileKey(1)))
		must(t, w.Upsert(t.Context(), 1, profile{Name: "bob"}))
		if e := stored(t, under, profileKey(1)); instant(time.Now()).Sub(e.CreatedAt) > time.Second {
			t.Errorf("a record made now is %v old", instant(time.Now()).Sub(e.CreatedAt))
		}
	})
}

// Promise 3: a touch by key that a stale read has sent after an older record follows
// the one that is there.
func TestTouchIsNotMisledByAStaleRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		s, other := open(t, d, session, nil), open(t, under, session, nil)
		must(t, other.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.catchUp(t, "k")
		must(t, other.Delete(t.Context(), "k"))
		must(t, other.Insert(t.Context(), "k", 2))
		time.Sleep(time.Second)
		if _, err := s.Touch(t.Context(), "k"); err != nil {
			t.Errorf("touch of a live record: %v", err)
		}
	})
}

// pairing makes d a store that reads and touches in one trip.
func pairing(d *remote[int]) *remote[int] {
	d.Has = []any{(*driver.ReadToucher[int])(nil)}
	return d
}

// A read leaves no timer behind, however long it could have waited for its touch, though the read and touch in one fails.
func TestFailedReadTouchLeavesNoTimer(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		d.before = func(context.Context, string, string) error { return errDown }
		s := open[int](t, pairing(d), session, &slidingttl.Options[int]{TouchWait: time.Hour, TouchTimeout: time.Hour})
		heap := func() int {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		const reads = 5_000
		get := func() {
			for range reads {
				if _, err := s.Get(t.Context(), "k"); !errors.Is(err, errDown) {
					t.Fatal(err)
				}
			}
		}
		get()
		was := heap()
		if get(); heap()-was > 50*reads {
			t.Errorf("%d bytes stay of each read", (heap()-was)/reads)
		}
		if d.count("read touch") == 0 {
			t.Error("nothing is read and touched in one")
		}
	})
}

// vanishing is a driver in this process's memory whose records are gone when they are read
// and touched in one.
type vanishing struct{ *memory.Driver[int] }

// ReadTouch implements driver.ReadToucher.
func (vanishing) ReadTouch(context.Context, string, *driver.Meta, driver.Access, driver.Instant) (driver.Entry[int], bool, error) {
	return driver.Entry[int]{}, false, driver.ErrNotFound
}

func TestLocalRecordVanishesBeforeItsReadAndTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, err := memory.New[int](nil)
		must(t, err)
		t.Cleanup(func() { _ = d.Close() })
		s := open[int](t, vanishing{d}, session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		_, err = s.Get(t.Context(), "k")
		wantErr(t, err, slidingttl.ErrNotFound)
	})
}

// Promises 3 and 11: a read that does not wait for the read and touch it has sent, and
// finds the touch due by a plain one, has it done although the first fails.
func TestReadThatOvertakesItsTouchKeepsItsPromise(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		s := open[int](t, pairing(d), session, &slidingttl.Options[int]{TouchWait: 10 * time.Millisecond})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "read touch" {
				time.Sleep(50 * time.Millisecond)
				return errDown
			}
			return nil
		}
		promised := instant(time.Now()).Add(session.IdleGrace)
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		time.Sleep(time.Second)
		if e, st := stored(t, under, "k"), s.Stats(); e.ExpiresAt < promised && st.TouchFails == 0 {
			t.Errorf("expires %v before the deadline that was promised, and nothing is counted: %+v", promised.Sub(e.ExpiresAt), st)
		}
	})
}

// Promise 8: a touch that is sent together with the read does not fail it, as little as
// one that is sent after it.
func TestReadOutlastsItsTouchsTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open[int](t, pairing(d), session, &slidingttl.Options[int]{TouchTimeout: 50 * time.Millisecond})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.trip = 40 * time.Millisecond
		if v, err := s.Get(t.Context(), "k"); v != 1 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
	})
}

// A touch by key that does not wait for the read and touch it has sent, and finds the
// touch due by a plain read, says until when the first made the record live.
func TestTouchThatOvertakesItselfSaysWhatWasStored(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = time.Millisecond
		s := open[int](t, pairing(d), withSlack(session, 10*time.Minute), &slidingttl.Options[int]{TouchWait: 10 * time.Millisecond})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(20 * time.Minute)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "read touch" {
				time.Sleep(50 * time.Millisecond)
			}
			return nil
		}
		until, err := s.Touch(t.Context(), "k")
		must(t, err)
		if e := stored(t, under, "k"); instant(until) != e.ExpiresAt {
			t.Errorf("lives until %v, it says until %v", e.ExpiresAt.Time(), until)
		}
	})
}

// The observer gets a read in one trip whose caller leaves like any other.
func TestReadInOneTripTellsOfItsEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		var told []slidingttl.ReadEvent
		s := open[int](t, pairing(d), session, &slidingttl.Options[int]{Observer: &slidingttl.Observer{
			Read: func(_ context.Context, e slidingttl.ReadEvent) { told = append(told, e) },
		}})
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.trip = 20 * time.Millisecond
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := s.Get(ctx, "k")
		wantErr(t, err, context.DeadlineExceeded)
		if len(told) != 1 || told[0].Outcome != slidingttl.ReadFailed || told[0].Duration != 10*time.Millisecond || told[0].Err != err {
			t.Errorf("told %+v", told)
		}
	})
}

// Promise 3: a record that is dead by a read which may be stale is read again, if another may have
// touched it since that was true.
func TestStaleReadOfATouchedRecord(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		s, other := open(t, d, brink, &slidingttl.Options[int]{MaxSkew: time.Millisecond}), open(t, under, brink, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		d.catchUp(t, "k")
		for range 10 {
			time.Sleep(900 * time.Millisecond)
			_, err := other.Get(t.Context(), "k")
			must(t, err)
		}
		if _, err := s.Get(t.Context(), "k"); err != nil {
			t.Errorf("a record that was alive throughout, by a read 9 s old: %v", err)
		}
	})
}

// Promise 8: a read gives up the read and touch in one that takes longer than reads wait, and reads
// alone.
func TestReadGivesUpItsReadAndTouch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		s := open[int](t, pairing(d), session, nil)
		must(t, s.Insert(t.Context(), "k", 1))
		time.Sleep(time.Minute)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "read touch" {
				return sleep(ctx, 3*time.Second)
			}
			return nil
		}
		began := time.Now()
		_, err := s.Get(t.Context(), "k")
		must(t, err)
		if took := time.Since(began); took > 150*time.Millisecond {
			t.Errorf("a read beside a slow touch takes %v", took)
		}
		time.Sleep(5 * time.Second)
	})
}

// After a race was lost, and before an Update says not found, reads are not stale.
func TestWritesAfterAStaleRead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		s, other := open(t, d, session, nil), open(t, under, session, nil)
		must(t, other.Insert(t.Context(), "k", 1))
		d.catchUp(t, "k")
		must(t, other.Upsert(t.Context(), "k", 2))
		calls := 0
		v, err := s.Update(t.Context(), "k", func(v int) (int, error) { calls++; return v + 10, nil })
		if err != nil || v != 12 || calls > 2 {
			t.Errorf("%d, %v after %d calls", v, err, calls)
		}
		must(t, other.Insert(t.Context(), "new", 1))
		if v, err := s.Update(t.Context(), "new", func(v int) (int, error) { return v + 1, nil }); err != nil || v != 2 {
			t.Errorf("%d, %v for a record that a stale read does not show", v, err)
		}
		must(t, other.Insert(t.Context(), "there", 7))
		if v, inserted, err := s.GetOrInsert(t.Context(), "there", func(context.Context) (int, error) { return 8, nil }); err != nil || inserted || v != 7 {
			t.Errorf("%d, %v, %v", v, inserted, err)
		}
	})
}

// odd is a driver whose read and touch in one panics, or ends the goroutine, as a codec may.
type odd struct {
	driver.Driver[int]
	what func()
}

func (o odd) ReadTouch(context.Context, string, *driver.Meta, driver.Access, driver.Instant) (driver.Entry[int], bool, error) {
	o.what()
	return driver.Entry[int]{}, false, nil
}

// What happens in the read and touch of a record does not end the process, nor is it taken for an answer:
// the read is made alone.
func TestReadAndTouchThatPanics(t *testing.T) {
	for name, what := range map[string]func(){"panic": func() { panic("boom") }, "exit": runtime.Goexit} {
		bubble(t, func(t *testing.T) {
			d, _ := newRemote[int](time.Millisecond)
			s := open[int](t, odd{d, what}, session, nil)
			must(t, s.Insert(t.Context(), "k", 7))
			time.Sleep(time.Minute)
			if v, err := s.Get(t.Context(), "k"); err != nil || v != 7 {
				t.Errorf("%s: %d, %v", name, v, err)
			}
		})
	}
}

// A touch that panics, as in a client's hook that misses a value of its context, fails, and is tried again.
func TestTouchThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		var panics atomic.Bool
		panics.Store(true)
		d.before = func(_ context.Context, op, _ string) error {
			if op == "touch" && panics.Load() {
				panic("boom")
			}
			return nil
		}
		var told error
		s := open(t, d, session, &slidingttl.Options[int]{OnTouchError: func(_ context.Context, _ string, err error) { told = err }})
		plant(under, "k", 10*time.Minute)
		read(t, s, "k")
		if _, err := s.Touch(t.Context(), "k"); !errors.As(err, new(*slidingttl.PanicError)) {
			t.Errorf("Touch: %v, want the panic", err)
		}
		panics.Store(false)
		time.Sleep(15 * time.Minute)
		if read(t, s, "k"); told == nil {
			t.Error("nobody was told of the panic")
		}
	})
}

// A read waits no longer than TouchWait in all: for a read and touch in one that fails, and for the touch after it.
func TestReadWaitsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			switch op {
			case "read touch":
				return errors.Join(sleep(ctx, 95*time.Millisecond), errDown)
			case "touch":
				return sleep(ctx, time.Second)
			}
			return nil
		}
		s := open(t, pairing(d), session, nil)
		plant(under, "k", 10*time.Minute)
		if took := read(t, s, "k"); took != 100*time.Millisecond {
			t.Errorf("the read took %v, want TouchWait", took)
		}
	})
}

// A stale read right after the store itself lowered the record puts no earlier expiry back into the memo.
func TestStaleReadAfterLowering(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d, under := newLagging[int](time.Millisecond)
		loose := slidingttl.Policy{IdleGrace: 40 * time.Minute, MaxLifetime: 100 * time.Hour}
		tight := loose
		tight.IdleGrace = 20 * time.Minute
		s := open(t, driver.Driver[int](d), loose, &slidingttl.Options[int]{MaxSkew: time.Second})
		must(t, s.Insert(t.Context(), "k", 1)) // dies at 40 min
		must(t, s.SetPolicy(tight))
		time.Sleep(10 * time.Minute)
		d.catchUp(t, "k")
		read(t, s, "k") // lowers it to 30 min
		if at := stored(t, under, "k").ExpiresAt.Sub(driver.Floor(time.Now())); at > 21*time.Minute {
			t.Fatalf("not lowered: %v", at)
		}
		time.Sleep(time.Second)
		if _, err := s.Peek(t.Context(), "k"); err != nil { // stale by a second
			t.Fatal(err)
		}
		delete(d.view, "k")
		time.Sleep(10*time.Minute - time.Second) // at 20 min
		must(t, s.Keep(t.Context(), "k"))        // promises 40 min
		if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < tight.IdleGrace-time.Second {
			t.Errorf("Keep leaves %v, want %v", left, tight.IdleGrace)
		}
	})
}

// A driver whose reads may be stale. A store lowers a record's expiry, reads it as lowered, and then by a replica that is 7 s
// behind. It knows that what that shows is what its own touch replaced.
func TestStaleReadOfWhatItsOwnTouchLowered(t *testing.T) {
	bubble(t, func(t *testing.T) {
		under := fakestore.New[int](time.Millisecond)
		var stale *driver.Entry[int]
		d := &fakestore.Driver[int]{Step: time.Millisecond, Has: []any{(*driver.Latest[int])(nil)}}
		d.Handle = func(c *fakestore.Call[int]) {
			switch {
			case c.Op == fakestore.Get && stale != nil:
				c.Entry = *stale
			case c.Op == fakestore.Get, c.Op == fakestore.Latest:
				c.Entry, c.Err = under.Get(c.Ctx, c.Key)
			default:
				fakestore.Forward(under, c)
			}
		}
		p := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 1000 * time.Hour, Slack: 10 * time.Second}
		s := open(t, driver.Driver[int](d), p, &slidingttl.Options[int]{MaxSkew: time.Second})
		plant(under, "k", 77*time.Second) // of a looser policy: 7 s beyond
		was := stored(t, under, "k")
		read(t, s, "k") // lowers it to 71 s
		time.Sleep(1100 * time.Millisecond)
		_, err := s.Peek(t.Context(), "k")
		must(t, err)
		time.Sleep(5900 * time.Millisecond)
		stale = &was
		_, err = s.Peek(t.Context(), "k") // of what was stored 7 s ago
		must(t, err)
		stale = nil
		time.Sleep(8 * time.Second)
		must(t, s.Keep(t.Context(), "k"))
		if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < p.IdleGrace {
			t.Errorf("Keep leaves %v, want %v", left, p.IdleGrace)
		}
	})
}

// newStale returns a driver whose Get answers by what was stored lag ago.
func newStale(lag time.Duration) (d *fakestore.Driver[int], under *hoard[int]) {
	under = fakestore.New[int](time.Millisecond)
	d = &fakestore.Driver[int]{Step: time.Millisecond, Has: []any{(*driver.Latest[int])(nil)}}
	type state struct {
		at time.Time
		e  driver.Entry[int]
		ok bool
	}
	var states []state
	d.Handle = func(c *fakestore.Call[int]) {
		switch c.Op {
		case fakestore.Get:
			now := time.Now()
			var s state
			for _, x := range states {
				if !x.at.After(now.Add(-lag)) {
					s = x
				}
			}
			c.Entry = s.e
			if !s.ok {
				c.Err = driver.ErrNotFound
			}
		case fakestore.Latest:
			c.Entry, c.Err = under.Get(c.Ctx, c.Key)
		default:
			fakestore.Forward(under, c)
			e, err := under.Get(context.Background(), c.Key)
			states = append(states, state{time.Now(), e, err == nil})
		}
	}
	return d, under
}

// A driver whose reads may be stale. Clocks equal, MaxSkew 1 s, reads 8 s old. One process lowers a record; the other reads it
// 7.5 s later. What it sees lies no longer beyond the policy, and was replaced before.
func TestKeepAfterAStaleRead(t *testing.T) {
	for name, access := range map[string]func(context.Context, *slidingttl.Store[int]) error{
		"Get":  func(ctx context.Context, s *slidingttl.Store[int]) error { _, err := s.Get(ctx, "k"); return err },
		"Keep": func(ctx context.Context, s *slidingttl.Store[int]) error { return s.Keep(ctx, "k") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				d, under := newStale(8 * time.Second)
				p := slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: 1000 * time.Hour, Slack: 10 * time.Second}
				loose := p
				loose.IdleGrace, loose.Slack = 90*time.Second, 0
				o := &slidingttl.Options[int]{MaxSkew: time.Second}
				latest := *o
				latest.Latest = true
				before, a, b := open(t, driver.Driver[int](d), loose, o), open(t, driver.Driver[int](d), p, &latest), open(t, driver.Driver[int](d), p, o)
				must(t, before.Insert(t.Context(), "k", 1)) // 90 s
				time.Sleep(13 * time.Second)                // 77 s left: beyond
				read(t, a, "k")                             // lowers it to 71 s
				time.Sleep(7500 * time.Millisecond)         // 69.5 s left by the stale record
				must(t, access(t.Context(), b))
				time.Sleep(9 * time.Second) // 60.5 s left by the stale record, 54.5 by the stored one
				must(t, access(t.Context(), b))
				if left := time.Until(stored(t, under, "k").ExpiresAt.Time()); left < p.IdleGrace {
					t.Errorf("%s leaves %v, want %v", name, left, p.IdleGrace)
				}
			})
		})
	}
}
