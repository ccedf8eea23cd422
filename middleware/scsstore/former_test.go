package scsstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"

	"github.com/slidingttl/slidingttl/middleware/scsstore"
)

// onScs runs the application on scs and its own store, and logs ann in there.
func (a *app) onScs(former scs.Store) {
	was := a.sessions
	a.sessions = manager(former)
	a.sessions.IdleTimeout = 30 * time.Minute
	a.put("user", "ann")
	a.want("user", "ann", "on scs")
	a.sessions = was
}

func TestSessionsFromBeforeTheMove(t *testing.T) {
	former := memstore.NewWithCleanupInterval(0)
	runOver(t, former, func(t *testing.T, a *app) {
		phone, lost := a.browser(), a.browser()
		for _, b := range []*app{a, phone, lost} {
			b.onScs(former)
		}
		began, cookie := time.Now(), a.cookie
		time.Sleep(10 * time.Minute)
		for range 10 {
			a.want("user", "ann", "moved, and busy for longer than scs would keep it without a write")
			time.Sleep(29 * time.Minute)
		}
		a.do(func(ctx context.Context) {
			if at := a.sessions.Deadline(ctx); !at.Equal(began.Add(24 * time.Hour)) {
				t.Errorf("the deadline is %v after the login", at.Sub(began))
			}
		})
		if w := a.store.writes.Load(); w != 3 || a.cookie != cookie {
			t.Errorf("%d writes, and the cookie %q became %q", w, cookie, a.cookie)
		}
		lost.want("user", "", "died while scs had it")

		time.Sleep(34 * time.Minute)
		a.want("user", "", "died here, and scs's store does not bring it back")

		a.onScs(former)
		a.do(func(ctx context.Context) {
			if err := a.sessions.RenewToken(ctx); err != nil {
				t.Error(err)
			}
		})
		a.want("user", "ann", "renewed")
		phone.onScs(former)
		gone := phone.cookie
		phone.do(func(ctx context.Context) {
			if err := a.sessions.Destroy(ctx); err != nil {
				t.Error(err)
			}
		})
		phone.cookie = gone
		phone.want("user", "", "destroyed")

		phone.onScs(former)
		if n := a.everywhere("ann"); n != 2 {
			t.Errorf("%d sessions, want one here and one there", n)
		}
		a.want("user", "", "logged out everywhere")
		phone.want("user", "", "logged out everywhere, before it had moved")
		if left, err := former.All(); err != nil || len(left) != 0 {
			t.Errorf("%d sessions left on scs, %v", len(left), err)
		}
	})
}

// hooked is a former store with methods of both kinds, some of which fail or are slow.
type hooked struct {
	*memstore.MemStore
	find   func(n int) error // called before the n-th find
	finds  int
	delete error
	all    error
	listed func() // called after the list was made

	fault func(call func() error) error // makes each find and delete; nil: they are just made
}

func (h *hooked) call(f func() error) error {
	if h.fault == nil {
		return f()
	}
	return h.fault(f)
}

func (h *hooked) FindCtx(_ context.Context, token string) (b []byte, found bool, err error) {
	h.finds++
	if h.find != nil {
		if err := h.find(h.finds); err != nil {
			return nil, false, err
		}
	}
	err = h.call(func() (err error) {
		b, found, err = h.MemStore.Find(token)
		return err
	})
	return b, found, err
}

func (h *hooked) DeleteCtx(_ context.Context, token string) error {
	if h.delete != nil {
		return h.delete
	}
	return h.call(func() error { return h.MemStore.Delete(token) })
}

func (h *hooked) CommitCtx(_ context.Context, token string, b []byte, expiry time.Time) error {
	return h.MemStore.Commit(token, b, expiry)
}

func (h *hooked) AllCtx(context.Context) (map[string][]byte, error) {
	if h.all != nil {
		return nil, h.all
	}
	all, err := h.MemStore.All()
	if h.listed != nil {
		h.listed()
	}
	return all, err
}

var _ scsstore.Former = (*hooked)(nil)

// TestMovesAtOnce: two requests move one session; the later one finds it moved.
func TestMovesAtOnce(t *testing.T) {
	for _, late := range []int{1, 2} {
		former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
		runOver(t, former, func(t *testing.T, a *app) {
			a.onScs(former.MemStore)
			former.find = func(n int) error {
				if n == late {
					a.browserWith(a.cookie).want("user", "ann", "the other request")
				}
				return nil
			}
			a.want("user", "ann", "moved by two requests")
			a.want("user", "ann", "and once more")
			if left, _ := former.All(); len(left) != 0 {
				t.Errorf("%d sessions left on scs", len(left))
			}
		})
	}
}

func (a *app) browserWith(cookie string) *app {
	b := a.browser()
	b.cookie = cookie
	return b
}

// TestDestroyDuringMove: a session that is destroyed while another request moves it ends.
func TestDestroyDuringMove(t *testing.T) {
	former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
	runOver(t, former, func(t *testing.T, a *app) {
		a.onScs(former.MemStore)
		_, token, _ := strings.Cut(a.cookie, "=")
		former.find = func(n int) error {
			if n != 2 {
				return nil
			}
			// Between the two deletes of a Destroy this request inserted.
			return former.MemStore.Delete(token)
		}
		a.want("user", "", "destroyed while it moved")
		former.find = nil
		a.want("user", "", "and it stays so")
		if all, err := a.kept.All(); err != nil || len(all) != 0 {
			t.Errorf("%d sessions left, %v", len(all), err)
		}
	})
}

// TestMoveDuringIterate: a session that moves while all are listed is listed once.
func TestMoveDuringIterate(t *testing.T) {
	former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
	runOver(t, former, func(t *testing.T, a *app) {
		a.onScs(former.MemStore)
		former.listed = func() { a.want("user", "ann", "moved") }
		if n := a.everywhere("ann"); n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
		a.want("user", "", "logged out everywhere")
	})
}

func TestFormerStoreFails(t *testing.T) {
	down := errors.New("down")
	former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
	runOver(t, former, func(t *testing.T, a *app) {
		a.onScs(former.MemStore)
		_, token, _ := strings.Cut(a.cookie, "=")
		find := func(want error, found bool) {
			t.Helper()
			if _, ok, err := a.kept.Find(token); !errors.Is(err, want) || ok != found {
				t.Errorf("found %v, error %v; want %v, %v", ok, err, found, want)
			}
		}
		former.find = func(int) error { return down }
		find(down, false)
		former.find = func(n int) error {
			if n == 3 {
				return down
			}
			return nil
		}
		find(down, false)
		find(nil, true) // it had moved

		former.delete, former.all = down, down
		if err := a.kept.Delete(token); err != down {
			t.Errorf("Delete: %v", err)
		}
		find(nil, true)
		if _, err := a.kept.All(); err != down {
			t.Errorf("All: %v", err)
		}
		former.delete = nil
		if err := a.kept.Delete(token); err != nil {
			t.Error(err)
		}
		find(nil, false)

		if err := former.MemStore.Commit("bad", []byte("no gob"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		if _, found, err := a.kept.Find("bad"); found || err == nil {
			t.Errorf("a session that does not decode: found %v, %v", found, err)
		}
	})
}

// TestMoveFailsAnywhere: each call of a move fails once, before or after its effect, or its process dies
// there. The next request has the session, and what it changes is not undone: after its end here the
// session does not come back from the former store, which has no idle timeout.
func TestMoveFailsAnywhere(t *testing.T) {
	calls := 0
	for failing := range 20 {
		for _, after := range []bool{false, true} {
			former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
			runOver(t, former, func(t *testing.T, a *app) {
				kept := a.sessions
				a.sessions = manager(former.MemStore)
				a.put("user", "ann")
				a.sessions = kept
				n, dead := 0, false
				fault := func(call func() error) error {
					n++
					if !dead && n-1 != failing {
						return call()
					}
					if after && !dead {
						_ = call()
					}
					dead = true
					return errors.New("the process has died")
				}
				former.fault, a.store.fault = fault, fault
				_, token, _ := strings.Cut(a.cookie, "=")
				_, found, err := a.kept.Find(token)
				if found != (err == nil) {
					t.Fatalf("found %v, %v", found, err)
				}
				calls = max(calls, n)
				former.fault, a.store.fault = nil, nil
				if !dead {
					failing = -1
				}
				all, err := a.kept.All()
				if err != nil || len(all) != 1 {
					t.Fatalf("%d sessions, %v", len(all), err)
				}
				for listed, b := range all { // a change by Iterate
					if err := a.kept.Commit(listed, b, time.Now().Add(24*time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
				a.want("user", "ann", "after the failure")
				a.put("user", "bob")
				a.want("user", "bob", "changed")
				if left, _ := former.All(); len(left) != 0 {
					t.Errorf("call %d failed: %d sessions left in the former store", failing, len(left))
				}
				time.Sleep(34 * time.Minute)
				a.want("user", "", "idle for longer than the policy allows")
			})
		}
	}
	if calls != 6 {
		t.Errorf("a move makes %d calls, want 6", calls)
	}
}

// TestDestroyDuringFailedMove: a session whose move was begun by a request that failed is destroyed, or
// dies in the former store, before the next request.
func TestDestroyDuringFailedMove(t *testing.T) {
	for failing := range 6 {
		former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
		runOver(t, former, func(t *testing.T, a *app) {
			a.onScs(former.MemStore)
			_, token, _ := strings.Cut(a.cookie, "=")
			n := 0
			fault := func(call func() error) error {
				if n++; n > failing {
					return errors.New("down")
				}
				return call()
			}
			former.fault, a.store.fault = fault, fault
			_, _, _ = a.kept.Find(token)
			former.fault, a.store.fault = nil, nil
			if err := a.kept.Delete(token); err != nil {
				t.Fatal(err)
			}
			a.want("user", "", "destroyed")
			if all, err := a.kept.All(); err != nil || len(all) != 0 {
				t.Errorf("%d sessions left, %v", len(all), err)
			}
		})
	}
}
