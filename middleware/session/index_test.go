package session_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// TestIndexOutlivesItsFirstSession has a user log in every two months, for years.
func TestIndexOutlivesItsFirstSession(t *testing.T) {
	s := newSite(t, nil)
	for range 20 {
		ctx := s.visit("")
		if err := s.sessions.Login(ctx, session.Login{User: "ann", Remember: true}, nil); err != nil {
			t.Fatal(err)
		}
		token := s.leave(ctx, "")
		for range 3 {
			s.clock.Advance(20 * 24 * time.Hour)
			if v := s.get(token); v.User != "ann" {
				t.Fatal("the session died of idleness")
			}
		}
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
			t.Fatalf("after %v: %d sessions listed, %v", s.clock.Now().Sub(s.clock.start), len(list), err)
		}
	}
}

// TestIndexIsKept: a session is added to its user's index once, and removed however it ended.
func TestIndexIsKept(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(s *site, token string)
		want int
	}{
		"login":           {func(s *site, token string) { s.login(token, "ann") }, 1},
		"another's login": {func(s *site, token string) { s.login(token, "bob") }, 0},
		"logout": {func(s *site, token string) {
			if err := s.sessions.Destroy(s.visit(token)); err != nil {
				s.t.Error(err)
			}
		}, 0},
		"revoked": {func(s *site, token string) {
			if err := s.sessions.Revoke(s.t.Context(), "ann", s.get(token).ID); err != nil {
				s.t.Error(err)
			}
		}, 0},
		"all revoked": {func(s *site, _ string) {
			if err := s.sessions.RevokeAll(s.t.Context(), "ann"); err != nil {
				s.t.Error(err)
			}
		}, 0},
	} {
		s := newSite(t, nil)
		token := s.login("", "ann")
		index := indexKey(s)
		tt.end(s, token)
		e, err := s.store.Driver.Get(t.Context(), index)
		if err != nil || len(e.Value.Sessions) != tt.want {
			t.Errorf("%s: the index lists %+v, %v; want %d", name, e.Value.Sessions, err, tt.want)
		}
	}
}

// TestNobodyHasNoIndex: a login that replaces an anonymous session uses only its user's index.
func TestNobodyHasNoIndex(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	if err := s.count(ctx); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	s.store.onCalls(func(_, key string) error {
		if strings.HasPrefix(key, "u:") {
			asked[key] = true
		}
		return nil
	})
	s.login(s.leave(ctx, ""), "ann")
	if len(asked) != 1 {
		t.Errorf("%d indexes were asked for, want one", len(asked))
	}
}

// TestIndexIsLost ends sessions of a user whose index is missing or does not list them. That is
// no failure.
func TestIndexIsLost(t *testing.T) {
	s := newSite(t, &session.Options{OnError: func(_ context.Context, err error) { t.Errorf("OnError was told %v", err) }})
	token, other := s.login("", "ann"), s.login("", "ann")
	if err := s.store.Driver.Delete(t.Context(), indexKey(s)); err != nil {
		t.Fatal(err)
	}
	if err := s.sessions.Destroy(s.visit(token)); err != nil {
		t.Errorf("without an index: %v", err)
	}
	third := s.login("", "ann")
	writes := s.store.writes.Load()
	if err := s.sessions.Destroy(s.visit(other)); err != nil {
		t.Errorf("not on the index: %v", err)
	}
	if n := s.store.writes.Load() - writes; n != 1 {
		t.Errorf("%d writes for a session that no index lists, want its own", n)
	}
	if v := s.get(third); v.User != "ann" {
		t.Errorf("the session that is listed: %+v", v)
	}
}
