package couchbase_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// together runs f(0) to f(n-1) at once and waits for them.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i)
		})
	}
	close(begin)
	all.Wait()
}

// Many goroutines on one key that is due cost one touch.
func TestHotKeyIsTouchedOnce(t *testing.T) {
	f := open(t)
	s := newStore(t, f, newDriver[profile](t, f, nil), slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[profile]{Strict: true})
	ok(t, "Insert", s.Insert(t.Context(), "k", profile{Name: "a"}))
	for range 100 {
		f.Advance(time.Second)
		got := f.during(func() {
			together(64, func(int) {
				if v, err := s.Get(t.Context(), "k"); err != nil || v.Name != "a" {
					t.Errorf("Get: %v, %v", v, err)
				}
			})
		})
		if want := (couchbasetest.Counts{LookupIn: 64, MutateIn: 1, Mutations: 1}); got != want {
			t.Errorf("64 reads at once: the node counted %+v; want %+v", got, want)
		}
	}
}

// Updates of one key from many goroutines all count, and touches in between cost a
// retry and no error.
func TestUpdatesAreNotLost(t *testing.T) {
	const writers, each = 8, 8
	f := open(t)
	d := newDriver[profile](t, f, nil)
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}
	stores := []*slidingttl.Store[profile]{newStore(t, f, d, policy, nil), newStore(t, f, d, policy, nil)}
	ok(t, "Insert", stores[0].Insert(t.Context(), "k", profile{}))
	together(2*writers, func(i int) {
		s := stores[i%2]
		for range each {
			if i >= writers {
				f.Advance(time.Second)
				if _, err := s.Get(t.Context(), "k"); err != nil {
					t.Errorf("Get: %v", err)
				}
				continue
			}
			_, err := s.Update(t.Context(), "k", func(p profile) (profile, error) {
				p.Count++
				return p, nil
			})
			if err != nil {
				t.Errorf("Update: %v", err)
			}
		}
	})
	if v, err := stores[0].Get(t.Context(), "k"); err != nil || v.Count != writers*each {
		t.Errorf("after %d updates: %+v, %v", writers*each, v, err)
	}
}

// Two processes whose clocks are two seconds apart, both ways off the server's, work on
// the same keys: nothing dies early, nothing outlives its deadline by more than the
// skew, and none of their calls fails.
func TestTwoProcessesWithSkewedClocks(t *testing.T) {
	const skew = 2 * time.Second
	const idle, life = time.Minute, 10 * time.Minute
	f := open(t)
	d := newDriver[profile](t, f, nil)
	policy := slidingttl.Policy{IdleGrace: idle, MaxLifetime: life}
	var stores []*slidingttl.Store[profile]
	for _, off := range []time.Duration{-skew / 2, skew / 2} {
		stores = append(stores, newStore(t, f, d, policy, &slidingttl.Options[profile]{
			Strict: true,
			Now:    func() time.Time { return f.Now().Add(off) },
		}))
	}
	const keys = 16
	key := func(i int) string { return fmt.Sprint("k", i) }
	for i := range keys {
		ok(t, "Insert", stores[i%2].Insert(t.Context(), key(i), profile{Count: i}))
	}
	// Busy until close to the cap, with pauses that are within the idle grace by both clocks.
	for f.Now().Sub(start) < life-2*idle {
		f.Advance(idle - skew - time.Second)
		together(32, func(g int) {
			for i := range keys {
				s := stores[(g+i)%2]
				if g%4 == 0 {
					if err := s.Upsert(t.Context(), key(i), profile{Count: i}); err != nil {
						t.Errorf("Upsert: %v", err)
					}
				} else if v, err := s.Get(t.Context(), key(i)); err != nil || v.Count != i {
					t.Errorf("Get %v after creation: %v, %v", f.Now().Sub(start), v, err)
				}
			}
		})
		for i := range keys {
			expiry, created := stored(t, f.c, key(i))
			if off := time.UnixMilli(created).Sub(start); off != -skew/2 && off != skew/2 {
				t.Fatalf("created_at has moved by %v", off)
			}
			least, most := f.Now().Add(idle-skew/2), f.Now().Add(idle+skew/2+time.Second)
			if at := time.Unix(expiry, 0); at.Before(least) || at.After(most) {
				t.Errorf("the expiry is %v from now; want between %v and %v", at.Sub(f.Now()), idle-skew/2, idle+skew/2+time.Second)
			}
		}
	}
	f.SetTime(start.Add(life + skew/2 + time.Second))
	for i := range keys {
		for _, s := range stores {
			if _, err := s.Get(t.Context(), key(i)); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Get past the cap of both clocks: %v", err)
			}
		}
	}
}

// Reads of many keys from many goroutines stay within what gocb's queue takes.
func TestManyGetMulti(t *testing.T) {
	const callers, keys = 64, 100
	f := open(t)
	d := newDriver[profile](t, f, nil)
	s := newStore(t, f, d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour, Slack: time.Minute}, nil)
	var all []string
	for i := range keys {
		all = append(all, fmt.Sprint("k", i))
		if i%4 != 0 {
			ok(t, "Insert", s.Insert(t.Context(), all[i], profile{Count: i}))
		}
	}
	asked := append(all, all[:10]...) // duplicates
	got := f.during(func() {
		together(callers, func(int) {
			found, err := s.GetMulti(t.Context(), asked)
			if err != nil {
				t.Errorf("GetMulti: %v", err)
			}
			if len(found) != keys*3/4 {
				t.Errorf("GetMulti found %d; want %d", len(found), keys*3/4)
			}
			for i, k := range all {
				if v, there := found[k]; there != (i%4 != 0) || there && v.Count != i {
					t.Errorf("%s: %v, %t", k, v, there)
				}
			}
		})
	})
	if want := (couchbasetest.Counts{LookupIn: callers * keys}); got != want {
		t.Errorf("the node counted %+v; want %+v", got, want)
	}
}
