package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// TestNoFailureIsSilent fails each call that an operation makes to the store, one at a time. The
// caller or OnError gets the error, and no session is left whose token was not given out.
func TestNoFailureIsSilent(t *testing.T) {
	for name, do := range map[string]func(s *site, ctx context.Context) error{
		"get":    func(s *site, ctx context.Context) error { _, err := s.sessions.Get(ctx); return err },
		"update": func(s *site, ctx context.Context) error { return s.count(ctx) },
		"renew":  func(s *site, ctx context.Context) error { return s.sessions.Renew(ctx) },
		"rotate": func(s *site, ctx context.Context) error {
			err := s.sessions.Rotate(ctx, func(d *Data) error { d.Count++; return nil })
			if err == session.ErrEnded {
				err = nil
			}
			return err
		},
		"logout":     func(s *site, ctx context.Context) error { return s.sessions.Destroy(ctx) },
		"list":       func(s *site, ctx context.Context) error { _, err := s.sessions.List(ctx, "ann"); return err },
		"revoke all": func(s *site, ctx context.Context) error { return s.sessions.RevokeAll(ctx, "ann") },
		"refresh": func(s *site, ctx context.Context) error {
			_, err := s.sessions.Get(ctx)
			_, again := s.sessions.Refresh(ctx)
			return errors.Join(err, again)
		},
		"take": func(s *site, ctx context.Context) error {
			_, err := session.Take(ctx, s.sessions, func(d *Data) *int { return &d.Count })
			return err
		},
		"revoke": func(s *site, ctx context.Context) error {
			for id, user := range s.live() {
				if user == "ann" {
					return s.sessions.Revoke(ctx, user, id)
				}
			}
			return errors.New("ann has no session")
		},
		"login": func(s *site, ctx context.Context) error {
			return s.sessions.Login(ctx, session.Login{User: "ann"}, nil)
		},
		"another's login": func(s *site, ctx context.Context) error {
			return s.sessions.Login(ctx, session.Login{User: "bob"}, nil)
		},
		"login while the session changes": func(s *site, ctx context.Context) error {
			if _, err := s.sessions.Get(ctx); err != nil {
				return err
			}
			return s.sessions.Login(ctx, session.Login{User: "ann"}, func(d *Data) error { d.Cart = append(d.Cart, "x"); return nil })
		},
	} {
		for _, former := range []string{"", "anonymous", "ann"} {
			if former == "" && (name == "revoke" || name == "revoke all" || name == "list") {
				continue
			}
			for failing := 0; ; failing++ {
				var reported []error
				s := newSite(t, &session.Options{MaxPerUser: 1, OnError: func(_ context.Context, err error) { reported = append(reported, err) }})
				var token string
				if former != "" {
					ctx := s.visit("")
					if err := s.count(ctx); err != nil {
						t.Fatal(err)
					}
					token = s.leave(ctx, "")
				}
				switch {
				case former == "ann":
					token = s.login(token, "ann")
				case former == "anonymous" && name != "get" && name != "update" && name != "take":
					s.login("", "ann")
				}
				before := s.live()
				calls, failed := 0, ""
				s.store.onCalls(func(op, key string) error {
					if calls++; calls-1 != failing {
						return nil
					}
					failed = op + " " + key[:min(2, len(key))]
					return errDown
				})
				ctx := s.visit(token)
				err := do(s, ctx)
				s.store.onCalls(nil)
				if failed == "" {
					if err != nil || len(reported) > 0 {
						t.Errorf("%s of %q: %v, OnError was reported %v", name, former, err, reported)
					}
					break
				}
				silent := !errors.Is(err, errDown) && (len(reported) == 0 || !errors.Is(reported[0], errDown))
				if silent || len(reported) > 1 || err != nil && !errors.Is(err, errDown) {
					t.Errorf("%s of %q, %s (call %d) fails: %v, OnError was reported %v", name, former, failed, failing, err, reported)
				}
				after := s.leave(ctx, token)
				before[s.get(after).ID] = ""
				for id := range s.live() {
					if _, known := before[id]; !known && failed != "delete s:" {
						t.Errorf("%s of %q, %s (call %d) fails: a session is left that nobody has", name, former, failed, failing)
					}
				}
			}
		}
	}
}

// TestSessionDiesDuringRequest: the session of a request expires after it was read.
func TestSessionDiesDuringRequest(t *testing.T) {
	var reported []error
	s := newSite(t, &session.Options{Policy: halfHour, OnError: func(_ context.Context, err error) { reported = append(reported, err) }})
	for name, tt := range map[string]struct {
		do   func(ctx context.Context) error
		want error
	}{
		"update": {s.count, session.ErrEnded},
		"renew":  {s.sessions.Renew, session.ErrEnded},
		"logout": {s.sessions.Destroy, nil},
		"login":  {func(ctx context.Context) error { return s.sessions.Login(ctx, session.Login{User: "ann"}, nil) }, nil},
	} {
		ctx := s.visit(s.login("", "ann"))
		if _, err := s.sessions.Get(ctx); err != nil {
			t.Fatal(err)
		}
		s.clock.Advance(31 * time.Minute)
		if err := tt.do(ctx); err != tt.want {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != map[string]int{"login": 1}[name] {
			t.Errorf("%s: %d sessions, %v", name, len(list), err)
		}
	}
	if len(reported) > 0 {
		t.Errorf("OnError was reported %v", reported)
	}
}

// TestHeaderLeavesDuringCall: the response begins while a call writes a session that needs a
// cookie. The call fails, and leaves nothing behind.
func TestHeaderLeavesDuringCall(t *testing.T) {
	for _, ends := range []bool{false, true} { // the call's context too, as by http.TimeoutHandler
		t.Run(fmt.Sprint("ends ", ends), func(t *testing.T) { headerLeaves(t, ends) })
	}
}

func headerLeaves(t *testing.T, ends bool) {
	for name, tt := range map[string]struct {
		do func(s *site, ctx context.Context) error
		at string
	}{
		"login": {func(s *site, ctx context.Context) error {
			return s.sessions.Login(ctx, session.Login{User: "ann"}, nil)
		}, "insert s:"},
		"first update": {func(s *site, ctx context.Context) error { return s.count(ctx) }, "insert s:"},
		"renew":        {func(s *site, ctx context.Context) error { return s.sessions.Renew(ctx) }, "replace s:"},
		"rotate": {func(s *site, ctx context.Context) error {
			return s.sessions.Rotate(ctx, func(d *Data) error { d.Count++; return nil })
		}, "replace s:"},
	} {
		var e events
		o := e.options()
		s := newSite(t, &o)
		token := ""
		renews := tt.at == "replace s:"
		if renews {
			token = s.login("", "ann")
		}
		before := len(s.live())
		e.since()
		ctx, end := context.WithCancel(s.visit(token))
		defer end()
		s.store.onCalls(func(op, key string) error {
			if strings.HasPrefix(op+" "+key, tt.at) {
				s.leave(ctx, token)
				if ends {
					end()
				}
			}
			return nil
		})
		if err := tt.do(s, ctx); err == nil || err != session.ErrHeaderSent && !(ends && err == context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		s.store.onCalls(nil)
		if n := len(s.live()); n != before {
			t.Errorf("%s: %d sessions live, want %d", name, n, before)
		}
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != before {
			t.Errorf("%s: %d sessions listed, %v; want %d", name, len(list), err, before)
		}
		if reported := e.since(); reported != "" {
			t.Errorf("%s: hooks were reported %q", name, reported)
		}
		if !renews {
			e, err := s.store.Driver.Get(t.Context(), indexKey(s))
			if err == nil && len(e.Value.Sessions) > 0 {
				t.Errorf("%s: the index lists %+v", name, e.Value.Sessions)
			}
			continue
		}
		s.clock.Advance(time.Minute) // more than RenewGrace: the client has no other token
		if v := s.get(token); v.User != "ann" || v.Renewed || v.Data.Count != 0 {
			t.Errorf("%s: the token from before opens %+v", name, v)
		}
	}
}

// indexKey returns the key of the site's only index; "" if there is none yet.
func indexKey(s *site) string {
	for written := range s.store.seen {
		if key := strings.Fields(written)[1]; strings.HasPrefix(key, "u:") {
			return key
		}
	}
	return ""
}
