package session_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// events are the calls of a site's hooks.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf(format, args...))
}

// since returns the events since the last call.
func (e *events) since() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := strings.Join(e.all, ", ")
	e.all = nil
	return all
}

func (e *events) options() session.Options {
	name := func(i session.Info) string {
		if i.ID == "" || i.CreatedAt.IsZero() {
			return "?"
		}
		return i.User
	}
	return session.Options{
		MaxPerUser: 2,
		OnCreated:  func(_ context.Context, i session.Info) { e.add("created %s", name(i)) },
		OnRenewed:  func(_ context.Context, i session.Info) { e.add("renewed %s", name(i)) },
		OnEnded:    func(_ context.Context, i session.Info, why session.Reason) { e.add("ended %s: %v", name(i), why) },
	}
}

func TestHooks(t *testing.T) {
	var e events
	o := e.options()
	s := newSite(t, &o)
	ctx := t.Context()
	b, other, third := s.browser(), s.browser(), s.browser()
	for _, step := range []struct {
		what string
		do   func() error
		want string
	}{
		{"a read", func() error { b.ok("/get"); return nil }, ""},
		{"an anonymous session", func() error { b.ok("/count"); return nil }, "created "},
		{"a change of it", func() error { b.ok("/count"); return nil }, ""},
		{"a login", func() error { b.ok("/login?user=ann"); return nil }, "ended : login, created ann"},
		{"a renewal", func() error { b.ok("/renew"); return nil }, "renewed ann"},
		{"the same user again", func() error { b.ok("/login?user=ann"); return nil }, "ended ann: login, created ann"},
		{"another user", func() error { b.ok("/login?user=bob"); return nil }, "ended ann: login, created bob"},
		{"a logout", func() error { b.ok("/logout"); return nil }, "ended bob: logout"},
		{"a logout of nobody", func() error { b.ok("/logout"); return nil }, ""},
		{"three devices", func() error {
			for _, b := range []*browser{b, other, third} {
				s.clock.Advance(time.Second)
				b.ok("/login?user=ann")
			}
			return nil
		}, "created ann, created ann, ended ann: evicted, created ann"},
		{"revoked", func() error { return s.sessions.Revoke(ctx, "ann", other.ok("/id").body) }, "ended ann: revoked"},
		{"all revoked", func() error { return s.sessions.RevokeAll(ctx, "ann") }, "ended ann: revoked"},
		{"all of none revoked", func() error { return s.sessions.RevokeAll(ctx, "ann") }, ""},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.what, err)
		}
		if got := e.since(); got != step.want {
			t.Errorf("%s: hooks were reported %q, want %q", step.what, got, step.want)
		}
	}
}

// TestHooksMayAsk: each hook may ask for the session of the request that calls it.
func TestHooksMayAsk(t *testing.T) {
	var s *site
	reported := 0
	ask := func(ctx context.Context) {
		reported++
		if _, err := s.sessions.Get(ctx); err != nil {
			t.Error(err)
		}
	}
	s = newSite(t, &session.Options{
		OnCreated: func(ctx context.Context, _ session.Info) { ask(ctx) },
		OnRenewed: func(ctx context.Context, _ session.Info) { ask(ctx) },
		OnEnded:   func(ctx context.Context, _ session.Info, _ session.Reason) { ask(ctx) },
	})
	b := s.browser()
	for _, path := range []string{"/count", "/login?user=ann", "/renew", "/logout"} {
		b.ok(path)
	}
	if reported != 5 {
		t.Errorf("hooks were reported %d times, want 5", reported)
	}
}

func TestRenewEvery(t *testing.T) {
	var e events
	o := e.options()
	o.RenewEvery = time.Hour
	s := newSite(t, &o)
	b := s.browser()
	b.ok("/login?user=ann&remember=1")
	e.since()
	first := b.cookie()
	s.clock.Advance(59 * time.Minute)
	b.want("/get", "ann/0/", "not due")
	if b.cookie() != first {
		t.Error("renewed too early")
	}
	s.clock.Advance(time.Minute)
	b.ok("/public")
	if b.cookie() != first {
		t.Error("renewed by a request that does not ask for the session")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	set := map[string]bool{}
	for range 4 {
		wg.Go(func() {
			r := b.with("/get", first)
			if r.body != "ann/0/" {
				t.Errorf("when a renewal is due: %q", r.body)
			}
			mu.Lock()
			defer mu.Unlock()
			set[given(r)] = true
		})
	}
	wg.Wait()
	if got := e.since(); got != "renewed ann" {
		t.Errorf("four requests at once: hooks were reported %q, want one renewal", got)
	}
	delete(set, "")
	if len(set) != 1 {
		t.Fatalf("%d tokens given", len(set))
	}
	for cookie := range set {
		s.clock.Advance(59 * time.Minute)
		if r := b.with("/get", cookie); r.body != "ann/0/" || given(r) != "" {
			t.Errorf("with the new token: %q, set %q", r.body, given(r))
		}
		s.clock.Advance(time.Minute)
		if r := b.with("/count", cookie); given(r) == "" {
			t.Error("the new token is not renewed in its turn")
		}
	}
	if r := b.with("/get", first); r.body != "/0/" {
		t.Errorf("the first token opens %q", r.body)
	}
}

// TestRenewalThatFailsIsSurvived: the session was read, and the token is still valid.
func TestRenewalThatFailsIsSurvived(t *testing.T) {
	var survived []error
	s := newSite(t, &session.Options{RenewEvery: time.Minute, OnError: func(_ context.Context, err error) { survived = append(survived, err) }})
	b := s.browser()
	b.ok("/login?user=ann")
	s.clock.Advance(time.Minute)
	s.store.failWrites(errDown)
	b.want("/get", "ann/0/", "the renewal could not be written")
	s.store.failWrites(nil)
	if len(survived) != 1 {
		t.Errorf("OnError was reported %v", survived)
	}
	before := b.cookie()
	b.want("/get", "ann/0/", "the next request")
	if b.cookie() == before {
		t.Error("does not renew")
	}
}

func TestNoDriverMeansMemory(t *testing.T) {
	var log bytes.Buffer
	m, err := session.New[Data](nil, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	ctx := m.Load(t.Context(), "")
	if err := m.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, _ := m.Commit(ctx)
	if v, err := m.Get(m.Load(t.Context(), token)); err != nil || v.User != "ann" {
		t.Errorf("%+v, %v", v, err)
	}
	if n := strings.Count(log.String(), "memory"); n != 1 {
		t.Errorf("logged %q, want one line", log.String())
	}
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := m.Close(t.Context()); err != nil {
		t.Errorf("Close again: %v", err)
	}
	if _, err := m.List(t.Context(), "ann"); err == nil || !strings.Contains(err.Error(), slidingttl.ErrClosed.Error()) {
		t.Errorf("after Close: %v", err)
	}
}
