package session_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestDefaultPolicies: the default policies are as Options documents.
func TestDefaultPolicies(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/login?user=ann")
	b.want("/times", "created 0s idle 33m0s absolute 12h0m0s", "30 minutes and the slack of 3, 12 hours")
	b.ok("/login?user=ann&remember=1")
	b.want("/times", "created 0s idle 744h0m0s absolute 2160h0m0s", "30 days and the slack of 1, 90 days")
}

// TestNoCap: without a cap, sessions live as long as they are used.
func TestNoCap(t *testing.T) {
	endless := slidingttl.Policy{IdleGrace: 30 * 24 * time.Hour, MaxLifetime: slidingttl.NoCap}
	s := newSite(t, &session.Options{Remember: endless, RenewEvery: 90 * 24 * time.Hour})
	b := s.browser()
	r := b.ok("/login?user=ann&remember=1")
	cookies := (&http.Response{Header: r.header}).Cookies()
	if len(cookies) != 1 || cookies[0].MaxAge != 400*24*60*60 {
		t.Fatalf("cookies %v, want one that lasts as long as browsers let it", cookies)
	}
	renewed := 0
	for range 40 {
		s.clock.Advance(29 * 24 * time.Hour)
		r := b.want("/get", "ann/0/", "busy for years")
		for _, c := range (&http.Response{Header: r.header}).Cookies() {
			if renewed++; c.MaxAge != 400*24*60*60 {
				t.Errorf("renewed: Max-Age %d", c.MaxAge)
			}
		}
	}
	if renewed != 10 {
		t.Errorf("the cookie was renewed %d times in 40 visits, 29 days apart; want every fourth time", renewed)
	}
	list, err := s.sessions.List(t.Context(), "ann")
	if err != nil || len(list) != 1 || !list[0].AbsoluteExpiry.IsZero() {
		t.Errorf("%+v, %v; want one session without an absolute timeout", list, err)
	}
	b.ok("/logout")
	b.want("/get", "/0/", "logged out")
}

// stale is a driver whose Get returns the first record that it ever read under a key, as an
// eventually consistent replica may for a while. Its Latest does not.
type stale struct {
	driver.Driver[session.Record]

	mu   sync.Mutex // guards seen
	seen map[string]driver.Entry[session.Record]
}

func (d *stale) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.seen[key]; ok {
		return e, nil
	}
	e, err := d.Driver.Get(ctx, key)
	if err == nil {
		d.seen[key] = e
	}
	return e, err
}

func (d *stale) Latest(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	return d.Driver.Get(ctx, key)
}

// TestStaleReads: a session that was logged out must not open, whatever a replica
// still shows.
func TestStaleReads(t *testing.T) {
	s := newSite(t, nil)
	d := &stale{Driver: s.store, seen: map[string]driver.Entry[session.Record]{}}
	m, err := session.New[Data](d, &session.Options{Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	ctx := m.Load(t.Context(), "")
	if err := m.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, _ := m.Commit(ctx)
	who := func() string {
		t.Helper()
		v, err := m.Get(m.Load(t.Context(), token))
		if err != nil {
			t.Fatal(err)
		}
		return v.User
	}
	if who() != "ann" {
		t.Fatal("not logged in")
	}
	if list, err := m.List(t.Context(), "ann"); err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if err := m.Destroy(m.Load(t.Context(), token)); err != nil {
		t.Fatal(err)
	}
	if user := who(); user != "" {
		t.Errorf("after logout the token opens a session of %s", user)
	}
	if list, err := m.List(t.Context(), "ann"); err != nil || len(list) != 0 {
		t.Errorf("after logout: %d sessions listed, %v", len(list), err)
	}
}
