package gorillastore_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// TestSaveAfterFailedGet: a session that Get could not read, because its context had ended, is not saved as an empty
// one by a context that has not.
func TestSaveAfterFailedGet(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		q := b.request()
		ctx, cancel := context.WithCancel(q.r.Context())
		cancel()
		inner := q.r.WithContext(ctx)
		s, err := a.store.Get(inner, name)
		if err == nil {
			t.Fatal("Get by an ended context")
		}
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

// TestMergedLogin: two requests whose values together name a user log in, with a new token.
func TestMergedLogin(t *testing.T) {
	run(t, &gorillastore.Options{Login: func(s *gorilla.Session) session.Login {
		u, _ := s.Values["user"].(string)
		if ok, _ := s.Values["mfa"].(bool); !ok {
			u = ""
		}
		return session.Login{User: u}
	}}, func(t *testing.T, a *site) {
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
