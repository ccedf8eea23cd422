package hot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A hit makes no trip. Others' writes are seen when the held record is too old, and not before.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "first", time.Hour)
		reads(t, r, h, "first", 1)
		r.put(t, key, "second", time.Hour)
		time.Sleep(staleness - time.Nanosecond)
		reads(t, r, h, "first", 0)
		time.Sleep(time.Nanosecond)
		reads(t, r, h, "second", 1)
		ok(t, "Delete", r.Driver.Delete(t.Context(), key))
		reads(t, r, h, "second", 0)
		time.Sleep(staleness)
		if _, err := h.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Get of a record that another deleted: %v", err)
		}
		if got, want := h.Stats(), (hot.Stats{Hits: 2, Misses: 3}); got != want {
			t.Errorf("Stats: %+v; want %+v", got, want)
		}
	})
}

// The longest bounds are for ever, not for never.
func TestBoundsOfAges(t *testing.T) {
	r := newRemote[string](t)
	h, err := hot.New(r, hot.Bounds{Records: 10, Staleness: math.MaxInt64, Absence: math.MaxInt64}, nil)
	ok(t, "New", err)
	r.put(t, key, "kept", time.Hour)
	for _, trips := range []int{1, 0} {
		reads(t, r, h, "kept", trips)
		n := r.during(func() {
			if _, err := h.Get(t.Context(), "absent"); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("Get: %v; want %v", err, driver.ErrNotFound)
			}
		})
		if n != trips {
			t.Errorf("Get of an absent record: %d trips; want %d", n, trips)
		}
	}
}

// A held record's age counts from the beginning of its read, however long that took.
func TestStalenessCountsFromTheBeginning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "first", time.Hour)
		r.holds(func(context.Context) { time.Sleep(staleness - time.Second) })
		reads(t, r, h, "first", 1)
		r.holds(nil)
		reads(t, r, h, "first", 0)
		time.Sleep(time.Second)
		reads(t, r, h, "first", 1)
	})
}

// A record is not answered from memory after its expiry, since another process may have touched
// it.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "kept", 5*time.Second)
		reads(t, r, h, "kept", 1)
		e, err := r.Driver.Get(t.Context(), key)
		ok(t, "Get", err)
		_, err = r.Touch(t.Context(), key, e.Meta, r.life(10*time.Second), r.now())
		ok(t, "Touch", err)
		time.Sleep(5*time.Second - time.Millisecond)
		reads(t, r, h, "kept", 0)
		time.Sleep(time.Millisecond)
		reads(t, r, h, "kept", 1)
		reads(t, r, h, "kept", 0)
		time.Sleep(5 * time.Second)
		if n := r.during(func() { _, _ = h.Get(t.Context(), key) }); n != 1 {
			t.Error("what is dead was answered from memory")
		}
	})
}

// With Options.Now an expiry is judged by that time, whatever the store's clock.
func TestNow(t *testing.T) {
	r := newRemote[string](t)
	now := time.Now()
	h, err := hot.New[string](r, hot.Bounds{Records: 1, Staleness: time.Hour}, &hot.Options[string]{Now: func() time.Time { return now }})
	ok(t, "New", err)
	r.put(t, key, "kept", time.Minute)
	reads(t, r, h, "kept", 1)
	reads(t, r, h, "kept", 0)
	now = now.Add(2 * time.Minute)
	reads(t, r, h, "kept", 1)
}

// A batch asks the store for the keys that are not held, and reports errors by their index in
// the call.
func TestGetMulti(t *testing.T) {
	for _, eventual := range []bool{false, true} {
		t.Run(fmt.Sprint("eventual ", eventual), func(t *testing.T) {
			r := newRemote[string](t)
			r.eventual = eventual
			h := tier(t, r, 10)
			for _, k := range []string{"a", "b", key} {
				r.put(t, k, "of "+k, time.Hour)
			}
			reads(t, r, h, "of "+key, 1)
			keys := []string{"a", key, "", "b", "never", "a"}
			var found map[string]driver.Entry[string]
			var err error
			batch := func() { found, err = h.GetMulti(t.Context(), keys) }
			if n := r.during(batch); n != 1 {
				t.Errorf("GetMulti made %d trips; want 1", n)
			}
			if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"a", "b", key}) || found["b"].Value != "of b" {
				t.Errorf("GetMulti found %v, %v", got, found)
			}
			var failed driver.KeyErrors
			if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Index != 2 {
				t.Errorf("GetMulti: %v; want one for the key at 2", err)
			}
			// A read that may be stale already is not held.
			want := 0
			if eventual {
				want = 1
			}
			keys = []string{"a", key, "b"}
			if n := r.during(batch); n != want || err != nil || len(found) != 3 {
				t.Errorf("GetMulti again made %d trips, found %d, %v; want %d", n, len(found), err, want)
			}
		})
	}
}

// If other reads may be stale, held records are read by Latest.
func TestReadsLatestToHold(t *testing.T) {
	r := newRemote[string](t)
	r.eventual = true
	h := tier(t, r, 10)
	r.put(t, key, "kept", time.Hour)
	toucher, _ := driver.As[driver.ReadToucher[string]](h)
	e, touched, err := toucher.ReadTouch(t.Context(), key, nil, driver.Access{Most: 1}, 1)
	if err != nil || touched || e.Value != "kept" {
		t.Errorf("ReadTouch, not due: %q, %v, %v", e.Value, touched, err)
	}
	reads(t, r, h, "kept", 1)
	reads(t, r, h, "kept", 0)
	if r.latest != 1 {
		t.Errorf("%d reads by Latest; want 1", r.latest)
	}
}

// After Forget, another process's write is seen at once.
func TestForget(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	for what, forget := range map[string]func(){"Forget": func() { h.Forget(key) }, "ForgetAll": h.ForgetAll} {
		r.put(t, key, "before "+what, time.Hour)
		forget()
		reads(t, r, h, "before "+what, 1)
		reads(t, r, h, "before "+what, 0)
		r.put(t, key, "after "+what, time.Hour)
		h.Forget("another")
		reads(t, r, h, "before "+what, 0)
		forget()
		reads(t, r, h, "after "+what, 1)
	}
}

// Latest reads the store, and its result is held from then on.
func TestLatest(t *testing.T) {
	r := newRemote[string](t)
	h := tier(t, r, 10)
	r.put(t, key, "first", time.Hour)
	reads(t, r, h, "first", 1)
	r.put(t, key, "second", time.Hour)
	if e, err := h.Latest(t.Context(), key); err != nil || e.Value != "second" {
		t.Errorf("Latest: %q, %v", e.Value, err)
	}
	reads(t, r, h, "second", 0)
	ok(t, "Delete", r.Driver.Delete(t.Context(), key))
	if _, err := h.Latest(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Latest of a record that another deleted: %v", err)
	}
	if _, err := h.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get after Latest has found nothing: %v", err)
	}
}

// Of two reads' results, that of the one that began later is held.
func TestLaterReadStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h := tier(t, r, 10)
		r.put(t, key, "first", time.Hour)
		r.holds(func(context.Context) { time.Sleep(2 * time.Second) })
		go func() { _, _ = h.Get(t.Context(), key) }()
		time.Sleep(time.Second)
		r.put(t, key, "second", time.Hour)
		r.holds(nil)
		if e, err := h.Latest(t.Context(), key); err != nil || e.Value != "second" {
			t.Errorf("Latest: %q, %v", e.Value, err)
		}
		time.Sleep(2 * time.Second)
		reads(t, r, h, "second", 0)
	})
}

// The tier holds no more than its bounds, and keeps the most read records.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, keys = 100, 5000
		r := newRemote[string](t)
		h := tier(t, r, bound)
		r.put(t, key, "read much", time.Hour)
		for i := range keys {
			k := fmt.Sprint("key ", i)
			r.put(t, k, strings.Repeat("x", 10), time.Hour)
			for _, k := range []string{k, key} {
				_, err := h.Get(t.Context(), k)
				ok(t, "Get", err)
			}
		}
		synctest.Wait() // for what evicts
		if n := h.Stats().Records; n < bound/2 || n > bound {
			t.Errorf("%d records are held; the bound is %d", n, bound)
		}
		reads(t, r, h, "read much", 0)
	})
}

// Both bounds hold, and a record larger than the bound is not held.
func TestBytes(t *testing.T) {
	for name, c := range map[string]struct{ records, bytes, size, most int }{
		"bytes":     {records: 1000, bytes: 20_000, size: 190, most: 100},
		"records":   {records: 50, bytes: 1 << 30, size: 190, most: 50},
		"too large": {records: 1000, bytes: 20_000, size: 20_001, most: 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRemote[string](t)
				h, err := hot.New(r, hot.Bounds{Records: c.records, Bytes: c.bytes, Staleness: staleness},
					&hot.Options[string]{SizeOf: func(v string) int { return len(v) }})
				ok(t, "New", err)
				for i := range 1000 {
					k := fmt.Sprintf("key %06d", i) // ten bytes
					r.put(t, k, strings.Repeat("x", c.size), time.Hour)
					_, err := h.Get(t.Context(), k)
					ok(t, "Get", err)
				}
				synctest.Wait() // for what evicts
				if n := h.Stats().Records; n > c.most || n < c.most*9/10 {
					t.Errorf("%d records are held; want %d", n, c.most)
				}
			})
		})
	}
}

// The absence of a key is answered from memory for Bounds.Absence at most, or until this process
// writes or forgets the key.
func TestAbsence(t *testing.T) {
	const absence = 5 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		h, err := hot.New(r, hot.Bounds{Records: 10, Staleness: staleness, Absence: absence}, nil)
		ok(t, "New", err)
		absent := func(when string, trips int) {
			t.Helper()
			n := r.during(func() {
				if _, err := h.Get(t.Context(), key); !errors.Is(err, driver.ErrNotFound) {
					t.Errorf("%s: Get: %v; want %v", when, err, driver.ErrNotFound)
				}
				if found, err := h.GetMulti(t.Context(), []string{key}); err != nil || len(found) != 0 {
					t.Errorf("%s: GetMulti: %v, %v", when, found, err)
				}
			})
			if n != trips {
				t.Errorf("%s: %d trips; want %d", when, n, trips)
			}
		}
		absent("at first", 1)
		r.put(t, key, "theirs", time.Hour)
		time.Sleep(absence - time.Nanosecond)
		absent("written by another", 0)
		time.Sleep(time.Nanosecond)
		reads(t, r, h, "theirs", 1)
		time.Sleep(absence)
		reads(t, r, h, "theirs", 0) // what is there stays for longer

		ok(t, "Delete", h.Delete(t.Context(), key))
		if found, err := h.GetMulti(t.Context(), []string{key}); err != nil || len(found) != 0 {
			t.Errorf("GetMulti: %v, %v", found, err)
		}
		absent("found so by GetMulti", 0)
		now := driver.Floor(time.Now())
		_, err = h.Insert(t.Context(), key, "mine", driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
		reads(t, r, h, "mine", 1)

		ok(t, "Delete", r.Driver.Delete(t.Context(), key))
		h.Forget(key)
		absent("when told", 1)
		h.Forget(key)
		ctx, cancel := context.WithCancel(t.Context())
		r.holds(func(context.Context) { cancel() })
		_, _ = h.GetMulti(ctx, []string{key})
		r.holds(nil)
		absent("left out of an answer whose context had ended", 1)
		r.put(t, key, "again", time.Hour)
		h.Forget(key)
		reads(t, r, h, "again", 1)
	})
}
