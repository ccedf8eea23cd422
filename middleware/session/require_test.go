package session_test

import (
	"net/http"
	"net/http/httptest"
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
		if r.status != http.StatusSeeOther || r.header.Get("Location") != "/sign-in" {
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
