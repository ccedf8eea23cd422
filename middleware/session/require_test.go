package session_test

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/middleware/session"
)

func TestRequire(t *testing.T) {
	s := newSite(t, nil)
	s.mux.Handle("/account", s.sessions.Require("/sign-in")(s.says("account")))
	s.mux.Handle("/strict", s.sessions.Require("")(s.says("strict")))
	s.mux.Handle("/account-api", s.sessions.Over(session.Bearer{})(s.sessions.Require("")(s.says("api"))))
	b := s.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	ask := func(method, path string, header ...string) reply {
		req, err := http.NewRequest(method, s.server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		return b.do(req)
	}
	for _, who := range []string{"nobody", "an anonymous visitor"} {
		r := ask("GET", "/account", "Accept", "text/html,*/*;q=0.8")
		if r.status != http.StatusSeeOther || r.header.Get("Location") != "/sign-in?next=%2Faccount" {
			t.Errorf("%s: %d, Location %q; want a redirect to log in", who, r.status, r.header.Get("Location"))
		}
		for name, r := range map[string]reply{
			"a script":            ask("GET", "/account", "Accept", "application/json"),
			"a write by a script": ask("POST", "/account", "Accept", "*/*"),
			"no page to log in":   ask("GET", "/strict", "Accept", "text/html"),
		} {
			if r.status != http.StatusUnauthorized || r.header.Get("Location") != "" || r.header.Get("Www-Authenticate") == "" {
				t.Errorf("%s, %s: %d %v", who, name, r.status, r.header)
			}
			if r.header.Get("Vary") == "" || r.header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s, %s: may be cached: %v", who, name, r.header)
			}
		}
		b.ok("/count")
	}
	if r := ask("POST", "/account", "Accept", "text/html"); r.status != http.StatusSeeOther {
		t.Errorf("a form: %d", r.status)
	}
	if r := ask("GET", "/account-api"); r.status != http.StatusUnauthorized || r.header.Get("Www-Authenticate") != "Bearer" {
		t.Errorf("the API: %d %v", r.status, r.header)
	}
	b.ok("/login?user=ann")
	b.want("/account", "account", "logged in")
	b.want("/strict", "strict", "logged in")
	s.store.failWith(errDown)
	if r := ask("GET", "/account"); r.status != http.StatusServiceUnavailable {
		t.Errorf("the store is down: %d", r.status)
	}
}

// says answers with name, which a refused visitor does not see.
func (s *site) says(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(name)) })
}

func TestRequireWithoutMiddleware(t *testing.T) {
	s := newSite(t, nil)
	w := httptest.NewRecorder()
	s.sessions.Require("/sign-in")(s.says("account")).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if w.Code != http.StatusInternalServerError || w.Body.String() != "Internal Server Error\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// TestNext: a visitor who has logged in is sent to the page that was asked for, and never to another site.
func TestNext(t *testing.T) {
	s := newSite(t, nil)
	s.mux.Handle("/account", s.sessions.Require("/sign-in?lang=en")(s.says("account")))
	b := s.browser()
	b.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	req, _ := http.NewRequest("GET", s.server.URL+"/account?tab=2&next=//evil.example", nil)
	req.Header.Set("Accept", "text/html")
	at, err := url.Parse(b.do(req).header.Get("Location"))
	if err != nil || at.Path != "/sign-in" || at.Query().Get("lang") != "en" {
		t.Fatalf("sent to %v, %v", at, err)
	}
	form := httptest.NewRequest("POST", at.String(), nil)
	if next := session.Next(form, "/"); next != "/account?tab=2&next=//evil.example" {
		t.Errorf("and then to %q", next)
	}
	form = httptest.NewRequest("POST", at.String(), strings.NewReader("user=ann&next="))
	form.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if next := session.Next(form, "/"); next != "/account?tab=2&next=//evil.example" {
		t.Errorf("with an empty field of the form, to %q", next)
	}
	for value, want := range map[string]string{
		"/": "/", "/a/b?c=d#e": "/a/b?c=d#e", "/%2F/evil.example": "/%2F/evil.example",
		"": "/home", "//evil.example": "/home", "/\\evil.example": "/home", "\\\\evil.example": "/home", "https://evil.example/": "/home",
		"javascript:alert(1)": "/home", "evil.example": "/home", "/\t/evil.example": "/home", "/\n/evil.example": "/home", "/a\x00": "/home",
		"///evil.example": "/home", " //evil.example": "/home", "/a\\..\\b": "/home", "/%zz": "/home", "@evil.example": "/home", "/é": "/home",
		"/.//evil.example": "/home", "/a/..//evil.example": "/home",
	} {
		if got := session.Next(httptest.NewRequest("POST", "/sign-in?"+url.Values{"next": {value}}.Encode(), nil), "/home"); got != want {
			t.Errorf("%q sends to %q, want %q", value, got, want)
		}
	}
	req, _ = http.NewRequest("POST", s.server.URL+"/account", nil)
	req.Header.Set("Accept", "text/html")
	if to := b.do(req).header.Get("Location"); to != "/sign-in?lang=en" {
		t.Errorf("a form, which cannot be sent again, goes to %q", to)
	}
}

// TestCORS: a page of another origin may read the token that the site's own CORS lets through.
func TestCORS(t *testing.T) {
	for _, name := range []string{"", "X-Token"} {
		h := http.Header{"Access-Control-Expose-Headers": {"Etag"}}
		session.Bearer{Response: name}.Give(h, "token", 0)
		if want := cmp.Or(name, "Session-Token"); !slices.Equal(h["Access-Control-Expose-Headers"], []string{"Etag", want}) {
			t.Errorf("exposed: %q, want %s too", h["Access-Control-Expose-Headers"], want)
		}
	}
}
