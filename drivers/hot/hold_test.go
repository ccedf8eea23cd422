package hot_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A hit makes no trip, and what others write is seen when what is held is too old, and not
// before.
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

// What is held counts as read when the read began, however long that took.
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

// A record is not answered from memory when its expiry has come: another may have touched it.
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

// By Options.Now an expiry comes when the application says, whatever the store's clock.
func TestNow(t *testing.T) {
	r := newRemote[string](t)
	now := time.Now()
	h, err := hot.New[string](r, hot.Bounds{Records: 1, Staleness: time.Hour}, &hot.Options{Now: func() time.Time { return now }})
	ok(t, "New", err)
	r.put(t, key, "kept", time.Minute)
	reads(t, r, h, "kept", 1)
	reads(t, r, h, "kept", 0)
	now = now.Add(2 * time.Minute)
	reads(t, r, h, "kept", 1)
}

// A batch asks the store for what is not held, and says of each fault where it stood.
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
			// What may be stale already is not held.
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

// What is held was read by Latest, where other reads may be stale.
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

// A write by another that this process is told of is seen at once.
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

// Latest shows what is stored, and what it finds is held from then on.
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

// Of two reads the one that began later stays.
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

// No more is held than was allowed, and those read most stay.
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
