package session_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// release is a manager over the site's store with another policy, as the next deployment has.
func (s *site) release(idle, lifetime time.Duration) *session.Manager[Data] {
	s.t.Helper()
	p := slidingttl.Policy{IdleGrace: idle, MaxLifetime: lifetime}
	m, err := session.New[Data](s.driver, &session.Options{Policy: p, Remember: p, Now: s.clock.Now, MaxPerUser: 3})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			s.t.Error(err)
		}
	})
	return m
}

// begin logs ann in and returns the token.
func begin(t *testing.T, m *session.Manager[Data]) string {
	t.Helper()
	ctx := m.Load(t.Context(), "")
	if err := m.Login(ctx, session.Login{User: "ann"}, nil); err != nil {
		t.Fatal(err)
	}
	token, _, err := m.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// user returns whose session token opens.
func user(t *testing.T, m *session.Manager[Data], token string) string {
	t.Helper()
	v, err := m.Get(m.Load(t.Context(), token))
	if err != nil {
		t.Fatal(err)
	}
	return v.User
}

const hours = time.Hour

// TestRevokeAllAfterLongerPolicies: whatever policies were released while a session lives, its
// user's index lists it, and RevokeAll ends it.
func TestRevokeAllAfterLongerPolicies(t *testing.T) {
	short, long := [2]time.Duration{12 * hours, 12 * hours}, [2]time.Duration{400 * hours, 720 * hours}
	for name, steps := range map[string]func(s *site, use func(p [2]time.Duration) *session.Manager[Data], token string){
		"longer, then another login": func(s *site, use func(p [2]time.Duration) *session.Manager[Data], token string) {
			s.clock.Advance(11 * hours)
			user(s.t, use(long), token)
			s.clock.Advance(2 * hours)
			begin(s.t, use(long))
		},
		"longer, and no login": func(s *site, use func(p [2]time.Duration) *session.Manager[Data], token string) {
			s.clock.Advance(11 * hours)
			user(s.t, use(long), token)
			s.clock.Advance(300 * hours)
			user(s.t, use(long), token)
		},
		"longer, and a write": func(s *site, use func(p [2]time.Duration) *session.Manager[Data], token string) {
			s.clock.Advance(11 * hours)
			m := use(long)
			if err := m.Update(m.Load(s.t.Context(), token), func(d *Data) error { d.Count++; return nil }); err != nil {
				s.t.Fatal(err)
			}
			s.clock.Advance(2 * hours)
		},
		"longer, shorter with a login, longer": func(s *site, use func(p [2]time.Duration) *session.Manager[Data], token string) {
			user(s.t, use(long), token)
			s.clock.Advance(hours)
			begin(s.t, use(short))
			s.clock.Advance(13 * hours)
			begin(s.t, use(short))
			s.clock.Advance(100 * hours)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			use := func(p [2]time.Duration) *session.Manager[Data] { return s.release(p[0], p[1]) }
			token := begin(t, use(short))
			steps(s, use, token)
			m := use(long)
			if user(t, m, token) != "ann" {
				t.Fatal("the session died early")
			}
			list, err := m.List(t.Context(), "ann")
			listed := false
			id := func() string { v, _ := m.Get(m.Load(t.Context(), token)); return v.ID }()
			for _, i := range list {
				listed = listed || i.ID == id
			}
			if err != nil || !listed {
				t.Errorf("List has %+v, %v", list, err)
			}
			if err := m.RevokeAll(t.Context(), "ann"); err != nil {
				t.Fatal(err)
			}
			if who := user(t, m, token); who != "" {
				t.Errorf("after RevokeAll the token opens a session of %s", who)
			}
		})
	}
}

// TestShorterReleaseEndsWhatLongerOnesSee: a session that the policy here has ended may live for
// another release, for which RevokeAll, Revoke and a logout end it all the same.
func TestShorterReleaseEndsWhatLongerOnesSee(t *testing.T) {
	for name, end := range map[string]func(m *session.Manager[Data], id, token string) error{
		"RevokeAll": func(m *session.Manager[Data], _, _ string) error { return m.RevokeAll(t.Context(), "ann") },
		"Revoke":    func(m *session.Manager[Data], id, _ string) error { return m.Revoke(t.Context(), "ann", id) },
		"Destroy":   func(m *session.Manager[Data], _, token string) error { return m.Destroy(m.Load(t.Context(), token)) },
		"evicted by logins": func(m *session.Manager[Data], _, _ string) error {
			for range 3 {
				begin(t, m)
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, nil)
			long, short := s.release(400*hours, 720*hours), s.release(12*hours, 12*hours)
			token := begin(t, long)
			v, err := long.Get(long.Load(t.Context(), token))
			if err != nil {
				t.Fatal(err)
			}
			s.clock.Advance(13 * hours)
			if who := user(t, short, token); who != "" {
				t.Fatalf("the shorter release sees %s", who)
			}
			if err := end(short, v.ID, token); err != nil {
				t.Fatal(err)
			}
			if who := user(t, long, token); who != "" {
				t.Errorf("the longer release still sees %s", who)
			}
		})
	}
}

// TestEvictionThatFailed: a session over the bound that could not be ended stays listed, so that
// RevokeAll ends it.
func TestEvictionThatFailed(t *testing.T) {
	s := newSite(t, nil)
	m := s.release(400*hours, 720*hours)
	token := begin(t, m)
	v, err := m.Get(m.Load(t.Context(), token))
	if err != nil {
		t.Fatal(err)
	}
	s.store.onCalls(func(op, key string) error {
		if op == "replace" && key == "s:"+v.ID {
			return errors.New("down")
		}
		return nil
	})
	for range 3 {
		s.clock.Advance(time.Second)
		begin(t, m)
	}
	s.store.onCalls(nil)
	if who := user(t, m, token); who != "ann" {
		t.Fatal("it was evicted")
	}
	if err := m.RevokeAll(t.Context(), "ann"); err != nil {
		t.Fatal(err)
	}
	if who := user(t, m, token); who != "" {
		t.Errorf("after RevokeAll the token opens a session of %s", who)
	}
}

// TestLongerReleaseWithShortBound: an access that extends the index ends no session and calls no
// hook under the request's lock, also if the index has more sessions than this release allows.
func TestLongerReleaseWithShortBound(t *testing.T) {
	s := newSite(t, nil)
	var tokens []string
	for range 4 {
		tokens = append(tokens, begin(t, s.sessions))
	}
	m := s.release(400*hours, 720*hours) // at most 3
	for _, token := range tokens {
		if who := user(t, m, token); who != "ann" {
			t.Errorf("a read has ended the session: %q", who)
		}
	}
	var failing *session.Manager[Data]
	var err error
	failing, err = session.New[Data](s.driver, &session.Options{
		Policy:  slidingttl.Policy{IdleGrace: 500 * hours, MaxLifetime: 800 * hours},
		Now:     s.clock.Now,
		OnError: func(ctx context.Context, _ error) { _, _ = failing.Get(ctx) }, // the hook may use the session
	})
	if err != nil {
		t.Fatal(err)
	}
	defer failing.Close(context.Background())
	said := 0
	s.store.onCalls(func(op, _ string) error {
		if op == "replace" {
			said++
			return errors.New("down")
		}
		return nil
	})
	if who := user(t, failing, tokens[0]); who != "ann" || said == 0 {
		t.Errorf("an index that cannot be written: %q, %d writes", who, said)
	}
	s.store.onCalls(nil)
}

// TestRevokeAllByClockAhead: a session that has just died by the clock of the server that revokes it
// may live by another's.
func TestRevokeAllByClockAhead(t *testing.T) {
	for name, end := range map[string]func(m *session.Manager[Data], token string) error{
		"RevokeAll": func(m *session.Manager[Data], _ string) error { return m.RevokeAll(t.Context(), "ann") },
		"Destroy":   func(m *session.Manager[Data], token string) error { return m.Destroy(m.Load(t.Context(), token)) },
	} {
		s := newSite(t, nil)
		token := begin(t, s.sessions)
		ahead, err := session.New[Data](s.driver, &session.Options{Now: func() time.Time { return s.clock.Now().Add(10 * time.Second) }})
		if err != nil {
			t.Fatal(err)
		}
		defer ahead.Close(context.Background())
		s.clock.Advance(33*time.Minute - 5*time.Second)
		if who := user(t, ahead, token); who != "" {
			t.Fatalf("ahead of its death: %q", who)
		}
		if err := end(ahead, token); err != nil {
			t.Fatal(err)
		}
		if who := user(t, s.sessions, token); who != "" {
			t.Errorf("after %s the token opens a session of %s", name, who)
		}
	}
}

// TestIndexDeadByClockAhead: an index that has just died by the clock here, and not by the store's,
// keeps no login waiting.
func TestIndexDeadByClockAhead(t *testing.T) {
	s := newSite(t, nil)
	d, err := memory.New[session.Record](&memory.Options[session.Record]{Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	spied := &spy{Driver: d, seen: map[string]session.Record{}}
	p := slidingttl.Policy{IdleGrace: hours, MaxLifetime: hours}
	m, err := session.New[Data](spied, &session.Options{Policy: p, Remember: p, Now: func() time.Time { return s.clock.Now().Add(10 * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	begin(t, m)
	var index driver.Entry[session.Record]
	for key, e := range d.All() {
		if strings.HasPrefix(key, "u:") {
			index = e
		}
	}
	s.clock.Advance(index.ExpiresAt.Time().Sub(s.clock.Now()) - 5*time.Second)
	calls := 0
	spied.onCalls(func(string, string) error {
		if calls++; calls > 100 {
			return errors.New("too many calls")
		}
		return nil
	})
	begin(t, m)
}

// TestLoginOnAServerThatIsBehind: the login that exceeds MaxPerUser is not the one that is ended, though by the
// clock of its server it began first.
func TestLoginOnAServerThatIsBehind(t *testing.T) {
	s := newSite(t, &session.Options{MaxPerUser: 2})
	behind, err := session.New[Data](s.driver, &session.Options{MaxPerUser: 2, Now: func() time.Time { return s.clock.Now().Add(-10 * time.Second) }})
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close(context.Background())
	first := begin(t, s.sessions)
	s.clock.Advance(time.Second)
	second := begin(t, s.sessions)
	s.clock.Advance(time.Second)
	third := begin(t, behind)
	for token, want := range map[string]string{first: "", second: "ann", third: "ann"} {
		if got := user(t, behind, token); got != want {
			t.Errorf("a token opens the session of %q, want %q", got, want)
		}
	}
}

// TestLoginEndsTheDeadFirst: the session that a login ends is one that has just expired, or does not decode, before
// one that lives.
func TestLoginEndsTheDeadFirst(t *testing.T) {
	for _, why := range []string{"expired", "does not decode"} {
		s := newSite(t, &session.Options{MaxPerUser: 2, OnError: func(context.Context, error) {}})
		ctx := s.visit("")
		if err := s.sessions.Login(ctx, session.Login{User: "ann", Remember: true}, nil); err != nil {
			t.Fatal(err)
		}
		lives := s.leave(ctx, "")
		s.clock.Advance(time.Second)
		dies := begin(t, s.sessions)
		if why == "expired" {
			s.clock.Advance(33*time.Minute + 30*time.Second) // another server may still know it
		} else {
			bad := "s:" + s.get(dies).ID
			s.store.onCalls(func(op, key string) error {
				if op == "read" && key == bad {
					return &slidingttl.InvalidError{Field: "record", Value: "text", Rule: "must decode"}
				}
				return nil
			})
		}
		third := begin(t, s.sessions)
		for _, token := range []string{lives, third} {
			if got := user(t, s.sessions, token); got != "ann" {
				t.Errorf("%s: a token opens the session of %q", why, got)
			}
		}
	}
}

// TestLoginEndsThoseBeyondTheCapFirst: a session is past its absolute timeout by the policy of this
// release, though its stored expiry is not. A login beyond the bound ends it and not a live one.
func TestLoginEndsThoseBeyondTheCapFirst(t *testing.T) {
	const day = 24 * hours
	s := newSite(t, &session.Options{Policy: slidingttl.Policy{IdleGrace: 20 * day, MaxLifetime: 30 * day}})
	ctx := s.visit("")
	if err := s.sessions.Login(ctx, session.Login{User: "ann", Remember: true}, nil); err != nil {
		t.Fatal(err)
	}
	remembered := s.leave(ctx, "")
	s.clock.Advance(hours)
	s.login("", "ann")
	s.clock.Advance(2 * day)
	shorter, err := session.New[Data](s.driver, &session.Options{MaxPerUser: 2, Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer shorter.Close(context.Background())
	begin(t, shorter)
	if user(t, shorter, remembered) != "ann" {
		t.Error("the only live session was ended")
	}
}

// batch is a store whose read of many keys fails for one of them, once.
type batch struct {
	*remote
	fail   string
	failed int
}

func (d *batch) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[session.Record], error) {
	found := map[string]driver.Entry[session.Record]{}
	var failed driver.KeyErrors
	for i, k := range keys {
		if k == d.fail {
			d.fail, d.failed = "", d.failed+1
			failed = append(failed, &driver.KeyError{Index: i, Err: errDown})
		} else if e, err := d.Get(ctx, k); err == nil {
			found[k] = e
		}
	}
	return found, failed.Err()
}

// TestLoginEndsNoUnreadSession: a session that could not be read is not taken for dead. The login after
// the failure ends the sessions over the bound, those first that began first.
func TestLoginEndsNoUnreadSession(t *testing.T) {
	kept, err := memory.New[[]byte](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	d, clock := &batch{remote: &remote{kept}}, newClock()
	var survived []error
	m, err := session.New[Data](d, &session.Options{MaxPerUser: 3, Now: clock.Now, OnError: func(_ context.Context, err error) { survived = append(survived, err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	var tokens []string
	login := func() {
		tokens = append(tokens, begin(t, m))
		clock.Advance(time.Minute)
	}
	live := func(want ...string) {
		t.Helper()
		for i, token := range tokens {
			if got := user(t, m, token); got != want[i] {
				t.Errorf("session %d of %d is that of %q, want %q", i, len(tokens), got, want[i])
			}
		}
	}
	for range 3 {
		login()
	}
	v, err := m.Get(m.Load(t.Context(), tokens[2]))
	if err != nil {
		t.Fatal(err)
	}
	d.fail = "s:" + v.ID
	login()
	if d.failed != 1 || len(survived) != 1 {
		t.Errorf("%d reads failed, and OnError got %v", d.failed, survived)
	}
	live("ann", "ann", "ann", "ann")
	login()
	live("", "", "ann", "ann", "ann")
}
