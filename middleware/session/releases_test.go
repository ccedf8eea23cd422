package session_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestEndedByTheShorterRelease: a session that the shorter of two releases no longer has is ended by its logins,
// logouts and revocations for the longer one too, whose requests under way begin no other.
func TestEndedByTheShorterRelease(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, short *session.Manager[Data]) error{
		"Login": func(ctx context.Context, short *session.Manager[Data]) error {
			err := short.Login(ctx, session.Login{User: "ann"}, nil)
			if v, err := short.Get(ctx); err != nil || v.Data.Count != 0 {
				t.Errorf("the login took over data of a session that was over: %+v, %v", v.Data, err)
			}
			return err
		},
		"Destroy":   func(ctx context.Context, short *session.Manager[Data]) error { return short.Destroy(ctx) },
		"RevokeAll": func(ctx context.Context, short *session.Manager[Data]) error { return short.RevokeAll(ctx, "ann") },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			long, short := s.release(12*hours, 48*hours), s.release(hours, 2*hours)
			old := begin(t, long)
			ctx := long.Load(t.Context(), old)
			if err := long.Update(ctx, func(d *Data) error { d.Count++; return nil }); err != nil {
				t.Fatal(err)
			}
			s.clock.Advance(3 * hours)
			under := long.Load(t.Context(), old)
			s.clock.Advance(time.Millisecond)
			if err := end(short.Load(t.Context(), old), short); err != nil {
				t.Fatal(err)
			}
			if u := user(t, long, old); u != "" {
				t.Errorf("the token from before opens a session of %s", u)
			}
			if err := long.Update(under, func(d *Data) error { d.Count++; return nil }); err != session.ErrEnded {
				t.Errorf("an Update under way: %v; it must end with ErrEnded", err)
			}
		})
	}
}

// TestCookieOfLongerRemember: where a release prolongs a session that has begun, its cookie stays as it is, until the
// token is renewed.
func TestCookieOfLongerRemember(t *testing.T) {
	const day = 24 * time.Hour
	s := newSite(t, nil)
	remember := func(lifetime time.Duration) *session.Manager[Data] {
		m, err := session.New[Data](s.driver, &session.Options{Now: s.clock.Now, RenewEvery: 100 * day, Remember: slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: lifetime}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close(context.Background()) })
		return m
	}
	var cookie *http.Cookie
	given := 0
	visit := func(m *session.Manager[Data], handler func(ctx context.Context)) {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		m.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(r.Context()) })).ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			given++
			cookie = &http.Cookie{Name: c.Name, Value: c.Value, Expires: s.clock.Now().Add(time.Duration(c.MaxAge) * time.Second)}
		}
	}
	before, after := remember(120*day), remember(180*day)
	visit(before, func(ctx context.Context) {
		if err := before.Login(ctx, session.Login{User: "ann", Remember: true}, nil); err != nil {
			t.Fatal(err)
		}
	})
	for n := range 17 {
		s.clock.Advance(10 * day)
		visit(after, func(ctx context.Context) {
			v, err := after.Get(ctx)
			if err != nil || v.User != "ann" || cookie.Expires.Before(s.clock.Now()) {
				t.Fatalf("%q, %v; the cookie lasts until %v, at %v", v.User, err, cookie.Expires, s.clock.Now())
			}
		})
		if want := 1 + (n+1)/10; given != want {
			t.Errorf("on day %d the cookie was given %d times; want %d", 10*n+10, given, want)
		}
	}
}
