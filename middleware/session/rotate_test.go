package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestRotate: the token and the data change in one write, or neither does.
func TestRotate(t *testing.T) {
	s := newSite(t, &session.Options{MaxData: 100})
	token := s.login("", "ann")
	count := func(d *Data) error { d.Count++; return nil }

	ctx, late, other := s.visit(token), s.visit(token), s.visit(token)
	for _, ctx := range []context.Context{ctx, late} {
		if _, err := s.sessions.Get(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.count(other); err != nil {
		t.Fatal(err)
	}
	writes := 0
	s.store.onCalls(func(op, _ string) error {
		if op == "replace" {
			writes++
		}
		return nil
	})
	if err := s.sessions.Rotate(ctx, count); err != nil || writes != 2 { // one of them lost to the other request's
		t.Fatalf("%v, %d writes", err, writes)
	}
	if v, err := s.sessions.Get(ctx); err != nil || v.Data.Count != 2 || v.Renewed {
		t.Errorf("%+v, %v", v, err)
	}
	next := s.leave(ctx, token)
	if v := s.get(next); next == token || v.Data.Count != 2 || v.Renewed || v.User != "ann" {
		t.Errorf("the new token opens %+v", v)
	}
	if v := s.get(token); !v.Renewed || v.User != "ann" {
		t.Errorf("within the grace the former token opens %+v", v)
	}

	bad := errors.New("bad")
	for _, tt := range []struct {
		ctx  context.Context
		f    func(*Data) error
		want error
	}{
		{s.visit(next), func(*Data) error { return bad }, bad},
		{s.visit(next), func(d *Data) error { d.Cart = []string{strings.Repeat("x", 100)}; return nil }, slidingttl.ErrInvalid},
		{late, count, session.ErrEnded},
		{s.visit(""), count, session.ErrEnded},
	} {
		if err := s.sessions.Rotate(tt.ctx, tt.f); !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
		if token, changed, err := s.sessions.Commit(tt.ctx); err != nil || changed {
			t.Errorf("after %v: token %q, %v", tt.want, token, err)
		}
		if v := s.get(next); v.Data.Count != 2 || v.Renewed {
			t.Errorf("after %v: %+v", tt.want, v)
		}
	}
	ctx = s.visit(next)
	if err := s.sessions.Rotate(ctx, nil); err != nil {
		t.Error(err)
	}
	if v := s.get(s.leave(ctx, next)); v.Data.Count != 2 {
		t.Errorf("%+v", v)
	}
}
