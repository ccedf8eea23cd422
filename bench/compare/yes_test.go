package compare

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/jellydator/ttlcache/v3"
	"github.com/maypok86/otter/v2"
	"github.com/patrickmn/go-cache"
)

// What the page grants scs beside a plain yes: a read that keeps nothing alive, a cap that a caller puts
// back after a renewal, and a shorter idle time for sessions that exist.
func TestYesScs(t *testing.T) {
	m, next := scsManager(), scsManager()
	next.Store, next.IdleTimeout = m.Store, 10*time.Minute
	synctest.Test(t, func(t *testing.T) {
		token := begun(t, m)
		time.Sleep(20 * time.Minute)
		load(t, m, token)
		time.Sleep(11 * time.Minute)
		if m.Exists(load(t, m, token), "user") {
			t.Error("a Load without a Commit keeps it alive")
		}
		ctx := load(t, m, begun(t, m))
		end := m.Deadline(ctx)
		time.Sleep(20 * time.Minute)
		if err := m.RenewToken(ctx); err != nil {
			t.Fatal(err)
		}
		m.SetDeadline(ctx, end)
		token = commit(t, m, ctx)
		if got := m.Deadline(load(t, m, token)); !got.Equal(end) {
			t.Errorf("it ends at %v, not at %v", got, end)
		}
		commit(t, next, load(t, next, token))
		time.Sleep(11 * time.Minute)
		if next.Exists(load(t, next, token), "user") {
			t.Error("it lives beyond the shorter idle time")
		}
	})
}

// A shorter age refuses gorilla's cookies that are older, and one session may have a shorter one.
func TestYesGorilla(t *testing.T) {
	s, server := redisSessions(t)
	synctest.Test(t, func(t *testing.T) {
		cookie := login(t, s)
		short := open(t, s, nil)
		short.Options.MaxAge = 60
		own := save(t, short)
		pass(server, 5*time.Minute)
		if !open(t, s, own).IsNew || open(t, s, cookie).IsNew {
			t.Error("the session with a minute lives, or the other one does not")
		}
		s.SetMaxAge(60)
		if !open(t, s, cookie).IsNew {
			t.Error("a cookie of five minutes opens a session of one")
		}
	})
}

// What caches do by a call that the page names.
func TestYesCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tc := ttlcache.New(ttlcache.WithTTL[string, int](halfHour), ttlcache.WithDisableTouchOnHit[string, int]())
		tc.Set("k", 1, ttlcache.DefaultTTL)
		oc := otter.Must(&otter.Options[string, int]{ExpiryCalculator: otter.ExpiryCreating[string, int](halfHour)})
		defer oc.StopAllGoroutines()
		oc.Set("k", 1)
		oc.Set("gone", 1)
		oc.Set("short", 1)
		oc.Invalidate("gone")
		if _, ok := oc.ComputeIfPresent("gone", func(v int) (int, otter.ComputeOp) { return v + 1, otter.WriteOp }); ok {
			t.Error("otter computes what is gone")
		}
		gc := cache.New(halfHour, 0)
		if err := gc.Replace("gone", 1, cache.DefaultExpiration); err == nil {
			t.Error("go-cache replaces what is gone")
		}
		time.Sleep(20 * time.Minute)
		tc.Set("k", 2, ttlcache.PreviousOrDefaultTTL)
		oc.Set("k", 2)
		oc.SetExpiresAfter("short", time.Minute)
		time.Sleep(2 * time.Minute)
		if _, ok := oc.GetEntryQuietly("short"); ok {
			t.Error("otter's entry outlives SetExpiresAfter")
		}
		time.Sleep(9 * time.Minute)
		if _, ok := oc.GetEntryQuietly("k"); ok || tc.Has("k") {
			t.Error("an overwrite moved the end of otter's entry or of ttlcache's item")
		}
	})
}
