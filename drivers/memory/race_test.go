package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The tests in this file run on real time, for real races.

// together calls f on n goroutines that start at once, and waits for them.
func together(n int, f func(i int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	wg.Wait()
}

// TestOneWriterWins: of many writes planned for one record exactly one lands, and each of
// the others gets a conflict with a record that existed.
func TestOneWriterWins(t *testing.T) {
	const rounds, writers = 2000, 8
	d := open[int](t, nil)
	ctx := t.Context()
	for name, write := range map[string]func(was driver.Meta, now driver.Instant, i int) error{
		"Insert": func(was driver.Meta, now driver.Instant, i int) error {
			_, err := d.Insert(ctx, "Insert", i, lasting(now, time.Hour), now)
			return err
		},
		"Replace": func(was driver.Meta, now driver.Instant, i int) error {
			_, err := d.Replace(ctx, "Replace", i, was, lasting(now, time.Hour), now)
			return err
		},
		"Touch": func(was driver.Meta, now driver.Instant, i int) error {
			life := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt + driver.Instant(i) + 1}
			_, err := d.Touch(ctx, "Touch", was, life, now)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				now := d.instant()
				if err := d.Delete(ctx, name); err != nil {
					t.Fatal(err)
				}
				var was driver.Meta
				if name != "Insert" {
					was = mustInsert(t, d, name, -1, lasting(now, time.Hour))
				}
				var won atomic.Int64
				together(writers, func(i int) {
					err := write(was, now, i)
					var lost *driver.ConflictError
					switch {
					case err == nil:
						won.Add(1)
					case !errors.As(err, &lost):
						t.Error(err)
					case lost.Found == was:
						t.Error("a loser was reported of the very record it had planned for")
					}
				})
				if n := won.Load(); n != 1 {
					t.Fatalf("%d of %d writes landed, want 1", n, writers)
				}
			}
		})
	}
}

// TestTouchNeverLandsOnAnother: touches race with writers that end a life and begin
// another under the same key. Every life has its own created_at, in the value too.
func TestTouchNeverLandsOnAnother(t *testing.T) {
	const keys, steps = 4, 20_000
	d := open[driver.Instant](t, nil)
	ctx := t.Context()
	var births atomic.Int64
	var landed, lost atomic.Int64
	together(8, func(i int) {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		for range steps {
			key := fmt.Sprint(rng.IntN(keys))
			now := d.instant()
			e, err := d.Get(ctx, key)
			if rng.IntN(4) == 0 { // others come between, on one core too
				runtime.Gosched()
			}
			if i%2 == 0 { // touches
				if err != nil {
					continue
				}
				// A touch of this life carries the life's mark in its expiry.
				life := driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: mark(now, e.CreatedAt, rng)}
				if _, err = d.Touch(ctx, key, e.Meta, life, now); err == nil {
					landed.Add(1)
				} else {
					lost.Add(1)
				}
				continue
			}
			born := driver.Instant(births.Add(1))
			life := driver.Life{CreatedAt: born, ExpiresAt: mark(now, born, rng)}
			switch {
			case err != nil:
				_, err = d.Insert(ctx, key, born, life, now)
			case rng.IntN(2) == 0:
				_, err = d.Replace(ctx, key, born, e.Meta, life, now)
			default:
				err = d.Delete(ctx, key)
			}
			if err != nil && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound) {
				t.Error(err)
			}
		}
	})
	if landed.Load() == 0 || lost.Load() == 0 {
		t.Errorf("%d touches landed and %d lost: no race", landed.Load(), lost.Load())
	}
	for i := range keys {
		e, err := d.Get(ctx, fmt.Sprint(i))
		if err == nil && (e.Value != e.CreatedAt || !marked(e.Life)) {
			t.Errorf("a record of life %d has created_at %d and expires at %d", e.Value, e.CreatedAt, e.ExpiresAt)
		}
	}
}

// TestTouchIsNotLost: a touch that landed shows, though values are overwritten
// meanwhile in the same life.
func TestTouchIsNotLost(t *testing.T) {
	const touches = 10_000
	d := open[int](t, nil)
	ctx := t.Context()
	now := d.instant()
	mustInsert(t, d, "k", 1, lasting(now, time.Hour))
	var done atomic.Bool
	together(4, func(i int) {
		if i > 0 {
			for !done.Load() {
				e, err := d.Get(ctx, "k")
				if err == nil {
					_, err = d.Replace(ctx, "k", i, e.Meta, e.Life, now)
				}
				if err != nil && !errors.Is(err, driver.ErrConflict) {
					t.Error(err)
				}
			}
			return
		}
		defer done.Store(true)
		landed := 0
		for landed < touches {
			e, err := d.Get(ctx, "k")
			if err != nil {
				t.Error(err)
				return
			}
			was := e.Meta
			e.ExpiresAt++
			if _, err := d.Touch(ctx, "k", was, e.Life, now); errors.Is(err, driver.ErrConflict) {
				continue
			} else if err != nil {
				t.Error(err)
				return
			}
			landed++
			if got, err := d.Get(ctx, "k"); err != nil || got.Life != e.Life {
				t.Errorf("after a touch to %d the expiry is %d (%v)", e.ExpiresAt, got.ExpiresAt, err)
				return
			}
		}
	})
}

// marks is how many births an expiry can tell apart.
const marks = 1 << 20

func mark(now, born driver.Instant, rng *rand.Rand) driver.Instant {
	return (now/marks+10+driver.Instant(rng.IntN(1000)))*marks + born%marks
}

func marked(l driver.Life) bool { return l.ExpiresAt%marks == l.CreatedAt%marks }

// TestReadersSeeWholeRecords: a reader never sees the value of one record with the
// life or version of another.
func TestReadersSeeWholeRecords(t *testing.T) {
	d := open[[8]driver.Instant](t, nil)
	ctx := t.Context()
	now := d.instant()
	fill := func(born driver.Instant) (v [8]driver.Instant) {
		for i := range v {
			v[i] = born
		}
		return v
	}
	m := mustInsert(t, d, "k", fill(now), lasting(now, time.Hour))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for {
				e, err := d.Get(ctx, "k")
				if err != nil || e.Value != fill(e.CreatedAt) {
					t.Errorf("read %+v, %v", e, err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 50_000 {
		life := lasting(m.CreatedAt+1, time.Hour)
		version, err := d.Replace(ctx, "k", fill(life.CreatedAt), m, life, now)
		if err != nil {
			t.Error(err)
			break
		}
		m = driver.Meta{Life: life, Version: version}
	}
	close(stop)
	readers.Wait()
}

// TestExpiryAgainstInsert: records that die within milliseconds are re-inserted,
// touched and deleted at the moment they are swept. No new life may be swept with
// the old one, none may be lost from the count, and the hook must be called once for each
// life that was not deleted.
func TestExpiryAgainstInsert(t *testing.T) {
	const keys, steps, writers = 16, 5_000, 6
	reported := make(chan driver.Version, writers*steps+1)
	d, err := New(&Options[int]{
		MaxEntries: keys,
		OnExpiry:   func(_ string, last driver.Entry[int], _ Reason) { reported <- last.Version },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	var inserted atomic.Int64
	together(writers, func(i int) {
		rng := rand.New(rand.NewPCG(uint64(i), 2))
		for range steps {
			n := rng.IntN(keys)
			key, tightens := fmt.Sprint(n), n%2 == 0 // touches of even keys shorten lives
			now := d.instant()
			life := lasting(now, time.Duration(1+rng.IntN(40))*time.Millisecond)
			version, err := d.Insert(ctx, key, i, life, now)
			var lost *driver.ConflictError
			switch {
			case err == nil:
				inserted.Add(1)
				// Alive by its own terms, so it must be there, or have died since.
				e, err := d.Get(ctx, key)
				if err != nil && !tightens && life.Alive(d.instant()) {
					t.Errorf("a live record is gone: %v", err)
				}
				if err == nil && e.Version < version {
					t.Error("an older record is back")
				}
			case errors.As(err, &lost):
				life := lost.Found.Life
				if tightens {
					life.ExpiresAt = now + driver.Instant(rng.IntN(3))
				} else {
					life.ExpiresAt += driver.Instant(rng.IntN(3))
				}
				_, err := d.Touch(ctx, key, lost.Found, life, now)
				if err != nil && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound) {
					t.Error(err)
				}
			default:
				t.Error(err) // ErrFull too: there are no more keys than room
			}
		}
	})
	// All die in the end. If the hook is not called for one, this waits for ever.
	seen := map[driver.Version]bool{}
	for range inserted.Load() {
		version := <-reported
		if seen[version] {
			t.Errorf("the hook was reported of version %d twice", version)
		}
		seen[version] = true
	}
	if n, l := d.count.Load(), d.Len(); n != 0 || l != 0 {
		t.Errorf("count %d, Len %d; want 0", n, l)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(reported); n != 0 {
		t.Errorf("the hook was reported of %d records too many", n)
	}
	if inserted.Load() < keys*2 {
		t.Errorf("%d inserts: no race", inserted.Load())
	}
}

// TestMaxEntriesHolds: concurrent inserts never pass the bound, and none is refused
// while there is room.
func TestMaxEntriesHolds(t *testing.T) {
	const most, writers = 100, 8
	for range 20 {
		d := open[int](t, &Options[int]{MaxEntries: most})
		ctx := t.Context()
		var ok, full atomic.Int64
		together(writers, func(i int) {
			for j := range most {
				now := d.instant()
				_, err := d.Insert(ctx, fmt.Sprintf("%d/%d", i, j), 1, lasting(now, time.Hour), now)
				switch {
				case err == nil:
					ok.Add(1)
				case errors.Is(err, driver.ErrFull):
					full.Add(1)
				default:
					t.Error(err)
				}
			}
		})
		if ok.Load() != most || full.Load() != (writers-1)*most || d.Len() != most {
			t.Fatalf("%d inserted, %d refused, Len %d; want %d, %d, %d", ok.Load(), full.Load(), d.Len(), most, (writers-1)*most, most)
		}
	}
}

// TestLastPlaceIsTakenOnce: of many inserts that race for one place, one gets it.
func TestLastPlaceIsTakenOnce(t *testing.T) {
	const rounds, writers = 5000, 4
	d := open[int](t, &Options[int]{MaxEntries: 1})
	ctx := t.Context()
	for range rounds {
		var winner atomic.Pointer[string]
		together(writers, func(i int) {
			now, key := d.instant(), fmt.Sprint(i)
			switch _, err := d.Insert(ctx, key, 1, lasting(now, time.Hour), now); {
			case err == nil:
				if !winner.CompareAndSwap(nil, &key) {
					t.Error("two inserts got the last place")
				}
			case !errors.Is(err, driver.ErrFull):
				t.Error(err)
			}
		})
		if winner.Load() == nil {
			t.Fatal("no insert got the last place")
		}
		if err := d.Delete(ctx, *winner.Load()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUpsertsAreAtomic: each of many concurrent upserts builds on the one before.
func TestUpsertsAreAtomic(t *testing.T) {
	const writers, steps = 16, 2000
	d := open[int](t, nil)
	now := d.instant()
	// created_at counts the upserts: it is the only thing a plan sees and sets.
	plan := func(found *driver.Meta) (driver.Life, error) {
		if found == nil {
			return driver.Life{CreatedAt: 1}, nil
		}
		return driver.Life{CreatedAt: found.CreatedAt + 1}, nil
	}
	together(writers, func(int) {
		for range steps {
			if _, err := d.Upsert(t.Context(), "k", 1, nil, plan, now); err != nil {
				t.Error(err)
			}
		}
	})
	if got := mustGet(t, d, "k").CreatedAt; got != writers*steps {
		t.Errorf("%d upserts counted, want %d", got, writers*steps)
	}
}

// TestCloseDuringEverything: whatever runs when Close comes ends, well or with
// ErrClosed, and leaves nothing behind.
func TestCloseDuringEverything(t *testing.T) {
	for round := range 20 {
		d, err := New(&Options[int]{MaxEntries: 1000, OnExpiry: func(string, driver.Entry[int], Reason) {}})
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		together(8, func(i int) {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(round)))
			closed := 0
			for step := 0; closed < 100; step++ {
				if i == 0 && step == 500 {
					if err := d.Close(); err != nil {
						t.Error(err)
					}
				}
				key := fmt.Sprint(rng.IntN(100))
				now := d.instant()
				life := lasting(now, time.Duration(rng.IntN(3))*time.Millisecond)
				e, err := d.Get(ctx, key)
				switch rng.IntN(4) {
				case 0:
					_, err = d.Insert(ctx, key, 1, life, now)
				case 1:
					_, err = d.Touch(ctx, key, e.Meta, life, now)
				case 2:
					_, err = d.Upsert(ctx, key, 1, nil, func(*driver.Meta) (driver.Life, error) { return life, nil }, now)
				case 3:
					d.Bounds()
				}
				switch {
				case errors.Is(err, ErrClosed):
					closed++
				case err != nil && !errors.Is(err, driver.ErrConflict) && !errors.Is(err, driver.ErrNotFound):
					t.Error(err)
				}
			}
		})
		if n, l := d.Len(), linked(d); n != 0 || l != 0 {
			t.Fatalf("%d records and %d in the wheel after Close", n, l)
		}
	}
}
