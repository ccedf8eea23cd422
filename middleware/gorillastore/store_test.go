package gorillastore_test

import (
	"encoding/gob"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

var _ gorilla.Store = (*gorillastore.Store)(nil)

// TestReadsCostNoWrite: also those that save, as a program does whose store has no sliding expiry.
func TestReadsCostNoWrite(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.has("user", nil, "a visitor")
		if n := a.d.reads.Load(); n != 0 {
			t.Errorf("%d reads for a visitor without a cookie", n)
		}
		b.login("ann")
		a.d.reads.Store(0)
		writes := a.d.writes.Load()
		for i := range 100 {
			time.Sleep(time.Second)
			if b.has("user", "ann", "live"); i%2 == 0 {
				continue
			}
			a.d.reads.Add(-1)
			if err := b.do(func(*gorilla.Session) {}); err != nil || len(b.sent) > 0 {
				t.Fatalf("error %v, cookies %v", err, b.sent)
			}
		}
		if r, w, n := a.d.reads.Load(), a.d.writes.Load()-writes, a.d.touches.Load(); r != 100 || w != 0 || n != 0 {
			t.Errorf("%d reads, %d writes and %d touches for a hundred requests", r, w, n)
		}
		for range 20 {
			time.Sleep(29 * time.Minute)
			b.has("user", "ann", "busy")
		}
		if n := a.d.touches.Load(); n != 20 {
			t.Errorf("%d touches, want 20", n)
		}
	})
}

func TestTimeouts(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		time.Sleep(34 * time.Minute)
		b.has("user", nil, "idle")

		b.login("ann")
		for range 24 {
			time.Sleep(29 * time.Minute)
			b.has("user", "ann", "busy")
			b.set("at", time.Now().Unix())
		}
		time.Sleep(25 * time.Minute)
		b.has("user", nil, "older than the absolute timeout, though changed all the time")
	})
}

func TestLogout(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.login("ann")
		thief := b.like()
		slow := b.request()
		s := slow.get()
		unchanged := b.request()
		u := unchanged.get()
		b.logout()
		if len(b.cookies) != 0 {
			t.Error("the client has kept its cookie")
		}
		thief.has("user", nil, "a copy of the cookie after the logout")
		if list, err := a.store.Sessions().List(t.Context(), "ann"); err != nil || len(list) != 0 {
			t.Errorf("%d sessions after the logout, %v", len(list), err)
		}

		s.Values["late"] = true
		if err := s.Save(slow.r, slow.w); !errors.Is(err, session.ErrEnded) {
			t.Errorf("a late Save: %v", err)
		}
		if err := u.Save(unchanged.r, unchanged.w); err != nil {
			t.Errorf("a late Save of nothing: %v", err)
		}
		for _, q := range []*request{slow, unchanged} {
			if c := q.sent(); len(c) > 0 {
				t.Errorf("a late Save sent %v", c)
			}
		}
		thief.has("user", nil, "a late Save")

		thief.set("cart", "egg")
		thief.has("user", nil, "a new session")
		b.logout() // without a session
		if len(b.sent) > 0 {
			t.Errorf("cookies %v", b.sent)
		}
	})
}

// TestSavesOfOneRequest: a request may save, end and begin its session as often as it likes.
func TestSavesOfOneRequest(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		q := b.request()
		s := q.get()
		save := func() {
			t.Helper()
			if err := s.Save(q.r, q.w); err != nil {
				t.Fatal(err)
			}
			q.answer()
		}
		s.Values["cart"] = []string{"egg"}
		save()
		first := b.cookies[name]
		if s.ID == "" || !s.IsNew || strings.Contains(first, s.ID) {
			t.Errorf("ID %q, new %v", s.ID, s.IsNew)
		}
		b.like().set("other", 1) // in another request
		s.Values["user"] = "ann"
		save()
		if s.Values["other"] != 1 {
			t.Error("another request's change is lost")
		}
		second := b.cookies[name]
		s.Values["cart"].([]string)[0] = "milk"
		save()
		if second == first || b.cookies[name] != second {
			t.Error("a login gives the one new token")
		}
		q2 := b.request()
		if s2 := q2.get(); s2.IsNew || s2.ID != s.ID || s2.Values["user"] != "ann" || s2.Values["cart"].([]string)[0] != "milk" {
			t.Errorf("%v, new %v, ID %q and %q", s2.Values, s2.IsNew, s2.ID, s.ID)
		}
		s.Options.MaxAge = -1
		save()
		s.Options.MaxAge = 0
		s.Values = map[any]any{"theme": "dark"}
		save()
		b.has("theme", "dark", "a session after a logout in the same request")
		b.has("user", nil, "a session after a logout in the same request")
	})
}

// TestFixation: what was known of a session before a login gives access to nothing after it.
func TestFixation(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		attacker := a.browser()
		attacker.set("cart", "egg")
		victim := attacker.like()
		time.Sleep(20 * time.Minute)
		victim.login("ann")
		victim.has("cart", "egg", "taken along")
		attacker.has("user", nil, "the cookie from before the login")

		began := time.Now()
		for time.Since(began) < 12*time.Hour-time.Minute {
			victim.has("user", "ann", "the absolute timeout counts from the login")
			time.Sleep(10 * time.Minute)
		}
		time.Sleep(time.Minute)
		victim.has("user", nil, "the absolute timeout")

		victim.login("ann")
		thief := victim.like()
		victim.login("bob")
		thief.has("user", nil, "another user has logged in")
		thief = victim.like()
		if err := victim.do(func(s *gorilla.Session) {
			delete(s.Values, "user")
			s.Values["theme"] = "dark"
		}); err != nil {
			t.Error(err)
		}
		thief.has("user", nil, "the user has gone")
		thief.has("theme", nil, "the user has gone")
		victim.has("theme", "dark", "an anonymous session")

		thief = victim.like()
		if err := victim.do(func(s *gorilla.Session) { s.ID = "" }); err != nil {
			t.Error(err)
		}
		victim.has("theme", "dark", "a new token")
		thief.has("theme", nil, "the token before")
		victim.login("ann")
		thief = victim.like()
		if err := victim.do(func(s *gorilla.Session) { s.ID = "" }); err != nil {
			t.Error(err)
		}
		victim.has("user", "ann", "a new token")
		thief.has("user", nil, "the token before")
		if list, err := a.store.Sessions().List(t.Context(), "ann"); err != nil || len(list) != 1 {
			t.Errorf("%d sessions, %v", len(list), err)
		}
	})
}

// TestLoginTwice: a form that is submitted twice logs in once, though the values differ.
func TestLoginTwice(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("cart", "egg")
		other := b.like()
		q := b.request()
		s := q.get()
		other.set("theme", "dark")
		if err := other.do(func(s *gorilla.Session) { s.Values["user"], s.Values["at"] = "ann", 1 }); err != nil {
			t.Fatal(err)
		}
		s.Values["user"], s.Values["at"] = "ann", 2
		if err := s.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		q.answer()
		for key, want := range map[any]any{"user": "ann", "at": 2, "theme": "dark", "cart": "egg"} {
			b.has(key, want, "submitted twice")
			other.has(key, want, "submitted twice")
			if s.Values[key] != want {
				t.Errorf("after Save %v is %v", key, s.Values[key])
			}
		}
		// The second submission may come when the first has been answered, by a client that has not read the answer.
		slow := a.browser()
		slow.set("cart", "milk")
		fast := slow.like()
		fast.login("bob")
		fast.set("theme", "light")
		slow.login("bob")
		for key, want := range map[any]any{"user": "bob", "theme": "light", "cart": "milk"} {
			slow.has(key, want, "submitted again")
			fast.has(key, want, "submitted again")
		}
		for _, user := range []string{"ann", "bob"} {
			if list, err := a.store.Sessions().List(t.Context(), user); err != nil || len(list) != 1 {
				t.Errorf("%d sessions, %v", len(list), err)
			}
		}
	})
}

func TestRevocation(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		phone, desk, bob := a.browser(), a.browser(), a.browser()
		phone.login("ann")
		desk.login("ann")
		bob.login("bob")
		list, err := a.store.Sessions().List(t.Context(), "ann")
		if err != nil || len(list) != 2 {
			t.Fatalf("%d sessions, %v", len(list), err)
		}
		own := desk.request().get().ID
		slow := phone.request()
		s := slow.get()
		if err := a.store.Sessions().RevokeAll(t.Context(), "ann", own); err != nil {
			t.Fatal(err)
		}
		phone.has("user", nil, "revoked")
		desk.has("user", "ann", "the session that revoked the others")
		bob.has("user", "bob", "another user")
		s.Values["late"] = true
		if err := s.Save(slow.r, slow.w); !errors.Is(err, session.ErrEnded) {
			t.Errorf("a Save after the revocation: %v", err)
		}
	})
}

func TestCookie(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("k", 1)
		c := b.sent[0]
		if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.MaxAge != 0 {
			t.Errorf("%v", c)
		}
		if err := b.do(func(s *gorilla.Session) { s.Options.Path = "/a" }); err != nil || len(b.sent) != 1 || b.sent[0].Path != "/a" {
			t.Errorf("other options: cookies %v, %v", b.sent, err)
		}
		// A cookie that ends before its session is renewed by each Save.
		a.store.Options.MaxAge = 1800
		for range 30 {
			time.Sleep(20 * time.Minute)
			if err := b.do(func(*gorilla.Session) {}); err != nil || len(b.sent) != 1 || b.sent[0].MaxAge != 1800 {
				t.Fatalf("cookies %v, %v", b.sent, err)
			}
		}
		q := b.request()
		s := q.get()
		b.like().logout()
		if err := s.Save(q.r, q.w); err != session.ErrEnded || len(q.sent()) > 0 {
			t.Errorf("a late Save of nothing: %v, cookies %v", err, q.sent())
		}
		a.store.Options.MaxAge = 13 * 3600
		b.set("k", 2)
		if err := b.do(func(*gorilla.Session) {}); err != nil || len(b.sent) > 0 {
			t.Errorf("a cookie that outlives its session: cookies %v, %v", b.sent, err)
		}
	})
}

// TestBadCookies: none is an error, opens a session, or costs a call if it is no token.
func TestBadCookies(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("k", 1)
		good := b.cookies[name]
		a.d.reads.Store(0)
		for _, cookie := range []string{
			name + "=", name + "=x", name + "=" + good[1:], name + "=" + good + "A",
			name + "=" + good + "; " + name + "=" + good,
			name + "=MTM4NjUyODg5OHxEdi1CQkFFQ180SUFBUkFCRUFBQUp2LUNBQUVHYzNSeWFXNW4",
		} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Cookie", cookie)
			s, err := a.store.Get(r, name)
			if err != nil || !s.IsNew || len(s.Values) > 0 || s.ID != "" {
				t.Errorf("%q: %v, %v", cookie, s.Values, err)
			}
		}
		if n := a.d.reads.Load(); n != 0 {
			t.Errorf("%d reads", n)
		}
		// A client may rename its cookie.
		r := httptest.NewRequest("GET", "/", nil)
		r.AddCookie(&http.Cookie{Name: "admin", Value: good})
		s, err := a.store.Get(r, "admin")
		if err != nil || !s.IsNew || len(s.Values) > 0 {
			t.Errorf("another session's cookie: %v, %v", s.Values, err)
		}
		s.Values["k"] = 2
		if err := s.Save(r, httptest.NewRecorder()); err != nil {
			t.Error(err)
		}
		b.has("k", 1, "a session of another name was saved")
	})
}

func TestSeveralSessions(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		q := b.request()
		for i, name := range []string{"one", "two"} {
			s, err := a.store.Get(q.r, name)
			if err != nil {
				t.Fatal(err)
			}
			s.Values["i"] = i
		}
		if err := gorilla.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		q.answer()
		q = b.request()
		for i, name := range []string{"one", "two"} {
			if s, err := a.store.Get(q.r, name); err != nil || s.Values["i"] != i || s.Name() != name {
				t.Errorf("%s: %v, %v", name, s.Values, err)
			}
		}
	})
}

// TestForeignSession: a session that New did not return takes the place of the request's.
func TestForeignSession(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("k", 1)
		was := b.like()
		q := b.request()
		s := gorilla.NewSession(a.store, name)
		s.Values["new"] = true
		if err := s.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		q.answer()
		b.has("new", true, "saved")
		b.has("k", nil, "replaced")
		was.has("k", nil, "ended")
	})
}

// TestEmptySession: a visitor of a program that always saves costs no record.
func TestEmptySession(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		if err := b.do(func(*gorilla.Session) {}); err != nil || len(b.sent) > 0 || a.d.writes.Load() > 0 {
			t.Errorf("cookies %v, %d writes, %v", b.sent, a.d.writes.Load(), err)
		}
		b.set("k", 1)
		if err := b.do(func(s *gorilla.Session) { delete(s.Values, "k") }); err != nil {
			t.Error(err)
		}
		if s := b.request().get(); s.IsNew || len(s.Values) > 0 {
			t.Errorf("new %v, %v", s.IsNew, s.Values)
		}
	})
}

func TestStoreDown(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		run(t, &gorillastore.Options{Sessions: session.Options{Anonymous: anonymous}}, func(t *testing.T, a *site) {
			b := a.browser()
			b.login("ann")
			a.d.down.Store(true)
			q := b.request()
			s, err := a.store.Get(q.r, name)
			if s == nil || !s.IsNew || len(s.Values) > 0 || (err == nil) != anonymous {
				t.Errorf("%v, %v", s, err)
			}
			a.d.down.Store(false)
			if err := s.Save(q.r, q.w); (err == nil) != anonymous {
				t.Errorf("Save of nothing: %v", err)
			}
			s.Values["user"] = "bob"
			if err := s.Save(q.r, q.w); err == nil || len(q.sent()) > 0 {
				t.Errorf("Save of a session that was not read: %v", err)
			}
			b.has("user", "ann", "up again")
		})
	}
}

type former struct{ A int }

// TestValuesThatDoNotDecode: no type was registered for them, as after a release without it.
func TestValuesThatDoNotDecode(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		if err := b.do(func(s *gorilla.Session) { s.Values["v"] = former{} }); err == nil || len(b.sent) > 0 {
			t.Fatalf("an unregistered type: %v, cookies %v", err, b.sent)
		}
		b.set("k", 1)
		was := b.like()
		spoil := func() {
			if err := a.store.Sessions().Update(a.store.Sessions().Load(t.Context(), b.cookies[name]), func(d *gorillastore.Data) error {
				d.Values = []byte("bad")
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		spoil()
		q := b.request()
		s, err := a.store.Get(q.r, name)
		if err == nil || s == nil || !s.IsNew || len(s.Values) > 0 {
			t.Errorf("%v, %v", s, err)
		}
		if err := s.Save(q.r, q.w); err == nil {
			t.Error("Save without values has written")
		}
		s.Values["k"] = 2
		if err := s.Save(q.r, q.w); err != nil {
			t.Error(err)
		}
		q.answer()
		b.has("k", 2, "begun anew")
		was.has("k", nil, "replaced")

		spoil()
		q = b.request()
		s, _ = a.store.Get(q.r, name)
		s.Values["user"] = "ann"
		if err := s.Save(q.r, q.w); err != nil {
			t.Error(err)
		}
		q.answer()
		b.has("user", "ann", "logged in")

		q = b.request() // they are spoilt between the read and the Save
		s = q.get()
		s.Values["k"] = 3
		spoil()
		if err := s.Save(q.r, q.w); err == nil || len(q.sent()) > 0 {
			t.Errorf("saved over values that do not decode: %v", err)
		}
	})
}

func TestOptions(t *testing.T) {
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for field, o := range map[string]session.Options{
		"Cookie":            {Cookie: "x"},
		"SameSite":          {SameSite: http.SameSiteStrictMode},
		"InsecureLocalhost": {InsecureLocalhost: true},
		"KeepAlive":         {KeepAlive: true},
		"Passive":           {Passive: func(*http.Request) bool { return false }},
		"RenewEvery":        {RenewEvery: time.Hour},
		"ErrorHandler":      {ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}},
		"MaxData":           {MaxData: -1},
	} {
		var invalid *slidingttl.InvalidError
		if _, err := gorillastore.New(d, &gorillastore.Options{Sessions: o}); !errors.As(err, &invalid) || !strings.HasSuffix(invalid.Field, field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	run(t, &gorillastore.Options{Sessions: session.Options{MaxData: 1000}}, func(t *testing.T, a *site) {
		b := a.browser()
		if err := b.do(func(s *gorilla.Session) { s.Values["big"] = make([]byte, 1000) }); !errors.Is(err, slidingttl.ErrInvalid) || len(b.sent) > 0 {
			t.Errorf("%v, cookies %v", err, b.sent)
		}
	})
}

// TestNothingIsKept: a Store keeps nothing of a request that has ended.
func TestNothingIsKept(t *testing.T) {
	s, err := gorillastore.New(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Sessions().Close(t.Context())
	gone := make(chan struct{})
	func() {
		r := httptest.NewRequest("GET", "/", nil)
		v, err := s.Get(r, name)
		if err != nil {
			t.Fatal(err)
		}
		v.Values["k"] = 1
		if err := v.Save(r, httptest.NewRecorder()); err != nil {
			t.Fatal(err)
		}
		runtime.AddCleanup(v, func(gone chan struct{}) { close(gone) }, gone)
	}()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.GC() {
		select {
		case <-gone:
			return
		case <-time.After(time.Millisecond):
		}
	}
	t.Error("the session is kept")
}

type message struct {
	Type int
	Text string
}

func init() { gob.Register(message{}) }

// TestFlashes is what gorilla's test of the same name asks of a store.
func TestFlashes(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		q := b.request()
		s := q.get()
		if f := s.Flashes(); len(f) != 0 {
			t.Errorf("flashes %v", f)
		}
		s.AddFlash("foo")
		s.AddFlash("bar")
		s.AddFlash("baz", "custom_key")
		if err := gorilla.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		if q.answer(); len(b.sent) != 1 {
			t.Fatalf("cookies %v", b.sent)
		}
		if _, err := a.store.Get(q.r, "session:key"); err == nil || !strings.Contains(err.Error(), "invalid character in cookie name") {
			t.Errorf("a bad name: %v", err)
		}
		q = b.request()
		s = q.get()
		if f := s.Flashes(); len(f) != 2 || f[0] != "foo" || f[1] != "bar" {
			t.Errorf("flashes %v", f)
		}
		if f := s.Flashes("custom_key"); len(f) != 1 || f[0] != "baz" {
			t.Errorf("flashes %v", f)
		}
		s.AddFlash(&message{42, "foo"})
		if err := gorilla.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		q.answer()
		q = b.request()
		if f := q.get().Flashes(); len(f) != 1 || f[0] != (message{42, "foo"}) {
			t.Errorf("flashes %v", f)
		}
		// A copy of the request has the same session.
		s = q.get()
		s.Values["test"] = "value"
		q.r = q.r.WithContext(q.r.Context())
		if q.get() != s {
			t.Error("the copy of a request has another session")
		}
		// The options of a session are its own.
		s, err := a.store.New(b.request().r, "hello")
		if err != nil {
			t.Fatal(err)
		}
		if a.store.Options.Path = "/foo"; s.Options.Path != "/" {
			t.Errorf("path %q", s.Options.Path)
		}
	})
}

// TestSaveByTheOuterRequest: a handler may get its session by a copy of the request, and save it by
// the one it had before.
func TestSaveByTheOuterRequest(t *testing.T) {
	run(t, nil, func(t *testing.T, a *site) {
		b := a.browser()
		b.set("k", 1)
		token := b.cookies[name]
		q := b.request()
		s, err := a.store.Get(q.r.WithContext(q.r.Context()), name)
		if err != nil {
			t.Fatal(err)
		}
		s.Values["k"] = 2
		if err := s.Save(q.r, q.w); err != nil {
			t.Fatal(err)
		}
		if q.answer(); b.cookies[name] != token {
			t.Error("another session was begun")
		}
		b.has("k", 2, "saved")
	})
}
