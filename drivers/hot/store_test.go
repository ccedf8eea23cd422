package hot_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// policy has slack, because without it a tier saves nothing.
var policy = slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 3 * time.Hour, Slack: 10 * time.Minute}

func open(t testing.TB, d driver.Driver[string], opts *slidingttl.Options[string]) *slidingttl.Store[string] {
	t.Helper()
	s, err := slidingttl.New(d, policy, opts)
	ok(t, "slidingttl.New", err)
	t.Cleanup(func() { ok(t, "Store.Close", s.Close(t.Context())) })
	return s
}

func longTier(t testing.TB, d driver.Driver[string]) *hot.Driver[string] {
	t.Helper()
	h, err := hot.New(d, hot.Bounds{Records: 10, Staleness: 24 * time.Hour}, nil)
	ok(t, "New", err)
	return h
}

// A record that is answered from memory is touched when due, and dies at its cap, even if it is
// held for longer.
func TestStoreSlides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		s := open(t, longTier(t, r), nil)
		ok(t, "Insert", s.Insert(t.Context(), key, "kept"))
		born := r.now()
		trips := r.during(func() {
			for r.now() < born.Add(policy.MaxLifetime-time.Minute) {
				before := r.now()
				if v, err := s.Get(t.Context(), key); err != nil || v != "kept" {
					t.Fatalf("Get after %v: %q, %v", before.Sub(born), v, err)
				}
				e, err := r.Driver.Get(t.Context(), key)
				ok(t, "what is stored", err)
				if promised := policy.Deadline(born, before); e.ExpiresAt < promised {
					t.Fatalf("a read after %v has left an expiry %v short of the promise", before.Sub(born), promised.Sub(e.ExpiresAt))
				}
				time.Sleep(time.Minute)
			}
		})
		if touched := int(s.Stats().Touched); trips != 1+touched || touched < 10 || touched > 14 {
			t.Errorf("%d reads reached the store, and %d touches; want the first read, and those that touched", trips, touched)
		}
		time.Sleep(time.Minute)
		if _, err := s.Get(t.Context(), key); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("Get at the cap: %v", err)
		}
	})
}

// Past the cap of a tightened policy a held record is not answered.
func TestStoreKeepsATighterCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		s := open(t, longTier(t, r), nil)
		ok(t, "Insert", s.Insert(t.Context(), key, "kept"))
		_, err := s.Get(t.Context(), key)
		ok(t, "Get", err)
		time.Sleep(30 * time.Minute)
		ok(t, "SetPolicy", s.SetPolicy(slidingttl.Policy{IdleGrace: 10 * time.Minute, MaxLifetime: 20 * time.Minute}))
		if v, err := s.Get(t.Context(), key); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("Get past the new cap: %q, %v", v, err)
		}
	})
}

// A touch planned from a held record lands only on that record: another process's value keeps
// its life.
func TestStoreTouchesOnlyWhatItRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRemote[string](t)
		r.plain = true
		s := open(t, longTier(t, r), nil)
		elsewhere := open(t, r, nil)
		ok(t, "Insert", s.Insert(t.Context(), key, "first"))
		_, err := s.Get(t.Context(), key)
		ok(t, "Get", err)
		time.Sleep(20 * time.Minute)
		ok(t, "Delete elsewhere", elsewhere.Delete(t.Context(), key))
		ok(t, "Insert elsewhere", elsewhere.Insert(t.Context(), key, "second"))
		before, err := r.Driver.Get(t.Context(), key)
		ok(t, "what is stored", err)
		if v, err := s.Get(t.Context(), key); err != nil || v != "first" { // late, as was said
			t.Errorf("Get: %q, %v", v, err)
		}
		after, err := r.Driver.Get(t.Context(), key)
		if ok(t, "what is stored", err); after != before {
			t.Errorf("a touch of the record before has changed %+v to %+v", before, after)
		}
		if v, err := s.Get(t.Context(), key); err != nil || v != "second" { // the touch has met it
			t.Errorf("Get: %q, %v", v, err)
		}
	})
}

// With Options.Latest a deletion elsewhere is seen at once.
func TestStoreLatest(t *testing.T) {
	r := newRemote[string](t)
	s := open(t, longTier(t, r), &slidingttl.Options[string]{Latest: true})
	ok(t, "Insert", s.Insert(t.Context(), key, "kept"))
	_, err := s.Get(t.Context(), key)
	ok(t, "Get", err)
	ok(t, "Delete elsewhere", r.Driver.Delete(t.Context(), key))
	if v, err := s.Get(t.Context(), key); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("Get: %q, %v", v, err)
	}
}

// An Update that began from a held record includes another process's update.
func TestStoreUpdates(t *testing.T) {
	r := newRemote[string](t)
	s, elsewhere := open(t, longTier(t, r), nil), open(t, r, nil)
	ok(t, "Insert", s.Insert(t.Context(), key, "a"))
	_, err := s.Get(t.Context(), key)
	ok(t, "Get", err)
	add := func(what string) func(string) (string, error) {
		return func(v string) (string, error) { return v + what, nil }
	}
	_, err = elsewhere.Update(t.Context(), key, add("b"))
	ok(t, "Update elsewhere", err)
	if v, err := s.Update(t.Context(), key, add("c")); err != nil || v != "abc" {
		t.Errorf("Update: %q, %v", v, err)
	}
}
