package session_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// api is a client that sends its token in a header.
type api struct {
	b     *browser
	token string
}

// api serves the site's routes under /api/ over Bearer as well, and returns a client.
func (s *site) api() *api {
	s.mux.Handle("/api/", s.sessions.Over(session.Bearer{})(http.StripPrefix("/api", s.mux)))
	return &api{b: s.browser()}
}

// get asks for path with the client's token, which the answer may change.
func (a *api) get(path string, header ...string) reply {
	a.b.s.t.Helper()
	req, err := http.NewRequest("GET", a.b.s.server.URL+"/api"+path, nil)
	if err != nil {
		a.b.s.t.Fatal(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	r := a.b.do(req)
	if given, ok := r.header["Session-Token"]; ok {
		a.token = given[0]
	}
	return r
}

func TestBearer(t *testing.T) {
	s := newSite(t, &session.Options{Policy: halfHour})
	a := s.api()
	if r := a.get("/get"); r.body != "/0/" || r.header.Get("Vary") != "Authorization" || a.token != "" {
		t.Errorf("a client without a token: %q %v", r.body, r.header)
	}
	r := a.get("/login?user=ann&label=phone")
	if a.token == "" || r.header.Get("Set-Cookie") != "" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("login: %v", r.header)
	}
	if r := a.get("/get"); r.body != "ann/0/" || r.header.Get("Cache-Control") != "no-store" || r.header["Session-Token"] != nil {
		t.Errorf("with the token: %q %v", r.body, r.header)
	}
	old := a.token
	a.get("/renew")
	if a.token == old {
		t.Error("renewal gave no token")
	}
	if r := a.get("/count"); r.status != http.StatusOK {
		t.Errorf("%d %s", r.status, r.body)
	}
	s.clock.Advance(29 * time.Minute)
	if r := a.get("/get"); r.body != "ann/1/" {
		t.Errorf("after 29 minutes: %q", r.body)
	}
	if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 || list[0].Label != "phone" {
		t.Errorf("ann's sessions: %+v, %v", list, err)
	}
	a.get("/logout")
	if a.token != "" {
		t.Error("after logout the client is not told to forget its token")
	}
}

// TestTransportsDoNotMix: a cookie opens no session on routes that take tokens from a header,
// and the other way round.
func TestTransportsDoNotMix(t *testing.T) {
	s := newSite(t, nil)
	b, a := s.browser(), s.api()
	b.ok("/login?user=ann")
	a.get("/login?user=bob")
	if r := a.get("/get", "Cookie", b.cookie()); r.body != "bob/0/" {
		t.Errorf("both on the API: %q", r.body)
	}
	if r := b.with("/api/get", b.cookie()); r.body != "/0/" {
		t.Errorf("a cookie on the API: %q", r.body)
	}
	if r := b.with("/get", "__Host-session="+a.token); r.body != "bob/0/" {
		t.Errorf("it is the same kind of token: %q", r.body)
	}
	bad := &api{b: s.browser()}
	before := s.store.calls()
	for _, value := range []string{"Basic " + a.token, "Bearer", "Bearer ", a.token, "Bearer " + a.token + "A", "Bearer " + a.token + "," + a.token} {
		if r := bad.get("/get", "Authorization", value); r.body != "/0/" {
			t.Errorf("Authorization %q opens %q", strings.ReplaceAll(value, a.token, "TOKEN"), r.body)
		}
	}
	if r := a.get("/get", "Authorization", "Bearer "+a.token); r.body != "/0/" {
		t.Errorf("a token shown twice opens %q", r.body)
	}
	if n := s.store.calls() - before; n != 0 {
		t.Errorf("%d store calls for what is no token", n)
	}
	if r := bad.get("/get", "Authorization", "bearer  "+a.token); r.body != "bob/0/" {
		t.Errorf("the scheme in another case: %q", r.body)
	}
	if r := bad.get("/get", "Authorization", "Basic eA==", "Authorization", "Bearer "+a.token); r.body != "bob/0/" {
		t.Errorf("after another scheme: %q", r.body)
	}
}

func TestLoadAndCommit(t *testing.T) {
	s := newSite(t, nil)
	m := s.sessions
	commit := func(ctx context.Context) (string, bool) {
		t.Helper()
		token, changed, err := m.Commit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return token, changed
	}
	get := func(ctx context.Context) session.Session[Data] {
		t.Helper()
		v, err := m.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}

	ctx := m.Load(t.Context(), "")
	if err := m.Login(ctx, session.Login{User: "ann"}, func(d *Data) error { d.Count = 1; return nil }); err != nil {
		t.Fatal(err)
	}
	token, changed := commit(ctx)
	if !changed || len(token) != 64 {
		t.Errorf("after a login: a token of %d characters, changed %v", len(token), changed)
	}
	if err := m.Renew(ctx); err != session.ErrHeaderSent {
		t.Errorf("Renew after Commit: %v", err)
	}

	ctx = m.Load(t.Context(), token)
	if v := get(ctx); v.User != "ann" || v.Data.Count != 1 {
		t.Errorf("the token opens %+v", v)
	}
	if token, changed := commit(ctx); token != "" || changed {
		t.Errorf("nothing changed, and Commit returns %q, %v", token, changed)
	}

	ctx = m.Load(t.Context(), token)
	if err := m.Destroy(ctx); err != nil {
		t.Fatal(err)
	}
	if token, changed := commit(ctx); token != "" || !changed {
		t.Errorf("after Destroy Commit returns %q, %v; want the client to forget its token", token, changed)
	}
	if v := get(m.Load(t.Context(), token)); v.ID != "" {
		t.Errorf("it opens %+v", v)
	}
	if v := get(m.Load(t.Context(), "nonsense")); v.ID != "" {
		t.Errorf("nonsense opens %+v", v)
	}
	if _, _, err := m.Commit(t.Context()); err != session.ErrNoMiddleware {
		t.Errorf("Commit without Load: %v", err)
	}
	s.store.failWith(errDown)
	if _, err := m.Get(m.Load(t.Context(), strings.Repeat("A", 64))); err == nil {
		t.Error("a store that is down is no error")
	}
}

type wrapped struct{ session.Transport }

type named struct {
	session.Bearer
	names []string
}

// TestTransportThatDoesNotCompare: a Transport may hold another one by value that has a slice.
func TestTransportThatDoesNotCompare(t *testing.T) {
	s := newSite(t, nil)
	over := s.sessions.Over(wrapped{named{names: []string{"a"}}})
	s.mux.Handle("/within/", over(over(http.StripPrefix("/within", s.mux))))
	if r := s.browser().get("/within/get"); r.status != http.StatusOK {
		t.Errorf("%d %q", r.status, r.body)
	}
}
