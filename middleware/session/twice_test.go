package session_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// given is the cookie that a reply sets, as the browser sends it.
func given(r reply) string {
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	return cookie
}

// TestLoginTwice submits a login twice, like a double click. The browser may keep the cookie of
// either answer.
func TestLoginTwice(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/add?item=a")
	anonymous := b.cookie()
	first := given(b.with("/login?user=ann", anonymous))
	b.with("/add?item=b", first)
	second := given(b.with("/login?user=ann", anonymous))
	for name, cookie := range map[string]string{"first": first, "second": second} {
		if r := b.with("/get", cookie); r.body != "ann/0/a,b" {
			t.Errorf("with the cookie of the %s answer: %q", name, r.body)
		}
	}
	if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
		t.Errorf("%d devices, %v", len(list), err)
	}

	other := given(b.with("/login?user=bob", anonymous))
	if r := b.with("/get", other); r.body != "bob/0/" {
		t.Errorf("another user's login with the same cookie opens %q", r.body)
	}
	if r := b.with("/get", first); r.body != "ann/0/a,b" {
		t.Errorf("after another user's login ann's session holds %q", r.body)
	}

	b.with("/logout", first)
	third := given(b.with("/login?user=ann", anonymous))
	if r := b.with("/get", third); r.body != "ann/0/" || third == first {
		t.Errorf("a login after the logout opens %q", r.body)
	}
	s.clock.Advance(time.Minute)
	fourth := given(b.with("/login?user=ann", anonymous))
	if r := b.with("/get", fourth); r.body != "ann/0/" || fourth == third {
		t.Errorf("a login with a cookie from long before joins another: %q", r.body)
	}
}

func TestLoginManyTimesAtOnce(t *testing.T) {
	for _, before := range []string{"/add?item=a", "/login?user=ann", "/login?user=bob"} {
		s := newSite(t, nil)
		b := s.browser()
		b.ok(before)
		b.ok("/add?item=b")
		former := b.cookie()
		want := map[string]string{"/add?item=a": "ann/0/a,b", "/login?user=ann": "ann/0/b", "/login?user=bob": "ann/0/"}[before]
		var mu sync.Mutex
		var cookies []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r := b.with("/login?user=ann", former)
				if r.status != http.StatusOK {
					t.Errorf("%d %s", r.status, r.body)
				}
				mu.Lock()
				defer mu.Unlock()
				cookies = append(cookies, given(r))
			})
		}
		wg.Wait()
		for _, c := range cookies {
			if r := b.with("/get", c); r.body != want {
				t.Errorf("after %s: %q, want %q", before, r.body, want)
			}
		}
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
			t.Errorf("after %s: %d devices, %v", before, len(list), err)
		}
		if r := b.with("/get", former); r.body != "/0/" {
			t.Errorf("after %s the former session opens %q", before, r.body)
		}
	}
}

// TestLoginIsOvertaken: another request with the same token changes the session while a login is
// about to take it over.
func TestLoginIsOvertaken(t *testing.T) {
	for name, tt := range map[string]struct {
		other    func(s *site, token string) (winner string)
		joins    bool
		data     int    // what the login's session holds
		reported string // to the hooks
	}{
		"the same user's login": {func(s *site, token string) string { return s.login(token, "ann") }, true, 1, "ended : login, created ann"},
		"another user's login":  {func(s *site, token string) string { return s.login(token, "bob") }, false, 0, "ended : login, created bob, created ann"},
		"a logout": {func(s *site, token string) string {
			if err := s.sessions.Destroy(s.visit(token)); err != nil {
				s.t.Error(err)
			}
			return ""
		}, false, 0, "ended : logout, created ann"},
	} {
		var e events
		o := e.options()
		o.OnError = func(_ context.Context, err error) { t.Errorf("%s: OnError was reported %v", name, err) }
		s := newSite(t, &o)
		ctx := s.visit("")
		if err := s.count(ctx); err != nil {
			t.Fatal(err)
		}
		token := s.leave(ctx, "")

		e.since()
		var winner string
		ctx = s.visit(token)
		overtaken := false
		err := s.sessions.Login(ctx, session.Login{User: "ann"}, func(*Data) error {
			if !overtaken {
				overtaken = true
				winner = tt.other(s, token)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if reported := e.since(); reported != tt.reported {
			t.Errorf("%s: hooks were reported %q, want %q", name, reported, tt.reported)
		}
		v := s.get(s.leave(ctx, token))
		if v.User != "ann" || v.Data.Count != tt.data {
			t.Errorf("%s: the login leads to %q with %d, want ann's with %d", name, v.User, v.Data.Count, tt.data)
		}
		if w := s.get(winner); (w.ID == v.ID) != tt.joins {
			t.Errorf("%s: one session %v, want %v", name, w.ID == v.ID, tt.joins)
		}
		want := 2
		if tt.joins || winner == "" {
			want = 1
		}
		if n := len(s.live()); n != want {
			t.Errorf("%s: %d sessions live, want %d", name, n, want)
		}
	}
}

// TestJoinedLoginEnds: a login's session ends before a second submission joins it. The second one
// then begins its own session.
func TestJoinedLoginEnds(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	if err := s.count(ctx); err != nil {
		t.Fatal(err)
	}
	anonymous := s.leave(ctx, "")
	late := s.visit(anonymous)
	first := s.login(anonymous, "ann")
	ended := false
	err := s.sessions.Login(late, session.Login{User: "ann"}, func(d *Data) error {
		if !ended {
			ended = true
			if err := s.sessions.Destroy(s.visit(first)); err != nil {
				t.Error(err)
			}
		}
		d.Count += 10
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if v := s.get(s.leave(late, anonymous)); v.User != "ann" || v.Data.Count != 10 {
		t.Errorf("%+v, want a new session of ann's", v)
	}
}

// TestLoginTwiceWithAnOldToken: the first submission has the token renewed by its age, too.
func TestLoginTwiceWithAnOldToken(t *testing.T) {
	s := newSite(t, &session.Options{RenewEvery: 10 * time.Minute})
	token := s.login("", "ann")
	s.clock.Advance(10 * time.Minute)
	first := s.login(token, "ann")
	if second := s.login(token, "ann"); s.get(second).ID != s.get(first).ID || first == token {
		t.Error("a login submitted twice began two sessions")
	}
}

// TestFailedLoginWasJoined: a login fails after a second submission has joined the session that it began.
func TestFailedLoginWasJoined(t *testing.T) {
	index := func(op, key string) bool { return op == "insert" && strings.HasPrefix(key, "u:") }
	for name, tt := range map[string]struct {
		joins, fails func(op, key string) bool // the calls before which the second one is made, and that fails
		changes      bool                      // another request changes the data meanwhile
		count        int
	}{
		"its user's index cannot be written":       {index, index, false, 1},
		"nor with data that was changed meanwhile": {index, index, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var e events
			o := e.options()
			o.OnError = func(_ context.Context, err error) { t.Errorf("OnError was reported %v", err) }
			s := newSite(t, &o)
			ctx := s.visit("")
			if err := s.count(ctx); err != nil {
				t.Fatal(err)
			}
			token := s.leave(ctx, "")
			e.since()
			first, other := s.visit(token), s.visit(token)
			second, failed := "", false
			s.store.onCalls(func(op, key string) error {
				if second == "" && tt.joins(op, key) {
					second = "begun"
					second = s.login(token, "ann")
				}
				if len(second) < 10 || failed || !tt.fails(op, key) && !strings.HasPrefix(key, "u:") {
					return nil
				}
				failed = true
				return errDown
			})
			err := s.sessions.Login(first, session.Login{User: "ann"}, func(*Data) error {
				if tt.changes {
					tt.changes = false
					return s.count(other)
				}
				return nil
			})
			if !errors.Is(err, errDown) {
				t.Fatalf("the first login: %v, want it to fail", err)
			}
			if got := s.leave(first, token); got != token {
				t.Error("the login that failed gives a token")
			}
			if v := s.get(second); v.User != "ann" || v.Data.Count != tt.count {
				t.Errorf("the second login's token opens the session of %q with %d, want ann's with %d", v.User, v.Data.Count, tt.count)
			}
			if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
				t.Errorf("%d sessions are listed, %v", len(list), err)
			}
			if got, want := e.since(), "ended : login, created ann"; got != want {
				t.Errorf("hooks were reported %q, want %q", got, want)
			}
		})
	}
}

// TestRenewalDuringUpdate: the request continues with the new token.
func TestRenewalDuringUpdate(t *testing.T) {
	var e events
	o := e.options()
	s := newSite(t, &o)
	token := s.login("", "ann")
	e.since()
	ctx := s.visit(token)
	s.store.onCalls(func(op, _ string) error {
		if op == "replace" {
			s.store.onCalls(nil)
			return s.sessions.Renew(ctx)
		}
		return nil
	})
	for _, err := range []error{s.count(ctx), s.sessions.Renew(ctx)} {
		if err != nil {
			t.Error(err)
		}
	}
	if reported := e.since(); reported != "renewed ann" {
		t.Errorf("hooks were reported %q, want one renewal: the answer has a new token", reported)
	}
	s.clock.Advance(time.Minute)
	if v := s.get(s.leave(ctx, token)); v.Data.Count != 1 {
		t.Errorf("the last token opens %+v", v)
	}
}

// TestLoginTwiceAndRenewal: the first submission or the request after it also renews the token. The
// answer of each submission opens a session with the data of the login.
func TestLoginTwiceAndRenewal(t *testing.T) {
	for _, later := range []bool{false, true} {
		s := newSite(t, nil)
		ctx := s.visit("")
		if err := s.count(ctx); err != nil {
			t.Fatal(err)
		}
		former := s.leave(ctx, "")
		a, b := s.visit(former), s.visit(former)
		if err := s.sessions.Login(a, session.Login{User: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		if later {
			token := s.leave(a, former)
			a, former = s.visit(token), token
		}
		if err := s.sessions.Renew(a); err != nil {
			t.Fatal(err)
		}
		first := s.leave(a, former)
		if later && first == former {
			t.Error("a later request does not renew")
		}
		s.clock.Advance(time.Second)
		if err := s.sessions.Login(b, session.Login{User: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.sessions.Renew(b); err != nil {
			t.Fatal(err)
		}
		second := s.leave(b, former)
		if !later && first != second {
			t.Error("the second submission does not join the session")
		}
		s.clock.Advance(11 * time.Second)
		for i, token := range []string{first, second} {
			if v := s.get(token); v.User != "ann" || v.Data.Count != 1 {
				t.Errorf("later request: %v: answer %d opens the session of %q with %+v", later, i, v.User, v.Data)
			}
		}
	}
}

// TestLoginAndChangesAtOnce: while a login takes a session over, another request changes that session
// and a second submission of the login changes the new one. Neither change is lost.
func TestLoginAndChangesAtOnce(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	if err := s.count(ctx); err != nil {
		t.Fatal(err)
	}
	former := s.leave(ctx, "")
	key := "s:" + s.get(former).ID
	first, second, other := s.visit(former), s.visit(former), s.visit(former)
	if _, err := s.sessions.Get(other); err != nil {
		t.Fatal(err)
	}
	add := func(ctx context.Context, item string) {
		if err := s.sessions.Update(ctx, func(d *Data) error { d.Cart = append(d.Cart, item); return nil }); err != nil {
			t.Errorf("%s: %v", item, err)
		}
	}
	submitted := false
	submit := func() {
		if submitted {
			return
		}
		submitted = true
		if err := s.sessions.Login(second, session.Login{User: "ann"}, nil); err != nil {
			t.Error(err)
		}
		add(second, "b")
	}
	changed := false
	s.store.onCalls(func(op, on string) error {
		switch {
		case op == "insert" && !changed:
			changed = true
			add(other, "a")
		case op == "replace" && on != key && strings.HasPrefix(on, "s:") && changed:
			submit()
		}
		return nil
	})
	if err := s.sessions.Login(first, session.Login{User: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	s.store.onCalls(nil)
	submit()
	for _, token := range []string{s.leave(first, former), s.leave(second, former)} {
		if got := strings.Join(s.get(token).Data.Cart, ","); got != "a,b" {
			t.Errorf("the cart has %q, want a,b", got)
		}
	}
}

// TestLoginOfAChangingSessionOfTheRequest: the session that a login takes over began in the same
// request, and another goroutine of it changes the data meanwhile.
func TestLoginOfAChangingSessionOfTheRequest(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	if err := s.count(ctx); err != nil {
		t.Fatal(err)
	}
	changed := false
	s.store.onCalls(func(op, _ string) error {
		if op == "insert" && !changed {
			changed = true
			return s.count(ctx)
		}
		return nil
	})
	if err := s.sessions.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	s.store.onCalls(nil)
	if v := s.get(s.leave(ctx, "")); v.User != "ann" || v.Data.Count != 2 {
		t.Errorf("the session of %q has %+v, want ann's with both changes", v.User, v.Data)
	}
}

// TestLoginTwiceInOneRequest: a request logs in twice, and another one has joined the first of the two
// sessions. A login with that one's token joins the second.
func TestLoginTwiceInOneRequest(t *testing.T) {
	s := newSite(t, nil)
	former := s.login("", "ann")
	a, b := s.visit(former), s.visit(former)
	login := func(ctx context.Context) {
		t.Helper()
		if err := s.sessions.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	login(a)
	login(b)
	if err := s.count(b); err != nil {
		t.Fatal(err)
	}
	c := s.visit(s.leave(b, former))
	login(a)
	login(c)
	if first, second := s.get(s.leave(a, former)), s.get(s.leave(c, former)); first.ID != second.ID || second.Data.Count != 1 {
		t.Errorf("sessions %q with %+v and %q with %+v, want one", first.ID, first.Data, second.ID, second.Data)
	}
}
