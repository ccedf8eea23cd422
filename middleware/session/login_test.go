package session_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func TestLogin(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	b := s.browser()
	b.ok("/add?item=a")
	planted := b.cookie()
	id := b.ok("/id").body
	s.clock.Advance(10 * time.Minute)
	b.ok("/login?user=ann")
	b.want("/get", "ann/0/a", "an anonymous visitor's data is taken along")
	b.want("/times", "created 10m0s idle 40m0s absolute 2h10m0s", "both timeouts count from the login")
	if b.cookie() == planted || b.ok("/id").body == id {
		t.Error("login kept the token or the ID")
	}
	if r := b.with("/get", planted); r.body != "/0/" {
		t.Errorf("session fixation: the token from before the login opens %q", r.body)
	}

	before := b.cookie()
	b.ok("/login?user=ann")
	b.want("/get", "ann/0/a", "the same user logs in again")
	if r := b.with("/get", before); r.body != "/0/" {
		t.Errorf("the session from before lives: %q", r.body)
	}

	before = b.cookie()
	b.ok("/login?user=bob")
	b.want("/get", "bob/0/", "another user does not get ann's data")
	if r := b.with("/get", before); r.body != "/0/" {
		t.Errorf("ann's session lives: %q", r.body)
	}
	for user, want := range map[string]int{"ann": 0, "bob": 1} {
		if list, err := s.sessions.List(t.Context(), user); err != nil || len(list) != want {
			t.Errorf("%s has sessions %+v, %v; want %d", user, list, err, want)
		}
	}
}

func TestLoginFunction(t *testing.T) {
	s := newSite(t, nil)
	fail := errors.New("no")
	s.mux.HandleFunc("/try", func(w http.ResponseWriter, r *http.Request) {
		err := s.sessions.Login(r.Context(), session.Login{User: r.FormValue("user")}, func(d *Data) error {
			if d.Count++; r.FormValue("fail") != "" {
				return fail
			}
			return nil
		})
		fmt.Fprint(w, err)
	})
	b := s.browser()
	b.ok("/count")
	if r := b.want("/try?user=u&fail=1", "no", "the function's error"); r.header.Get("Set-Cookie") != "" {
		t.Error("a failed login set a cookie")
	}
	b.want("/get", "/1/", "a failed login leaves the session as it was")
	b.want("/try?user=u", "<nil>", "login")
	b.want("/get", "u/2/", "changed by the function")
	if r := b.ok("/try"); !strings.Contains(r.body, "Login.User") || !strings.Contains(r.body, "empty") || !strings.Contains(r.body, "required") {
		t.Errorf("login without a user: %q", r.body)
	}
}

// TestLoginWhileWriting: a request that began before a login changes the session that the login
// takes over, before and after that.
func TestLoginWhileWriting(t *testing.T) {
	s := newSite(t, nil)
	loaded, finish := make(chan struct{}), make(chan struct{})
	var lateErr error
	s.mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("load") != "" {
			_, _ = s.sessions.Get(r.Context())
		}
		loaded <- struct{}{}
		<-finish
		lateErr = s.sessions.Update(r.Context(), func(d *Data) error { d.Cart = append(d.Cart, "late"); return nil })
	})
	var calls atomic.Int32
	inside, cont := make(chan struct{}), make(chan struct{})
	s.mux.HandleFunc("/slow-login", func(w http.ResponseWriter, r *http.Request) {
		err := s.sessions.Login(r.Context(), session.Login{User: "u"}, func(*Data) error {
			if calls.Add(1) == 1 {
				inside <- struct{}{}
				<-cont
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})

	b := s.browser()
	b.ok("/add?item=a")
	var wg sync.WaitGroup
	wg.Go(func() { b.get("/slow-login") })
	<-inside
	b.ok("/add?item=b")
	cont <- struct{}{}
	wg.Wait()
	b.want("/get", "u/0/a,b", "an item added while the login ran is not lost")

	for _, path := range []string{"/late?load=1", "/late"} {
		b = s.browser()
		b.ok("/add?item=a")
		var r reply
		wg.Go(func() { r = b.get(path) })
		<-loaded
		b.ok("/login?user=u")
		finish <- struct{}{}
		wg.Wait()
		if lateErr != session.ErrEnded {
			t.Errorf("%s: update of a session that gave way to a login: %v", path, lateErr)
		}
		if c := r.header.Get("Set-Cookie"); c != "" {
			t.Errorf("%s: a request from before the login logs the user out: %s", path, c)
		}
		b.want("/get", "u/0/a", "still logged in")
	}
}

func TestRenew(t *testing.T) {
	var replays []session.Info
	s := newSite(t, &session.Options{
		Policy:   halfHour,
		OnReplay: func(_ context.Context, i session.Info) { replays = append(replays, i) },
	})
	b := s.browser()
	b.ok("/login?user=ann")
	b.ok("/count")
	old, id := b.cookie(), b.ok("/id").body
	s.clock.Advance(20 * time.Minute)
	b.ok("/renew")
	if b.cookie() == old {
		t.Fatal("the token is the same")
	}
	b.want("/get", "ann/1/", "renewed")
	b.want("/id", id, "renewal keeps the ID")
	b.want("/times", "created 0s idle 50m0s absolute 2h0m0s", "the absolute timeout is that of the login")

	s.clock.Advance(9 * time.Second)
	for range 2 {
		r := b.with("/get", old)
		if r.body != "ann/1/" || r.header.Get("Set-Cookie") != "" {
			t.Errorf("in flight with the former token: %q, %q", r.body, r.header.Get("Set-Cookie"))
		}
	}
	if r := b.with("/count", old); r.status != 200 {
		t.Errorf("writing in flight with the former token: %d %s", r.status, r.body)
	}
	b.want("/get", "ann/2/", "it is the same session")
	if len(replays) != 0 {
		t.Errorf("replays reported within the grace: %+v", replays)
	}

	s.clock.Advance(time.Second)
	touches := s.store.touches.Load()
	if r := b.with("/get", old); r.body != "/0/" || r.header.Get("Set-Cookie") != "" {
		t.Errorf("replay after the grace: %q, %q", r.body, r.header.Get("Set-Cookie"))
	}
	if n := s.store.touches.Load() - touches; n != 0 {
		t.Error("a replay kept the session alive")
	}
	if len(replays) != 1 || replays[0].ID != id || replays[0].User != "ann" {
		t.Errorf("replays reported: %+v, want one of ann's", replays)
	}
	b.want("/get", "ann/2/", "the session itself is not harmed")

	b.ok("/renew")
	b.ok("/renew")
	if r := b.with("/get", old); r.body != "/0/" {
		t.Errorf("a token from three renewals ago: %q", r.body)
	}
	for range 6 {
		s.clock.Advance(19 * time.Minute)
		b.get("/renew")
	}
	b.want("/get", "/0/", "renewals do not move the absolute timeout")
}

func TestReplayDoesNotDestroy(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/login?user=ann")
	old := b.cookie()
	b.ok("/renew")
	s.clock.Advance(time.Minute)
	for _, path := range []string{"/logout", "/renew", "/login?user=eve", "/count"} {
		if r := b.with(path, old); r.status != 200 {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
		b.want("/get", "ann/0/", path+" with a dead token left the session alone")
	}
}

func TestConcurrentRenewals(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/login?user=ann")
	old := b.cookie()
	var mu sync.Mutex
	var set []string
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			r := b.with("/renew", old)
			if r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
			if c, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";"); c != "" {
				mu.Lock()
				defer mu.Unlock()
				set = append(set, c)
			}
		})
	}
	wg.Wait()
	if len(set) != 1 {
		t.Fatalf("%d of eight renewals gave out a token, want one", len(set))
	}
	s.clock.Advance(time.Hour / 4)
	if r := b.with("/get", set[0]); r.body != "ann/0/" {
		t.Errorf("the one token opens %q", r.body)
	}
}

func TestRenewTwiceInOneRequest(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/twice", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		for _, err := range []error{
			s.sessions.Login(ctx, session.Login{User: "u"}, nil),
			s.sessions.Renew(ctx),
			s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil }),
			s.sessions.Renew(ctx),
			s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil }),
		} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	b := s.browser()
	if n := len(b.ok("/twice").header.Values("Set-Cookie")); n != 1 {
		t.Errorf("%d cookies set, want the last", n)
	}
	s.clock.Advance(time.Minute)
	b.want("/get", "u/2/", "the cookie is that of the last renewal")
}

func TestUsersSessions(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	ctx := t.Context()
	phone, laptop, desk, bob := s.browser(), s.browser(), s.browser(), s.browser()
	phone.ok("/login?user=ann&label=phone")
	s.clock.Advance(time.Minute)
	laptop.ok("/login?user=ann&label=laptop&remember=1")
	s.clock.Advance(time.Minute)
	desk.ok("/login?user=ann&label=desk")
	bob.ok("/login?user=bob&label=" + strings.Repeat("%C3%BC", 150))
	s.clock.Advance(time.Minute)
	phone.ok("/get")

	list := func() (all []string) {
		t.Helper()
		infos, err := s.sessions.List(ctx, "ann")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			all = append(all, fmt.Sprint(i.Label, " created ", i.CreatedAt.Sub(s.clock.start).Round(time.Second), " seen ", i.LastSeen.Sub(s.clock.start).Round(time.Second)))
		}
		return all
	}
	want := "[phone created 0s seen 3m0s desk created 2m0s seen 2m0s laptop created 1m0s seen 1m0s]"
	if got := fmt.Sprint(list()); got != want {
		t.Errorf("sessions %s\nwant     %s", got, want)
	}

	for _, id := range []string{laptop.ok("/id").body, "", "nonsense", bob.ok("/id").body} {
		if err := s.sessions.Revoke(ctx, "carl", id); !errors.Is(err, slidingttl.ErrNotFound) {
			t.Errorf("revoking what is not one's own: %v", err)
		}
	}
	if err := s.sessions.Revoke(ctx, "ann", bob.ok("/id").body); !errors.Is(err, slidingttl.ErrNotFound) {
		t.Errorf("ann revokes bob's session: %v", err)
	}
	bob.want("/get", "bob/0/", "bob's session is bob's")
	if infos, err := s.sessions.List(ctx, "bob"); err != nil || len(infos) != 1 || infos[0].Label != strings.Repeat("ü", 100) {
		t.Errorf("bob's sessions: %+v, %v; want the label cut", infos, err)
	}

	if err := s.sessions.Revoke(ctx, "ann", laptop.ok("/id").body); err != nil {
		t.Fatal(err)
	}
	laptop.want("/get", "/0/", "revoked")
	phone.want("/get", "ann/0/", "the others live")
	if got := len(list()); got != 2 {
		t.Errorf("%d sessions listed", got)
	}

	laptop.ok("/login?user=ann&label=laptop")
	if err := s.sessions.RevokeAll(ctx, "ann", phone.ok("/id").body); err != nil {
		t.Fatal(err)
	}
	laptop.want("/get", "/0/", "revoked with all others")
	desk.want("/get", "/0/", "revoked with all others")
	phone.want("/get", "ann/0/", "excepted")
	if err := s.sessions.RevokeAll(ctx, "ann"); err != nil {
		t.Fatal(err)
	}
	phone.want("/get", "/0/", "revoked with all")
	bob.want("/get", "bob/0/", "nobody else's")
	if got := list(); len(got) != 0 {
		t.Errorf("sessions %v", got)
	}
	for range 2 {
		if err := s.sessions.RevokeAll(ctx, "nobody"); err != nil {
			t.Errorf("a user without sessions: %v", err)
		}
	}
}

// TestIndexOutlivesSessions keeps one session busy for its 90 days while the user's
// index is not written once.
func TestIndexOutlivesSessions(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/login?user=ann&remember=1")
	for range 4 {
		s.clock.Advance(22 * 24 * time.Hour)
		b.want("/get", "ann/0/", "busy")
	}
	if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
		t.Fatalf("after 88 days: %+v, %v", list, err)
	}
	if err := s.sessions.RevokeAll(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	b.want("/get", "/0/", "revoked after 88 days")
}

func TestListDoesNotTouch(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	b := s.browser()
	b.ok("/login?user=ann")
	for range 3 {
		s.clock.Advance(10 * time.Minute)
		if _, err := s.sessions.List(t.Context(), "ann"); err != nil {
			t.Fatal(err)
		}
	}
	s.clock.Advance(time.Second)
	b.want("/get", "/0/", "listed, but not used for half an hour")
}

func TestMaxPerUser(t *testing.T) {
	s := newSite(t, &session.Options{MaxPerUser: 3, Policy: halfHour})
	var all []*browser
	login := func() {
		b := s.browser()
		s.clock.Advance(time.Second)
		b.ok("/login?user=ann")
		all = append(all, b)
	}
	alive := func() (n []int) {
		for i, b := range all {
			if b.get("/get").body == "ann/0/" {
				n = append(n, i)
			}
		}
		return n
	}
	for range 5 {
		login()
	}
	if got := fmt.Sprint(alive()); got != "[2 3 4]" {
		t.Errorf("sessions %s live, want the three begun last", got)
	}
	s.clock.Advance(25 * time.Minute)
	all[2].ok("/get")
	s.clock.Advance(10 * time.Minute)
	login()
	login()
	if got := fmt.Sprint(alive()); got != "[2 5 6]" {
		t.Errorf("sessions %s live: an old one that lives must not give way to idle ones", got)
	}
}

func TestLoginOverLoginIsOneSession(t *testing.T) {
	s := newSite(t, &session.Options{MaxPerUser: 2})
	phone, laptop := s.browser(), s.browser()
	phone.ok("/login?user=ann")
	for range 4 {
		s.clock.Advance(time.Second)
		laptop.ok("/login?user=ann")
	}
	phone.want("/get", "ann/0/", "the laptop's logins take one place between them")
	laptop.want("/get", "ann/0/", "the last one")
}

func TestConcurrentLogins(t *testing.T) {
	s := newSite(t, nil)
	var wg sync.WaitGroup
	for range 12 {
		wg.Go(func() { s.browser().ok("/login?user=ann") })
	}
	wg.Wait()
	if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 12 {
		t.Fatalf("%d sessions listed, %v; want 12", len(list), err)
	}
}

// TestUserIsText: stores keep text, so that two users of other bytes could read as one.
func TestUserIsText(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	err := s.sessions.Login(ctx, session.Login{User: "\xff\xfe\x80\x81"}, nil)
	var invalid *slidingttl.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "Login.User" {
		t.Errorf("a user that is not UTF-8: %v", err)
	}
	if s.store.calls() > 0 {
		t.Error("the store was called")
	}
	for _, user := range []string{"Zoë \U0001f600", "\x00", "\ufffd"} {
		if v := s.get(s.login("", user)); v.User != user {
			t.Errorf("%q reads as %q", user, v.User)
		}
		if list, err := s.sessions.List(t.Context(), user); err != nil || len(list) != 1 {
			t.Errorf("%q has %d sessions, %v", user, len(list), err)
		}
	}
}
