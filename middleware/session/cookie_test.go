package session_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

func TestAnonymousVisitorCostsNothing(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	for _, path := range []string{"/public", "/get", "/renew", "/logout"} {
		r := b.ok(path)
		if c := r.header.Get("Set-Cookie"); c != "" {
			t.Errorf("%s sets a cookie: %s", path, c)
		}
		if got, want := r.header.Get("Vary"), map[bool]string{true: "", false: "Cookie"}[path == "/public"]; got != want {
			t.Errorf("%s: Vary %q, want %q: the answer depends on the cookie only where it was looked at", path, got, want)
		}
		if got := r.header.Get("Cache-Control"); got != "" {
			t.Errorf("%s: Cache-Control %q: there is no session to hide", path, got)
		}
	}
	if n := s.store.calls(); n != 0 {
		t.Errorf("%d store calls", n)
	}
}

func TestCookie(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	r := b.ok("/count")
	cookies := (&http.Response{Header: r.header}).Cookies()
	if len(cookies) != 1 {
		t.Fatalf("cookies %v", cookies)
	}
	c := cookies[0]
	if c.Name != "__Host-session" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 0 || !c.Expires.IsZero() {
		t.Errorf("cookie %q", c.Raw)
	}
	if raw, err := base64.RawURLEncoding.DecodeString(c.Value); err != nil || len(raw) != 48 {
		t.Errorf("token of %d bytes, %v", len(raw), err)
	}
	if got := r.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control %q", got)
	}
	for _, path := range []string{"/get", "/count", "/public"} {
		if c := b.ok(path).header.Get("Set-Cookie"); c != "" {
			t.Errorf("%s: the cookie did not change and is sent again: %s", path, c)
		}
	}
	if got := b.ok("/get").header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a page that looked at a session: Cache-Control %q", got)
	}
	r = b.ok("/logout")
	cleared := (&http.Response{Header: r.header}).Cookies()
	if len(cleared) != 1 || cleared[0].Name != c.Name || cleared[0].MaxAge != -1 || !cleared[0].Secure || cleared[0].Path != "/" {
		t.Errorf("logout sets %v", cleared)
	}
	if b.cookie() != "" {
		t.Errorf("the browser kept %q", b.cookie())
	}
}

func TestCookieOfRememberedSession(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	maxAge := func(r reply) int {
		t.Helper()
		cookies := (&http.Response{Header: r.header}).Cookies()
		if len(cookies) != 1 {
			t.Fatalf("cookies %v", cookies)
		}
		return cookies[0].MaxAge
	}
	const day = 24 * 60 * 60
	if got := maxAge(b.ok("/login?user=u&remember=1")); got < 90*day-1 || got > 90*day {
		t.Errorf("Max-Age %d, want the 90 days of the absolute limit", got)
	}
	s.clock.Advance(20 * 24 * time.Hour)
	if got := maxAge(b.ok("/renew")); got < 70*day-1 || got > 70*day {
		t.Errorf("renewed after 20 days: Max-Age %d, want the 70 days that are left", got)
	}
	if got := maxAge(b.ok("/login?user=u")); got != 0 {
		t.Errorf("not remembered: Max-Age %d, want none", got)
	}
}

func TestHandlersCacheControl(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/cached", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "private, max-age=60")
		if _, err := s.sessions.Get(r.Context()); err != nil {
			t.Error(err)
		}
	})
	s.mux.HandleFunc("/cached-set", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "public, max-age=60")
		if err := s.sessions.Renew(r.Context()); err != nil {
			t.Error(err)
		}
	})
	b := s.browser()
	b.ok("/count")
	if got := b.ok("/cached").header.Get("Cache-Control"); got != "private, max-age=60" {
		t.Errorf("the handler's choice became %q", got)
	}
	if got := b.ok("/cached-set").header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("a response with a token in it may be cached: %q", got)
	}
}

func TestBadCookies(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/count")
	name, value, _ := strings.Cut(b.cookie(), "=")
	for _, tt := range []struct{ why, cookie string }{
		{"empty", name + "="},
		{"no value", name},
		{"short", name + "=" + value[1:]},
		{"long", name + "=" + value + "A"},
		{"not base64url", name + "=" + value[:63] + "+"},
		{"not ASCII", name + "=" + value[:62] + "é"},
		{"quoted", name + `="` + value + `"`},
		{"huge", name + "=" + strings.Repeat("A", 100_000)},
		{"twice, the same", name + "=" + value + "; " + name + "=" + value},
		{"twice, one malformed", name + "=x; " + name + "=" + value},
		{"the name without its prefix", "session=" + value},
		{"the name in another case", strings.ToLower(name) + "=" + value},
	} {
		t.Run(tt.why, func(t *testing.T) {
			before := s.store.calls()
			r := b.with("/get", tt.cookie)
			if r.status != http.StatusOK || r.body != "/0/" {
				t.Errorf("%d %q, want no session", r.status, r.body)
			}
			if c := r.header.Get("Set-Cookie"); c != "" {
				t.Errorf("sets %q", c)
			}
			if n := s.store.calls() - before; n != 0 {
				t.Errorf("%d store calls", n)
			}
		})
	}
	if r := b.with("/get", "a=b; "+name+"="+value+";c=d"); r.body != "/1/" {
		t.Errorf("among other cookies: %d %q", r.status, r.body)
	}
}

func TestUnknownTokenLeavesTheCookie(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	token := base64.RawURLEncoding.EncodeToString(make([]byte, 48))
	r := b.with("/get", "__Host-session="+token)
	if r.body != "/0/" || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%q, %q: a late answer must not clear a cookie that another has set since", r.body, r.header.Get("Set-Cookie"))
	}
	if n := s.store.writes.Load() + s.store.touches.Load() + s.store.deletes.Load(); n != 0 {
		t.Errorf("%d writes", n)
	}
}

func TestStoreHoldsNoToken(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	var tokens []string
	for _, path := range []string{"/count", "/login?user=u&label=laptop", "/renew", "/renew", "/count"} {
		b.ok(path)
		_, token, _ := strings.Cut(b.cookie(), "=")
		tokens = append(tokens, token)
	}
	if len(s.store.seen) < 6 {
		t.Fatalf("only %d records seen", len(s.store.seen))
	}
	for key, r := range s.store.seen {
		all := key + fmt.Sprintf(" %+v %s %s", r, r.Token, r.Data)
		for _, f := range r.Former {
			all += string(f.Token)
		}
		for _, token := range tokens {
			raw, _ := base64.RawURLEncoding.DecodeString(token)
			for _, part := range []string{token, token[:20], token[22:], string(raw[:16]), string(raw[16:])} {
				if strings.Contains(all, part) {
					t.Fatalf("the store holds a part of a token")
				}
			}
		}
	}
}

func TestInsecureLocalhost(t *testing.T) {
	s := newSite(t, &session.Options{InsecureLocalhost: true, Cookie: "dev"})
	plain := httptest.NewServer(s.sessions.Middleware(s.mux))
	defer plain.Close()
	b := s.browser()
	s.server.URL = plain.URL
	r := b.ok("/count")
	if c := r.header.Get("Set-Cookie"); !strings.HasPrefix(c, "dev=") || strings.Contains(c, "Secure") {
		t.Errorf("Set-Cookie %q", c)
	}
	b.want("/get", "/1/", "the cookie works over plain http")

	for _, tt := range []struct {
		host, peer string
		ok         bool
	}{
		{"localhost:8080", "127.0.0.1:999", true},
		{"localhost", "[::1]:999", true},
		{"app.localhost:80", "127.0.0.1:999", true},
		{"127.0.0.1", "[::ffff:127.0.0.1]:999", true},
		{"[::1]:8080", "[::1]:999", true},
		{"example.com", "127.0.0.1:999", false},
		{"localhost.example.com", "127.0.0.1:999", false},
		{"localhost", "192.0.2.1:999", false},
		{"127.0.0.1", "", false},
		{"", "127.0.0.1:999", false},
	} {
		req := httptest.NewRequest("GET", "/public", nil)
		req.Host, req.RemoteAddr = tt.host, tt.peer
		rec := httptest.NewRecorder()
		s.sessions.Middleware(s.mux).ServeHTTP(rec, req)
		if want := map[bool]int{true: 200, false: 503}[tt.ok]; rec.Code != want {
			t.Errorf("for %q from %q: %d, want %d", tt.host, tt.peer, rec.Code, want)
		}
	}

	// Headers by which a proxy on this machine, which asks for "localhost", names other hosts.
	for _, tt := range []struct {
		header, value string
		ok            bool
	}{
		{"X-Forwarded-For", "192.0.2.1", false},
		{"X-Forwarded-For", "127.0.0.1", false},
		{"X-Forwarded-Host", "example.com", false},
		{"X-Forwarded-Proto", "https", false},
		{"X-Forwarded-Anything", "", false},
		{"X-Real-Ip", "192.0.2.1", false},
		{"Forwarded", "for=192.0.2.1", false},
		{"Via", "1.1 proxy", false},
		{"Origin", "https://example.com", false},
		{"Origin", "null", false},
		{"Origin", "http://localhost.example.com", false},
		{"Origin", "http://localhost:8080", true},
		{"Origin", "http://[::1]:8080", true},
		{"X-Forward", "x", true},
	} {
		req := httptest.NewRequest("GET", "/public", nil)
		req.Host, req.RemoteAddr = "localhost", "127.0.0.1:999"
		req.Header.Set(tt.header, tt.value)
		rec := httptest.NewRecorder()
		s.sessions.Middleware(s.mux).ServeHTTP(rec, req)
		if want := map[bool]int{true: 200, false: 503}[tt.ok]; rec.Code != want {
			t.Errorf("%s %q: %d, want %d", tt.header, tt.value, rec.Code, want)
		}
	}
}
