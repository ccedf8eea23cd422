package compare

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"github.com/maypok86/otter/v2"
	"github.com/patrickmn/go-cache"
)

const halfHour = 30 * time.Minute

// An item that is read every 20 minutes lives for a week, and there is no other limit to set.
func TestTTLCacheHasNoCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ttlcache.New(ttlcache.WithTTL[string, int](halfHour))
		c.Set("k", 42, ttlcache.DefaultTTL)
		for began := time.Now(); time.Since(began) < 7*24*time.Hour; {
			time.Sleep(20 * time.Minute)
			c.Get("k")
		}
		if !c.Has("k") {
			t.Error("after a week it is gone")
		}
	})
}

// A slow caller that read the item before its Delete sets it again, and no write asks for what it read.
func TestTTLCacheDeleteIsUndone(t *testing.T) {
	c := ttlcache.New(ttlcache.WithTTL[string, int](halfHour))
	c.Set("k", 42, ttlcache.DefaultTTL)
	slow := c.Get("k").Value()
	c.Delete("k")
	c.Set("k", slow+1, ttlcache.DefaultTTL)
	if !c.Has("k") {
		t.Error("what was deleted stays so")
	}
}

// Of two callers that add to the item, the later one undoes the other's addition.
func TestTTLCacheLosesAnUpdate(t *testing.T) {
	c := ttlcache.New(ttlcache.WithTTL[string, []string](halfHour))
	c.Set("k", nil, ttlcache.DefaultTTL)
	first, second := c.Get("k").Value(), c.Get("k").Value()
	c.Set("k", append(first, "a book"), ttlcache.DefaultTTL)
	c.Set("k", append(second, "a pen"), ttlcache.DefaultTTL)
	if all := c.Get("k").Value(); len(all) != 1 {
		t.Errorf("it holds %v", all)
	}
}

// An item keeps the TTL that it was set with. Neither a Get nor a Touch changes it, and a cache has no
// call for its TTL.
func TestTTLCacheKeepsTheOldTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := ttlcache.New(ttlcache.WithTTL[string, int](12 * time.Hour))
		c.Set("k", 42, ttlcache.DefaultTTL)
		c.Get("k", ttlcache.WithTTL[string, int](halfHour))
		c.Touch("k")
		time.Sleep(time.Hour)
		if !c.Has("k") {
			t.Error("it died by the shorter TTL")
		}
	})
}

// Read after 0.9 s, an entry that was to live for 30 minutes from its last read is gone 0.6 s early: a
// read that would move the expiry by a second or less leaves it.
func TestOtterMayEndEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := otter.Must(&otter.Options[string, int]{ExpiryCalculator: otter.ExpiryAccessing[string, int](halfHour)})
		defer c.StopAllGoroutines()
		c.Set("k", 42)
		time.Sleep(900 * time.Millisecond)
		_, before := c.GetIfPresent("k")
		time.Sleep(halfHour - 600*time.Millisecond)
		if _, after := c.GetEntryQuietly("k"); !before || after {
			t.Errorf("at its read it is there: %v, 0.6 s before its end: %v", before, after)
		}
	})
}

// An item that is read each minute dies 30 minutes after it was set. Set at each read, it has no cap.
func TestGoCacheHasOneLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New(halfHour, 0)
		c.SetDefault("read", 42)
		c.SetDefault("set", 42)
		for range 7 * 24 * 60 {
			time.Sleep(time.Minute)
			c.Get("read")
			v, _ := c.Get("set")
			c.SetDefault("set", v)
		}
		_, read := c.Get("read")
		_, set := c.Get("set")
		if read || !set {
			t.Errorf("after a week, read: %v, set: %v", read, set)
		}
	})
}

// Of two callers that add to the item, the later one undoes the other's addition.
func TestGoCacheLosesAnUpdate(t *testing.T) {
	c := cache.New(halfHour, 0)
	c.SetDefault("k", []string(nil))
	first, _ := c.Get("k")
	second, _ := c.Get("k")
	for _, err := range []error{
		c.Replace("k", append(first.([]string), "a book"), cache.DefaultExpiration),
		c.Replace("k", append(second.([]string), "a pen"), cache.DefaultExpiration),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if all, _ := c.Get("k"); len(all.([]string)) != 1 {
		t.Errorf("it holds %v", all)
	}
}

// An item that is replaced every 20 minutes outlives its 30 minutes by a week.
func TestGoCacheReplaceRestartsTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New(halfHour, 0)
		c.SetDefault("k", 42)
		for began := time.Now(); time.Since(began) < 7*24*time.Hour; {
			time.Sleep(20 * time.Minute)
			_ = c.Replace("k", 43, cache.DefaultExpiration)
		}
		if _, ok := c.Get("k"); !ok {
			t.Error("after a week it is gone")
		}
	})
}

// The hook gets key and value of what expired and of what was deleted, and no reason.
func TestGoCacheDeathsLookAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cache.New(halfHour, 0)
		var gone []any
		c.OnEvicted(func(key string, v any) { gone = append(gone, key, v) })
		c.SetDefault("k", 42)
		c.Delete("k")
		c.SetDefault("k", 42)
		time.Sleep(time.Hour)
		c.DeleteExpired()
		if len(gone) != 4 || gone[0] != gone[2] || gone[1] != gone[3] {
			t.Errorf("the hook got %v", gone)
		}
	})
}

// An item dies when it was told to. No later default changes that of items that are there.
func TestGoCacheKeepsTheOldLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := cache.New(12*time.Hour, 0)
		before.SetDefault("k", 42)
		after := cache.NewFrom(halfHour, 0, before.Items())
		time.Sleep(time.Hour)
		if _, ok := after.Get("k"); !ok {
			t.Error("it died by the shorter limit")
		}
	})
}

// A hundred thousand items are all held, for there is no bound to set.
func TestGoCacheHasNoBound(t *testing.T) {
	c := cache.New(halfHour, 0)
	for i := range 100_000 {
		c.SetDefault(string(rune(i%1000+'a'))+string(rune(i/1000+'a')), i)
	}
	if n := c.ItemCount(); n != 100_000 {
		t.Errorf("it holds %d items", n)
	}
}
