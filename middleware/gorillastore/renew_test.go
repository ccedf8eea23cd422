package gorillastore_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func renew(s *gorilla.Session) { s.ID = "" }

// TestRenewalKeepsTheCap: a new token for the same user is no login.
func TestRenewalKeepsTheCap(t *testing.T) {
	for _, user := range []string{"", "ann"} {
		run(t, nil, func(t *testing.T, a *site) {
			b := a.browser()
			if b.set("k", 1); user != "" {
				b.login(user)
			}
			began, id := time.Now(), b.request().get().ID
			for range 35 {
				time.Sleep(20 * time.Minute)
				was := b.like()
				if err := b.do(renew); err != nil || len(b.sent) != 1 {
					t.Fatalf("%v, cookies %v", err, b.sent)
				}
				was.has("k", nil, "the token before")
			}
			if now := b.request().get().ID; now != id {
				t.Errorf("another session: %q, it was %q", now, id)
			}
			if user != "" {
				list, err := a.store.Sessions().List(t.Context(), user)
				if err != nil || len(list) != 1 || !list[0].CreatedAt.Equal(began) {
					t.Errorf("listed: %v, %v", list, err)
				}
			}
			time.Sleep(20 * time.Minute)
			b.has("k", nil, "the absolute timeout")
		})
	}
}

// TestRenewalAtOnce: one of two requests renews the token, and the other one's client must not have
// written into a session whose token it was not given.
func TestRenewalAtOnce(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("cart", "egg")
		other := b.like()
		q, kept := other.request(), other.request()
		s, s2 := q.get(), kept.get()
		if err := b.do(renew); err != nil {
			t.Fatal(err)
		}
		s.Values["k"] = 9
		s.ID = ""
		if err := s.Save(q.r, q.w); !errors.Is(err, session.ErrEnded) || len(q.sent()) > 0 {
			t.Errorf("a second renewal: %v, cookies %v", err, q.sent())
		}
		if err := s.Save(q.r, q.w); err == nil || len(q.sent()) > 0 {
			t.Errorf("saved again: %v, cookies %v", err, q.sent())
		}
		s2.Values["k"], s2.Options.Path = 1, "/a"
		if err := s2.Save(kept.r, kept.w); err != nil || len(kept.sent()) > 0 {
			t.Errorf("a request that has read the session: %v, cookies %v", err, kept.sent())
		}
		b.has("k", 1, "saved by the other request")
		if err := other.do(func(s *gorilla.Session) { s.Values["k"] = 2 }); !errors.Is(err, session.ErrEnded) || len(other.sent) > 0 {
			t.Errorf("a Save with the former token: %v, cookies %v", err, other.sent)
		}
	})
}

// TestRenewalThatConflicts: nothing is written, the token stays, and the program may save again.
func TestRenewalThatConflicts(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("n", 1)
		q := b.request()
		s := q.get()
		b.set("n", 2)
		s.Values["n"] = 3
		s.ID = ""
		if err := s.Save(q.r, q.w); !errors.Is(err, slidingttl.ErrConflict) || len(q.sent()) > 0 {
			t.Errorf("%v, cookies %v", err, q.sent())
		}
		b.has("n", 2, "a conflict")
		was := b.like()
		s.Values["n"], s.Values["m"] = 1, 1
		if err := s.Save(q.r, q.w); err != nil {
			t.Error(err)
		}
		q.answer()
		b.has("m", 1, "saved again")
		b.has("n", 2, "saved again")
		was.has("n", nil, "the token before")
	})
}

// TestEndAtEachCall ends a session before each call that a Save makes of the store. What has ended
// is then no session of anybody.
func TestEndAtEachCall(t *testing.T) {
	ends := map[string]func(a *site, b *browser) error{
		"logout": func(_ *site, b *browser) error { return b.do(func(s *gorilla.Session) { s.Options.MaxAge = -1 }) },
		"clear":  func(_ *site, b *browser) error { return b.do(func(s *gorilla.Session) { clear(s.Values) }) },
		"revocation": func(a *site, _ *browser) error {
			return a.store.Sessions().RevokeAll(context.Background(), "ann")
		},
	}
	saves := map[string]func(s *gorilla.Session){
		"renewal":              renew,
		"renewal and change":   func(s *gorilla.Session) { s.ID = ""; s.Values["k"] = 2 },
		"change":               func(s *gorilla.Session) { s.Values["k"] = 2 },
		"cookie":               func(s *gorilla.Session) { s.Options.Path = "/x" },
		"adoption":             func(s *gorilla.Session) { s.Values["k"] = 2 },
		"removal of the user":  func(s *gorilla.Session) { delete(s.Values, "user") },
		"renewal, with no one": renew,
	}
	for end, over := range ends {
		for save, change := range saves {
			nobody := func(*gorilla.Session) session.Login { return session.Login{} }
			opts := &gorillastore.Options{Login: user}
			if save == "renewal, with no one" {
				opts.Login = nobody
			}
			fired := true
			for at := int64(1); fired; at++ {
				fired = false
				run(t, opts, func(t *testing.T, a *site) {
					begun := a
					if save == "adoption" { // by a release without Options.Login
						old, err := gorillastore.New(a.d, nil)
						if err != nil {
							t.Fatal(err)
						}
						defer old.Sessions().Close(context.Background())
						begun = &site{t: t, d: a.d, store: old}
					}
					if end == "revocation" && (save == "adoption" || opts.Login(&gorilla.Session{Values: map[any]any{"user": "x"}}).User == "") {
						return // ann is not known to have a session
					}
					before := begun.browser()
					before.login("ann")
					before.set("secret", "s")
					b := a.browser()
					b.cookies = before.cookies
					other := b.like()
					q := b.request()
					s := q.get()
					change(s)
					var failed error
					n := int64(0)
					a.d.before = func() {
						if n++; n == at {
							fired = true
							if save == "adoption" && other.request().get().IsNew {
								failed = errors.New("there is nothing to end by this token")
								return
							}
							failed = over(a, other)
						}
					}
					err := s.Save(q.r, q.w)
					a.d.before = nil
					q.answer()
					if !fired || failed != nil {
						return
					}
					now := b.request().get()
					if now.Values["user"] != nil || save != "removal of the user" && now.Values["secret"] != nil {
						t.Errorf("%s before call %d of a %s: Save %v, and the client has %v", end, at, save, err, now.Values)
					}
				})
			}
		}
	}
}

// TestReplacementThatFails: the session that was to be replaced is still there.
func TestReplacementThatFails(t *testing.T) {
	run(t, &gorillastore.Options{Sessions: session.Options{MaxData: 1000}}, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		b.set("cart", "egg")
		for what, change := range map[string]func(s *gorilla.Session){
			"another user": func(s *gorilla.Session) { s.Values["user"] = "bob" },
			"no user":      func(s *gorilla.Session) { delete(s.Values, "user") },
		} {
			a.d.full.Store(true)
			if err := b.do(change); err == nil || len(b.sent) > 0 {
				t.Errorf("%s: %v, cookies %v", what, err, b.sent)
			}
			a.d.full.Store(false)
			b.has("cart", "egg", what)
			b.has("user", "ann", what)
		}
		q := b.request()
		s := gorilla.NewSession(a.store, name)
		s.Values["big"] = make([]byte, 1000)
		if err := s.Save(q.r, q.w); !errors.Is(err, slidingttl.ErrInvalid) {
			t.Error(err)
		}
		b.has("cart", "egg", "a foreign session that is too large")
	})
}

// TestLoginIntroduced: sessions that were begun without Options.Login.
func TestLoginIntroduced(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		old, err := gorillastore.New(a.d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer old.Sessions().Close(context.Background())
		before := (&site{t: t, d: a.d, store: old}).browser()
		before.login("ann")
		b := a.browser()
		b.cookies = before.like().cookies
		if err := b.do(func(*gorilla.Session) {}); err != nil {
			t.Error(err)
		}
		b.has("user", "ann", "adopted")
		before.has("user", nil, "the token before")
		if list, err := a.store.Sessions().List(t.Context(), "ann"); err != nil || len(list) != 1 {
			t.Errorf("%d sessions, %v", len(list), err)
		}
	})
}

// TestCookieIsRenewedInTime: however late in the session's life it is saved.
func TestCookieIsRenewedInTime(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		a.store.Options.MaxAge = 6 * 3600
		b := a.browser()
		b.login("ann")
		for range 70 {
			time.Sleep(10 * time.Minute)
			if err := b.do(func(*gorilla.Session) {}); err != nil || len(b.sent) != 1 {
				t.Fatalf("%v, cookies %v", err, b.sent)
			}
		}
	})
}

// TestNaN: a value that is not equal to itself has not changed.
func TestNaN(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		for _, key := range []string{"a", "b", "c"} {
			b.set(key, math.NaN())
		}
		writes := a.d.writes.Load()
		for range 20 {
			if err := b.do(func(*gorilla.Session) {}); err != nil {
				t.Error(err)
			}
		}
		if n := a.d.writes.Load() - writes; n != 0 {
			t.Errorf("%d writes", n)
		}
		q := b.request()
		s := q.get()
		b.set("k", 1)
		s.Values["l"] = 1
		if err := s.Save(q.r, q.w); err != nil {
			t.Error(err)
		}
	})
}
