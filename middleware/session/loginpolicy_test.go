package session_test

import (
	"errors"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestLoginPolicy: a login may have limits of its own, shorter and longer than those of the options,
// and its user's index outlasts it.
func TestLoginPolicy(t *testing.T) {
	for name, p := range map[string]slidingttl.Policy{
		"shorter": {IdleGrace: 5 * time.Minute, MaxLifetime: hours},
		"longer":  {IdleGrace: 20 * hours, MaxLifetime: 5000 * hours, Slack: hours},
	} {
		for _, remember := range []bool{false, true} {
			s := newSite(t, nil)
			begin := func() string {
				ctx := s.visit("")
				if err := s.sessions.Login(ctx, session.Login{User: "ann", Remember: remember, Policy: p}, nil); err != nil {
					t.Fatal(err)
				}
				return s.leave(ctx, "")
			}
			token, idle := begin(), begin()
			v := s.get(token)
			if got := v.AbsoluteExpiry.Sub(v.CreatedAt); got != p.MaxLifetime {
				t.Errorf("%s: the session lasts %v at most", name, got)
			}
			step := p.IdleGrace - time.Second
			for at := step; at < p.MaxLifetime; at += step {
				s.clock.Advance(step)
				if v := s.get(token); v.User != "ann" {
					t.Fatalf("%s: dead after %v", name, at)
				}
				if at == 3*step && s.get(idle).User != "" {
					t.Errorf("%s: idle for %v, and alive", name, at)
				}
			}
			if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
				t.Errorf("%s: listed %+v, %v", name, list, err)
			}
			last := s.release(hours, hours) // to which the policies of the options are shorter
			if err := last.RevokeAll(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
			if s.get(token).User != "" {
				t.Errorf("%s: lives after RevokeAll", name)
			}
			token = begin()
			for range p.MaxLifetime/step + 1 {
				s.clock.Advance(step)
				_ = s.get(token)
			}
			if s.get(token).User != "" {
				t.Errorf("%s: lives past the cap", name)
			}
		}
	}
}

func TestLoginPolicyInvalid(t *testing.T) {
	s := newSite(t, nil)
	for name, l := range map[string]session.Login{
		"no cap":                 {Policy: slidingttl.Policy{IdleGrace: hours}},
		"less than RenewGrace":   {Policy: slidingttl.Policy{IdleGrace: time.Second, MaxLifetime: hours}},
		"beyond what cookies do": {Policy: slidingttl.Policy{IdleGrace: hours, MaxLifetime: slidingttl.NoCap}, Remember: true},
	} {
		l.User = "ann"
		err := s.sessions.Login(s.visit(""), l, nil)
		if e, ok := errors.AsType[*slidingttl.InvalidError](err); !ok || e.Field != "Login.Policy" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJoinTouchesNoOther: a login with the token from before another user's login keeps that one's session alive
// no longer.
func TestJoinTouchesNoOther(t *testing.T) {
	s := newSite(t, nil)
	ctx := s.visit("")
	if err := s.count(ctx); err != nil {
		t.Fatal(err)
	}
	before := s.leave(ctx, "")
	s.login(before, "ann")
	s.clock.Advance(9 * time.Second)
	anns, touched := s.live(), false
	s.store.onCalls(func(op, key string) error {
		for id, user := range anns {
			touched = touched || user == "ann" && key == "s:"+id && op != "read"
		}
		return nil
	})
	long := s.release(100*hours, 200*hours)
	if err := long.Login(long.Load(t.Context(), before), session.Login{User: "bob"}, nil); err != nil {
		t.Fatal(err)
	}
	if touched {
		t.Error("it did")
	}
}
