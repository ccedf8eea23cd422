package memory

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestExpiredRecordsGo(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		ttls := []time.Duration{
			0, 63 * time.Millisecond, 127 * time.Millisecond, time.Second, 4097 * time.Millisecond, time.Minute,
			30 * time.Minute, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, 400 * 24 * time.Hour, 20 * 365 * 24 * time.Hour,
		}
		start := d.instant()
		for i, ttl := range ttls {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(start, ttl))
		}
		for i, ttl := range ttls {
			if ttl > 0 {
				time.Sleep(start.Add(ttl).Time().Add(-time.Nanosecond).Sub(d.Now()))
				mustGet(t, d, fmt.Sprint(i))
			}
			time.Sleep(sweepStep)
			wantGone(t, d, fmt.Sprint(i))
		}
	})
}

// TestRetainedRecordsStay: what died is held for Retain, by whichever call it was
// written, and gone soon after.
func TestRetainedRecordsStay(t *testing.T) {
	const retain = time.Hour
	var reported sync.Map // of instants
	opts := &Options[int]{Retain: retain, OnExpiry: func(key string, _ driver.Entry[int], _ Reason) { reported.Store(key, driver.Floor(time.Now())) }}
	bubble(t, opts, func(t *testing.T, d *Driver[int]) {
		start := d.instant()
		mustInsert(t, d, "long", 1, lasting(start, 30*24*time.Hour))
		ends := make(map[string]driver.Instant)
		for _, ttl := range []time.Duration{time.Millisecond, time.Second, 59 * time.Minute, 3 * time.Hour} {
			key := ttl.String()
			m := mustInsert(t, d, key, 1, lasting(start, 2*time.Minute))
			if _, err := d.Touch(t.Context(), key, m, lasting(start, ttl), start); err != nil {
				t.Fatal(err)
			}
			ends[key] = start.Add(ttl)
		}
		for _, key := range []string{"1ms", "1s", "59m0s", "3h0m0s"} {
			time.Sleep(ends[key].Add(retain).Time().Add(-time.Nanosecond).Sub(d.Now()))
			mustGet(t, d, key)
			synctest.Wait()
			if at, early := reported.Load(key); early {
				t.Errorf("reported of %s at %v", key, at)
			}
			time.Sleep(sweepStep + time.Millisecond)
			wantGone(t, d, key)
			synctest.Wait()
			if at, _ := reported.Load(key); at == nil {
				t.Errorf("not reported of %s", key)
			} else if at := at.(driver.Instant); at < ends[key].Add(retain) || at > d.instant() {
				t.Errorf("reported of %s at %v; want %v", key, at.Time(), ends[key].Add(retain).Time())
			}
		}
		mustGet(t, d, "long")
	})
}

// TestRetainedRecordsMakeRoom: at the bound the dead go, retained or not, and the living
// never.
func TestRetainedRecordsMakeRoom(t *testing.T) {
	bubble(t, &Options[int]{Retain: 24 * time.Hour, MaxEntries: 4}, func(t *testing.T, d *Driver[int]) {
		mustInsert(t, d, "live", 1, lasting(d.instant(), 30*24*time.Hour))
		for i := range 100 {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), time.Minute))
			time.Sleep(time.Minute)
			mustGet(t, d, fmt.Sprint(i))
		}
		mustGet(t, d, "live")
		for i := range 3 {
			mustInsert(t, d, fmt.Sprint("last", i), i, lasting(d.instant(), time.Hour))
		}
		now := d.instant()
		if _, err := d.Insert(t.Context(), "one more", 1, lasting(now, time.Hour), now); !errors.Is(err, driver.ErrFull) {
			t.Errorf("an insert where all are alive: %v; want %v", err, driver.ErrFull)
		}
		// What made room moved the wheel ahead of the time: what is written since goes in time too.
		time.Sleep(25*time.Hour + sweepStep)
		for i := range 3 {
			wantGone(t, d, fmt.Sprint("last", i))
		}
		mustGet(t, d, "live")
	})
}

// TestEarlierRecordWakesTheSweeper: one that is filed while the sweeper sleeps for
// another that expires far later.
func TestEarlierRecordWakesTheSweeper(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		mustInsert(t, d, "late", 1, lasting(d.instant(), 1000*time.Hour))
		for ttl := 100 * time.Hour; ttl > time.Second; ttl /= 3 {
			synctest.Wait()
			mustInsert(t, d, "early", 1, lasting(d.instant(), ttl))
			time.Sleep(ttl + sweepStep)
			wantGone(t, d, "early")
		}
		mustGet(t, d, "late")
	})
}

func TestTouchedRecordsStay(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		const idle = time.Hour
		m := mustInsert(t, d, "k", 1, lasting(d.instant(), idle))
		for range 1000 {
			time.Sleep(idle - time.Millisecond)
			now := d.instant()
			life := driver.Life{CreatedAt: m.CreatedAt, ExpiresAt: now.Add(idle)}
			if _, err := d.Touch(t.Context(), "k", m, life, now); err != nil {
				t.Fatal(err)
			}
			m.Life = life
		}
		time.Sleep(idle + sweepStep)
		wantGone(t, d, "k")
	})
}

// TestTightenedRecordsGo: a touch may bring an expiry forward, when a policy became
// tighter; the record must not lie about until its former one.
func TestTightenedRecordsGo(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for _, how := range []string{"touch", "replace"} {
			m := mustInsert(t, d, how, 1, lasting(d.instant(), 90*24*time.Hour))
			synctest.Wait()
			now := d.instant()
			var err error
			if how == "touch" {
				_, err = d.Touch(t.Context(), how, m, lasting(now, time.Minute), now)
			} else {
				_, err = d.Replace(t.Context(), how, 2, m, lasting(now, time.Minute), now)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute + sweepStep)
			wantGone(t, d, how)
		}
	})
}

// TestNothingPilesUp: deleted and replaced records leave the wheel at once, though
// their expiry is far.
func TestNothingPilesUp(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		life := lasting(d.instant(), 30*24*time.Hour)
		for range 1000 {
			m := mustInsert(t, d, "k", 1, life)
			if _, err := d.Replace(t.Context(), "k", 2, m, life, d.instant()); err != nil {
				t.Fatal(err)
			}
			if n := linked(d); n != 1 {
				t.Fatalf("the wheel holds %d records, want 1", n)
			}
			if err := d.Delete(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			if n := linked(d); n != 0 {
				t.Fatalf("the wheel holds %d records, want 0", n)
			}
		}
	})
}

func linked[T any](d *Driver[T]) (n int) {
	for i := range d.wheel.stripes {
		s := &d.wheel.stripes[i]
		s.mu.Lock()
		for level := range s.slots {
			for _, r := range s.slots[level] {
				for ; r != nil; r = r.next {
					n++
				}
			}
		}
		s.mu.Unlock()
	}
	return n
}

// TestFiledWhileTheSweeperWakes: a record that is filed at the moment at which the
// sweeper looks for the next one must not be overlooked.
func TestFiledWhileTheSweeperWakes(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for i := range 5000 {
			// Both wake at one instant of virtual time, on cores of their own.
			mustInsert(t, d, "first", 1, lasting(d.instant(), sweepStep))
			time.Sleep((d.instant() + 1).RoundUp(sweepStep).Time().Sub(d.Now()))
			for range i % 2000 {
				_, _ = d.Get(t.Context(), "first") // passes some time
			}
			mustInsert(t, d, "second", 1, lasting(d.instant(), 3*sweepStep))
			time.Sleep(4 * sweepStep)
			synctest.Wait()
			if n := d.Len(); n != 0 {
				t.Fatalf("round %d: %d records left", i, n)
			}
		}
	})
}

// TestTouchedAfterFoundDead: the wheel has given a record out as dead when a touch
// comes in from a caller who read the time a moment before.
func TestTouchedAfterFoundDead(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[int]) {
		for _, tighten := range []bool{false, true} {
			m := mustInsert(t, d, "k", 1, lasting(d.instant(), time.Second))
			d.sweeper.batch.Lock()
			dead, _ := d.wheel.due(m.ExpiresAt, nil, 10)
			d.sweeper.batch.Unlock()
			if len(dead) != 1 {
				t.Fatalf("%d dead records, want 1", len(dead))
			}
			life := lasting(m.CreatedAt, time.Minute)
			if tighten {
				life = lasting(m.CreatedAt, time.Second-time.Millisecond)
			}
			if _, err := d.Touch(t.Context(), "k", m, life, m.CreatedAt); err != nil {
				t.Fatal(err)
			}
			d.expire(dead[0], m.ExpiresAt)
			if tighten {
				wantGone(t, d, "k")
			} else if e := mustGet(t, d, "k"); e.Life != life {
				t.Errorf("the record is %+v", e)
			}
			if held, filed := d.Len(), linked(d); held != filed {
				t.Errorf("%d records are held and %d filed", held, filed)
			}
			time.Sleep(time.Minute + sweepStep)
			wantGone(t, d, "k")
		}
	})
}

// death is a call of OnExpiry.
type death struct {
	key  string
	last driver.Entry[int]
	why  Reason
}

func TestOnExpiry(t *testing.T) {
	const idle, most = time.Hour, 3 * time.Hour
	deaths := make(chan death, 10)
	opts := &Options[int]{
		MaxLifetime: most,
		OnExpiry:    func(key string, last driver.Entry[int], why Reason) { deaths <- death{key, last, why} },
	}
	reported := func(t *testing.T, want ...death) {
		t.Helper()
		synctest.Wait()
		var got []death
		for len(deaths) > 0 {
			got = append(got, <-deaths)
		}
		slices.SortFunc(got, func(a, b death) int { return a.last.Value - b.last.Value })
		if !slices.Equal(got, want) {
			t.Errorf("OnExpiry was reported\n%+v, want\n%+v", got, want)
		}
	}
	bubble(t, opts, func(t *testing.T, d *Driver[int]) {
		ctx, start := t.Context(), d.instant()
		idled := mustInsert(t, d, "idle", 1, lasting(start, idle))
		mustInsert(t, d, "deleted", 2, lasting(start, idle))
		touched := mustInsert(t, d, "capped", 3, lasting(start, idle))
		adopted := mustInsert(t, d, "without created_at", 4, driver.Life{ExpiresAt: start.Add(most)})
		capped := driver.Meta{Life: lasting(start, most), Version: touched.Version}
		if _, err := d.Touch(ctx, "capped", touched, capped.Life, start); err != nil {
			t.Fatal(err)
		}
		if err := d.Delete(ctx, "deleted"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * most)
		reported(t,
			death{"idle", driver.Entry[int]{Value: 1, Meta: idled}, Idle},
			death{"capped", driver.Entry[int]{Value: 3, Meta: capped}, Cap},
			death{"without created_at", driver.Entry[int]{Value: 4, Meta: adopted}, Idle})

		// A record that an insert or upsert finds dead has expired no less.
		first := mustInsert(t, d, "k", 5, lasting(d.instant(), time.Second))
		now := d.instant() + 1000 // by the caller's clock
		second, err := d.Upsert(ctx, "k", 6, nil, func(*driver.Meta) (driver.Life, error) { return lasting(now, time.Second), nil }, now)
		if err != nil {
			t.Fatal(err)
		}
		reported(t, death{"k", driver.Entry[int]{Value: 5, Meta: first}, Idle})
		time.Sleep(time.Hour)
		reported(t, death{"k", driver.Entry[int]{Value: 6, Meta: second}, Idle})

		// So has one that dies between the readings of the clock by an Upsert's
		// caller and by its plan.
		third := mustInsert(t, d, "k", 7, lasting(d.instant(), time.Second))
		now = third.ExpiresAt - 1
		fourth, err := d.Upsert(ctx, "k", 8, nil, func(found *driver.Meta) (driver.Life, error) {
			if found == nil {
				t.Error("the record was dead too early")
			}
			return lasting(third.ExpiresAt, time.Second), nil
		}, now)
		if err != nil {
			t.Fatal(err)
		}
		reported(t, death{"k", driver.Entry[int]{Value: 7, Meta: third}, Idle})

		// One that is past a cap, which only its writer knows, has died of it.
		life := lasting(fourth.CreatedAt+1, time.Second)
		version, err := d.Replace(ctx, "k", 9, fourth, life, now)
		if err != nil {
			t.Fatal(err)
		}
		fourth.ExpiresAt = life.CreatedAt // when the next one began
		reported(t, death{"k", driver.Entry[int]{Value: 8, Meta: fourth}, Idle})

		// What is overwritten in its life, or adopted, has not.
		over := lasting(life.CreatedAt, time.Minute)
		if _, err := d.Replace(ctx, "k", 10, driver.Meta{Life: life, Version: version}, over, now); err != nil {
			t.Fatal(err)
		}
		mustInsert(t, d, "foreign", 11, driver.Life{})
		soon := lasting(d.instant(), time.Minute)
		if _, err := d.Upsert(ctx, "foreign", 12, nil, func(*driver.Meta) (driver.Life, error) { return soon, nil }, now); err != nil {
			t.Fatal(err)
		}
		reported(t)
	})
}

// TestDeletes: with Options.Deletes, OnExpiry is called for a live record that Delete or Remove
// removes, with that time as its death. It is not called for a dead one.
func TestDeletes(t *testing.T) {
	for _, deletes := range []bool{false, true} {
		var reported []death
		opts := &Options[int]{Retain: time.Hour, Deletes: deletes, OnExpiry: func(key string, last driver.Entry[int], why Reason) {
			reported = append(reported, death{key, last, why})
		}}
		bubble(t, opts, func(t *testing.T, d *Driver[int]) {
			ctx := t.Context()
			mustInsert(t, d, "dead", 1, lasting(d.instant(), time.Second))
			time.Sleep(time.Minute)
			if err := errors.Join(d.Delete(ctx, "dead"), d.Delete(ctx, "nobody")); err != nil {
				t.Fatal(err)
			}
			now := d.instant()
			alive := mustInsert(t, d, "alive", 2, lasting(now, time.Hour))
			foreign := mustInsert(t, d, "foreign", 3, driver.Life{})
			time.Sleep(time.Minute)
			now = d.instant()
			if err := d.Delete(ctx, "alive"); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if err := d.Remove(ctx, "foreign", foreign, now); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			var want []death
			if deletes {
				alive.ExpiresAt, foreign.ExpiresAt = now, now
				want = []death{{"alive", driver.Entry[int]{Value: 2, Meta: alive}, Deleted}, {"foreign", driver.Entry[int]{Value: 3, Meta: foreign}, Deleted}}
			}
			if !slices.Equal(reported, want) {
				t.Errorf("with Deletes %t reported\n%+v, want\n%+v", deletes, reported, want)
			}
		})
	}
}

// TestOnExpiryMayUseTheDriver: no lock is held, and the record is gone by then.
func TestOnExpiryMayUseTheDriver(t *testing.T) {
	var d *Driver[int]
	var again int
	opts := &Options[int]{OnExpiry: func(key string, last driver.Entry[int], _ Reason) {
		if _, err := d.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("in the hook the record is still there: %v", err)
		}
		if last.Value < 5 {
			again++
			if _, err := d.Insert(t.Context(), key, last.Value+1, lasting(d.instant(), time.Second), d.instant()); err != nil {
				t.Error(err)
			}
		}
	}}
	synctest.Test(t, func(t *testing.T) {
		d = open(t, opts)
		mustInsert(t, d, "k", 0, lasting(d.instant(), time.Second))
		time.Sleep(time.Minute)
		synctest.Wait()
		wantGone(t, d, "k")
		if again != 5 {
			t.Errorf("%d lives after the first, want 5", again)
		}
	})
}

// TestOnExpiryBlocks: while the hook is stuck the driver works on, and the dead
// that wait for it are still not found.
func TestOnExpiryBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		reported := 0
		d := open(t, &Options[int]{OnExpiry: func(string, driver.Entry[int], Reason) { <-release; reported++ }})
		for i := range 3 {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), time.Second))
		}
		time.Sleep(time.Minute)
		mustInsert(t, d, "new", 1, lasting(d.instant(), time.Hour))
		mustGet(t, d, "new")
		if reported != 0 {
			t.Fatal("the hook did not block")
		}
		close(release)
		synctest.Wait()
		if reported != 3 {
			t.Errorf("the hook was called %d times, want 3", reported)
		}
	})
}

// TestOnExpiryGoexit: a test's FailNow in the hook must not end the sweeper.
func TestOnExpiryGoexit(t *testing.T) {
	var reported []string
	opts := &Options[int]{OnExpiry: func(key string, _ driver.Entry[int], _ Reason) {
		reported = append(reported, key)
		runtime.Goexit()
	}}
	bubble(t, opts, func(t *testing.T, d *Driver[int]) {
		for i := range 500 {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), time.Second))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		slices.Sort(reported)
		if n := len(slices.Compact(slices.Clone(reported))); n != 500 || len(reported) != 500 || d.Len() != 0 {
			t.Errorf("reported %d times of %d keys, want 500 of 500; %d left", len(reported), n, d.Len())
		}
	})
}

// TestOnExpiryPanics: OnExpiry is still called for the others, and Close returns the panic.
func TestOnExpiryPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := 0
		d, err := New(&Options[int]{OnExpiry: func(_ string, last driver.Entry[int], _ Reason) {
			reported++
			if last.Value < 3 {
				panic("out of the hook")
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), time.Second))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if reported != 10 || d.Len() != 0 {
			t.Errorf("reported of %d deaths, want 10; %d records left", reported, d.Len())
		}
		var p *driver.PanicError
		if err := d.Close(); !errors.As(err, &p) || p.Value != "out of the hook" || p.Count != 3 {
			t.Errorf("Close: %v, want three panics", err)
		}
		if err := d.Close(); err != nil {
			t.Errorf("Close once more: %v", err)
		}
	})
}

// TestCloseEndsTheHooks: Close waits for the call that runs, and there is none after it.
func TestCloseEndsTheHooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var began, ended int
		d := open(t, &Options[int]{OnExpiry: func(string, driver.Entry[int], Reason) {
			began++
			time.Sleep(time.Minute)
			ended++
		}})
		for i := range 3 {
			mustInsert(t, d, fmt.Sprint(i), i, lasting(d.instant(), time.Second))
		}
		time.Sleep(2 * time.Second)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if began != 1 || ended != 1 {
			t.Errorf("%d calls began and %d ended, want 1 of each", began, ended)
		}
	})
}

// TestMassExpiry: many records that die at once are removed in one go, and the
// table and the garbage collector get their memory back.
func TestMassExpiry(t *testing.T) {
	bubble(t, nil, func(t *testing.T, d *Driver[[64]byte]) {
		const n = 50_000
		empty := heap()
		life := lasting(d.instant(), time.Hour)
		for i := range n {
			mustInsert(t, d, benchKey(i), [64]byte{}, life)
		}
		mustInsert(t, d, "live", [64]byte{}, lasting(d.instant(), 2*time.Hour))
		full := heap() - empty
		slots := d.records.slots()
		time.Sleep(time.Hour + sweepStep)
		if got := d.Len(); got != 1 {
			t.Fatalf("%d records left, want 1", got)
		}
		if n := d.records.slots(); n > slots/50 {
			t.Errorf("the table has %d slots left of %d", n, slots)
		}
		if left := int64(heap()) - int64(empty); left > int64(full)/10 {
			t.Errorf("%d bytes left of %d", left, full)
		}
	})
}
