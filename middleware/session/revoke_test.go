package session_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestRevokeOwnSession logs out everywhere, including this browser: it drops its token, and the
// next write begins a new session at once.
func TestRevokeOwnSession(t *testing.T) {
	for name, revoke := range map[string]func(ctx context.Context, s *site) error{
		"Revoke": func(ctx context.Context, s *site) error {
			v, err := s.sessions.Get(ctx)
			if err != nil {
				return err
			}
			return s.sessions.Revoke(ctx, v.User, v.ID)
		},
		"RevokeAll": func(ctx context.Context, s *site) error {
			if _, err := s.sessions.Get(ctx); err != nil {
				return err
			}
			return s.sessions.RevokeAll(ctx, "ann")
		},
		"RevokeAll before the session was read": func(ctx context.Context, s *site) error {
			return s.sessions.RevokeAll(ctx, "ann")
		},
		"RevokeAll of a session that was just renewed": func(ctx context.Context, s *site) error {
			if err := s.sessions.Renew(ctx); err != nil {
				return err
			}
			return s.sessions.RevokeAll(ctx, "ann")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			handle := func(path string, then func(ctx context.Context) error) {
				s.mux.HandleFunc(path, func(_ http.ResponseWriter, r *http.Request) {
					if err := revoke(r.Context(), s); err != nil {
						t.Error(err)
					}
					if v, err := s.sessions.Get(r.Context()); err != nil || v.ID != "" {
						t.Errorf("after it: %+v, %v", v, err)
					}
					if err := then(r.Context()); err != nil {
						t.Error(err)
					}
				})
			}
			handle("/everywhere", func(context.Context) error { return nil })
			handle("/everywhere-flash", s.count)

			b := s.browser()
			b.ok("/login?user=ann")
			b.ok("/everywhere")
			if c := b.cookie(); c != "" {
				t.Errorf("the browser keeps %q", c)
			}
			b.ok("/count")
			b.want("/get", "/1/", "an anonymous session")

			b.ok("/login?user=ann")
			if n := len(b.ok("/everywhere-flash").header.Values("Set-Cookie")); n != 1 {
				t.Errorf("%d cookies set, want one", n)
			}
			b.want("/get", "/1/", "the anonymous session that the same request began")

			token := s.login("", "ann")
			ctx := s.visit(token)
			if err := revoke(ctx, s); err != nil {
				t.Fatal(err)
			}
			if next, changed, err := s.sessions.Commit(ctx); next != "" || !changed || err != nil {
				t.Errorf("Commit: %q, %v, %v; want the client to forget its token", next, changed, err)
			}
		})
	}
}

// TestRevokeAnothersSession: a request keeps its own session when it ends another.
func TestRevokeAnothersSession(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/others", func(_ http.ResponseWriter, r *http.Request) {
		for _, do := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return s.sessions.RevokeAll(ctx, "bob") },
			func(ctx context.Context) error {
				v, err := s.sessions.Get(ctx)
				if err != nil {
					return err
				}
				return s.sessions.RevokeAll(ctx, "ann", v.ID)
			},
		} {
			if err := do(r.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	b, phone, bob := s.browser(), s.browser(), s.browser()
	b.ok("/login?user=ann")
	phone.ok("/login?user=ann")
	bob.ok("/login?user=bob")
	if c := b.ok("/others").header.Get("Set-Cookie"); c != "" {
		t.Errorf("sets %q", c)
	}
	b.want("/get", "ann/0/", "the request's own")
	phone.want("/get", "/0/", "revoked")
	bob.want("/get", "/0/", "revoked")
}

// TestRevokeAfterTheHeader: the client cannot be told to drop its token, but the session ends.
func TestRevokeAfterTheHeader(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		if _, err := s.sessions.Get(r.Context()); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "begun")
		if err := s.sessions.RevokeAll(r.Context(), "ann"); err != nil {
			t.Error(err)
		}
	})
	b := s.browser()
	b.ok("/login?user=ann")
	if c := b.ok("/stream").header.Get("Set-Cookie"); c != "" {
		t.Errorf("sets %q", c)
	}
	b.ok("/count")
	b.want("/get", "/1/", "an anonymous session, though the browser showed the token of the one that ended")
}

// TestArrivalDecides: requests send the token of an ended session. One that arrived before the
// end cannot write; one that arrived after it begins a new session at once. Only a login, whose
// cookie may be on its way, has a grace.
func TestArrivalDecides(t *testing.T) {
	for name, tt := range map[string]struct {
		end   func(s *site, b *browser) error
		grace time.Duration
	}{
		"revoked": {func(s *site, b *browser) error {
			return s.sessions.Revoke(context.Background(), "ann", b.ok("/id").body)
		}, 0},
		"all revoked": {func(s *site, _ *browser) error { return s.sessions.RevokeAll(context.Background(), "ann") }, 0},
		"evicted":     {func(s *site, _ *browser) error { s.browser().ok("/login?user=ann"); return nil }, 0},
		"logged out":  {func(_ *site, b *browser) error { b.ok("/logout"); return nil }, 0},
		"logged in":   {func(_ *site, b *browser) error { b.ok("/login?user=bob"); return nil }, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, &session.Options{MaxPerUser: 1})
			begin := s.uploads()
			b := s.browser()
			b.ok("/login?user=ann")
			was := b.cookie()
			early := begin(b, was)
			s.clock.Advance(time.Second)
			if err := tt.end(s, b); err != nil {
				t.Fatal(err)
			}
			if got := early.end().body; got != session.ErrEnded.Error() {
				t.Errorf("arrived before the end: %q", got)
			}
			if tt.grace > 0 {
				s.clock.Advance(tt.grace - time.Millisecond)
				if r := b.with("/count", was); r.body != "handler: "+session.ErrEnded.Error() || r.header.Get("Set-Cookie") != "" {
					t.Errorf("within the grace: %q, Set-Cookie %q", r.body, r.header.Get("Set-Cookie"))
				}
				s.clock.Advance(time.Millisecond)
			}
			late := begin(b, was)
			if r := b.with("/count", was); r.status != http.StatusOK || r.header.Get("Set-Cookie") == "" {
				t.Errorf("arrived after the end: %d %q, Set-Cookie %q", r.status, r.body, r.header.Get("Set-Cookie"))
			}
			s.clock.Advance(10 * time.Second)
			if got := late.end().body; got != session.ErrEnded.Error() {
				t.Errorf("arrived after the end and asked 10 s later, when the client may have another session: %q", got)
			}
		})
	}
}

// TestOneSessionCannotBeReached: one of a user's sessions cannot be read, or not be written. The others are ended
// and listed, and the user can log in.
func TestOneSessionCannotBeReached(t *testing.T) {
	for _, op := range []string{"read", "replace"} {
		t.Run(op, func(t *testing.T) {
			s := newSite(t, &session.Options{MaxPerUser: 3, OnError: func(context.Context, error) {}})
			var tokens []string
			bad := ""
			for i := range 3 {
				tokens = append(tokens, s.login("", "ann"))
				if s.clock.Advance(time.Second); i == 0 {
					bad = "s:" + s.get(tokens[0]).ID
				}
			}
			s.store.onCalls(func(called, key string) error {
				if called == op && key == bad {
					return &slidingttl.InvalidError{Field: "record", Value: "text", Rule: "must decode", Err: errDown}
				}
				return nil
			})
			list, err := s.sessions.List(t.Context(), "ann")
			if want := map[string]int{"read": 2, "replace": 3}[op]; len(list) != want || (err != nil) != (op == "read") {
				t.Errorf("%d sessions are listed, %v; want %d", len(list), err, want)
			}
			ctx := s.visit("")
			if err := s.sessions.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
				t.Fatalf("a fourth login: %v", err)
			}
			tokens = append(tokens, s.leave(ctx, ""))
			if v := s.get(tokens[3]); v.User != "ann" {
				t.Error("the fourth login's token opens no session")
			}
			if err := s.sessions.RevokeAll(t.Context(), "ann"); !errors.Is(err, errDown) {
				t.Errorf("RevokeAll: %v", err)
			}
			for i, token := range tokens[1:] {
				if v := s.get(token); v.ID != "" {
					t.Errorf("RevokeAll has left session %d", i+1)
				}
			}
			s.store.onCalls(nil)
			if err := s.sessions.RevokeAll(t.Context(), "ann"); err != nil || s.get(tokens[0]).ID != "" {
				t.Errorf("RevokeAll again: %v; the session it could not reach must be gone", err)
			}
		})
	}
}
