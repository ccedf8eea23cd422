package gorillastore_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestSaveAfterFailedGet: a session that Get could not read, because its context had ended, is not saved as an empty
// one by a context that has not.
func TestSaveAfterFailedGet(t *testing.T) {
	for _, anonymous := range []bool{false, true} { // with it, Get returns no error
		run(t, &gorillastore.Options{Sessions: session.Options{Anonymous: anonymous, OnError: func(context.Context, error) {}}}, func(t *testing.T, a *site) {
			b := a.browser()
			b.login("ann")
			q := b.request()
			ctx, cancel := context.WithCancel(q.r.Context())
			cancel()
			inner := q.r.WithContext(ctx)
			s, _ := a.store.Get(inner, name)
			s.AddFlash("please try again")
			if err := s.Save(inner.WithContext(context.WithoutCancel(ctx)), q.w); err == nil {
				t.Error("Save of a session that could not be read")
			}
			q.answer()
			b.has("user", "ann", "nobody logged out")
			if err := a.store.Sessions().RevokeAll(context.Background(), "ann"); err != nil {
				t.Fatal(err)
			}
			if got := b.request().get().Values["user"]; got != nil {
				t.Errorf("after RevokeAll the client is still %v", got)
			}
		})
	}
}

// twoKeys logs a user in by two values.
func twoKeys(s *gorilla.Session) session.Login {
	u, _ := s.Values["user"].(string)
	if ok, _ := s.Values["mfa"].(bool); !ok {
		return session.Login{}
	}
	return session.Login{User: u, Remember: s.Options.MaxAge > 0}
}

// TestMergedLoginKeepsValues: of two requests that log in together, each keeps what it has added and taken, and the
// login is remembered as either would be.
func TestMergedLoginKeepsValues(t *testing.T) {
	run(t, &gorillastore.Options{Login: twoKeys}, func(t *testing.T, a *site) {
		a.store.Options.MaxAge = 3600 * 24 * 60
		b := a.browser()
		if err := b.do(func(s *gorilla.Session) { s.AddFlash("welcome") }); err != nil {
			t.Fatal(err)
		}
		q1, q2 := b.request(), b.request()
		s1, s2 := q1.get(), q2.get()
		s1.Flashes() // shown
		s1.AddFlash("password accepted")
		s1.Values["user"], s2.Values["mfa"] = "ann", true
		s2.AddFlash("code accepted")
		if err := errors.Join(s1.Save(q1.r, q1.w), s2.Save(q2.r, q2.w)); err != nil {
			t.Fatal(err)
		}
		q2.answer()
		if l, _ := b.request().get().Values["_flash"].([]any); len(l) != 2 {
			t.Errorf("flashes %v", l)
		}
		if list, err := a.store.Sessions().List(context.Background(), "ann"); err != nil || len(list) != 1 || !list[0].Remember {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// TestLogoutMergedWithLogin: a logout by value whose session names the user again by another request's value
// is no logout.
func TestLogoutMergedWithLogin(t *testing.T) {
	either := func(s *gorilla.Session) session.Login {
		user, _ := s.Values["user"].(string)
		if user == "" {
			user, _ = s.Values["sso"].(string)
		}
		return session.Login{User: user}
	}
	run(t, &gorillastore.Options{Login: either}, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		q1, q2 := b.request(), b.request()
		s1, s2 := q1.get(), q2.get()
		s1.Values["sso"] = "ann"
		delete(s2.Values, "user")
		if err := s1.Save(q1.r, q1.w); err != nil {
			t.Fatal(err)
		}
		if err := s2.Save(q2.r, q2.w); !errors.Is(err, slidingttl.ErrConflict) {
			t.Errorf("Save: %v", err)
		}
		q2.answer()
		if err := a.store.Sessions().RevokeAll(context.Background(), "ann"); err != nil {
			t.Fatal(err)
		}
		if u := either(b.request().get()).User; u != "" {
			t.Errorf("after RevokeAll the client is still %s", u)
		}
	})
}

// TestMergedToAnotherUser: two requests each keep the user, and their values together name another one. The later is
// refused: the session would be on the list of one user and log in the other.
func TestMergedToAnotherUser(t *testing.T) {
	either := func(s *gorilla.Session) session.Login {
		user, _ := s.Values["user"].(string)
		sso, _ := s.Values["sso"].(string)
		return session.Login{User: cmp.Or(user, sso)}
	}
	run(t, &gorillastore.Options{Login: either}, func(t *testing.T, a *site) {
		b, after, err := a.race(map[any]any{"user": "ann", "sso": "ann"},
			func(v map[any]any) { v["sso"] = "bob" }, func(v map[any]any) { delete(v, "user") })
		var conflict *gorillastore.ConflictError
		if !errors.As(err, &conflict) || conflict.Key != nil {
			t.Errorf("Save: %v", err)
		}
		if after["user"] != "ann" || after["sso"] != "bob" {
			t.Errorf("the session has %v", after)
		}
		if err := a.store.Sessions().RevokeAll(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
		if s := b.request().get(); !s.IsNew {
			t.Errorf("after RevokeAll the client has %v", s.Values)
		}
	})
}

// TestTwoLogoutsAtOnce: a session whose user two requests remove from its values at once goes on in one anonymous
// session, not in two.
func TestTwoLogoutsAtOnce(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		for at := 1; at < 12; at++ {
			b := a.browser()
			b.login("ann")
			b.set("cart", "x")
			q1, q2 := b.request(), b.request()
			s1, s2 := q1.get(), q2.get()
			delete(s1.Values, "user")
			delete(s2.Values, "user")
			n := 0
			a.d.before = func() {
				if n++; n == at {
					_ = s2.Save(q2.r, q2.w)
				}
			}
			_ = s1.Save(q1.r, q1.w)
			a.d.before = nil
			carts := map[string]bool{}
			for _, q := range []*request{q1, q2} {
				b := b.like()
				for _, c := range q.sent() {
					b.cookies[c.Name] = c.Value
				}
				if b.request().get().Values["cart"] != nil {
					carts[b.cookies[name]] = true
				}
			}
			if len(carts) > 1 {
				t.Errorf("at call %d it goes on in two", at)
			}
		}
	})
}

// TestMergedLogin: two requests whose values together name a user log in, with a new token.
func TestMergedLogin(t *testing.T) {
	run(t, &gorillastore.Options{Login: twoKeys}, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("theme", "dark")
		planted := b.like()
		q1, q2 := b.request(), b.request()
		s1, s2 := q1.get(), q2.get()
		s1.Values["user"], s2.Values["mfa"] = "ann", true
		if err := s1.Save(q1.r, q1.w); err != nil {
			t.Fatal(err)
		}
		q1.answer()
		if err := s2.Save(q2.r, q2.w); err != nil {
			t.Fatal(err)
		}
		q2.answer()
		if v := b.request().get().Values; v["user"] != "ann" || v["mfa"] != true || v["theme"] != "dark" {
			t.Errorf("the session has %v", v)
		}
		if v := planted.request().get().Values; v["user"] != nil {
			t.Errorf("the token from before the login opens %v", v)
		}
		if err := a.store.Sessions().RevokeAll(context.Background(), "ann"); err != nil {
			t.Fatal(err)
		}
		if v := b.request().get().Values; v["user"] != nil {
			t.Errorf("after RevokeAll the session has %v", v)
		}
	})
}

// TestCookieOfAnotherStore: a cookie of the same name that is no token, as another store has left it at another path,
// does not stand beside the session's.
func TestCookieOfAnotherStore(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		q := b.request()
		q.r.AddCookie(&http.Cookie{Name: name, Value: strings.Repeat("x", 100)})
		if got := q.get().Values["user"]; got != "ann" {
			t.Errorf("the user is %v", got)
		}
	})
}
