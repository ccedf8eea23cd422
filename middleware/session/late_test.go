package session_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/middleware/session"
)

// upload is a request that asks for its session some time after it arrived.
type upload struct {
	finish chan struct{}
	done   sync.WaitGroup
	reply  reply
}

// uploads gives the site a handler for uploads and returns what begins one.
func (s *site) uploads() (begin func(b *browser, cookie string) *upload) {
	arrived, finish := make(chan struct{}), make(chan chan struct{})
	s.mux.HandleFunc("/upload", func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-<-finish
		ctx := r.Context()
		err := s.sessions.Update(ctx, func(d *Data) error { d.Cart = append(d.Cart, "upload"); return nil })
		v, _ := s.sessions.Get(ctx)
		fmt.Fprintf(w, "%s %v", v.User, err)
	})
	return func(b *browser, cookie string) *upload {
		u := &upload{finish: make(chan struct{})}
		u.done.Go(func() { u.reply = b.with("/upload", cookie) })
		<-arrived
		finish <- u.finish
		return u
	}
}

// end lets the upload ask, and returns its answer.
func (u *upload) end() reply {
	close(u.finish)
	u.done.Wait()
	return u.reply
}

func TestLateAfterRenewals(t *testing.T) {
	for _, renewals := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(renewals), func(t *testing.T) {
			s := newSite(t, &session.Options{OnReplay: func(context.Context, session.Info) { t.Error("reported as a replay") }})
			begin := s.uploads()
			b := s.browser()
			b.ok("/login?user=ann")
			u := begin(b, b.cookie())
			for range renewals {
				s.clock.Advance(time.Minute)
				b.ok("/renew")
			}
			s.clock.Advance(11 * time.Second)
			r := u.end()
			if r.body != "ann <nil>" || r.header.Get("Set-Cookie") != "" {
				t.Errorf("an upload that arrived before the renewal: %q, Set-Cookie %q", r.body, r.header.Get("Set-Cookie"))
			}
			b.want("/get", "ann/0/upload", "its write is in the session it came for")
		})
	}
}

// TestLateAfterMoreRenewalsThanKept: if a token is renewed more often than a record remembers,
// the write is refused, and the user stays logged in.
func TestLateAfterMoreRenewalsThanKept(t *testing.T) {
	s := newSite(t, &session.Options{OnReplay: func(context.Context, session.Info) { t.Error("reported as a replay") }})
	begin := s.uploads()
	b := s.browser()
	b.ok("/login?user=ann")
	u := begin(b, b.cookie())
	for range 40 {
		s.clock.Advance(time.Second)
		b.ok("/renew")
	}
	if r := u.end(); r.body != session.ErrEnded.Error() || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%q, Set-Cookie %q", r.body, r.header.Get("Set-Cookie"))
	}
	b.want("/get", "ann/0/", "still logged in")
}

func TestLateAfterTheSessionEnded(t *testing.T) {
	for name, change := range map[string]func(s *site, b *browser){
		"login as another": func(_ *site, b *browser) { b.ok("/login?user=bob") },
		"login again":      func(_ *site, b *browser) { b.ok("/login?user=ann") },
		"logout and login": func(_ *site, b *browser) { b.ok("/logout"); b.ok("/login?user=bob") },
		"revoked and login": func(s *site, b *browser) {
			if err := s.sessions.Revoke(context.Background(), "ann", b.ok("/id").body); err != nil {
				s.t.Error(err)
			}
			b.ok("/login?user=bob")
		},
		"all revoked and login": func(s *site, b *browser) {
			if err := s.sessions.RevokeAll(context.Background(), "ann"); err != nil {
				s.t.Error(err)
			}
			b.ok("/login?user=bob")
		},
		"evicted and login": func(s *site, b *browser) {
			s.clock.Advance(time.Second)
			s.browser().ok("/login?user=ann")
			b.ok("/login?user=bob")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, &session.Options{MaxPerUser: 1})
			begin := s.uploads()
			b := s.browser()
			b.ok("/login?user=ann")
			u := begin(b, b.cookie())
			change(s, b)
			after := b.cookie()
			s.clock.Advance(59 * time.Minute)
			if name != "login again" {
				b.ok("/get")
			}
			r := u.end()
			if r.body != session.ErrEnded.Error() || r.header.Get("Set-Cookie") != "" {
				t.Errorf("an upload for the session that ended: %q, Set-Cookie %q", r.body, r.header.Get("Set-Cookie"))
			}
			if b.cookie() != after {
				t.Error("the cookie of the login was replaced")
			}
		})
	}
}

// TestLateAfterTheTimeouts: the session expires during the upload. The user may have logged in
// again since, at an unknown time.
func TestLateAfterTheTimeouts(t *testing.T) {
	s := newSite(t, nil)
	begin := s.uploads()
	b := s.browser()
	b.ok("/login?user=ann")
	u := begin(b, b.cookie())
	s.clock.Advance(40 * time.Minute)
	b.ok("/login?user=ann")
	if r := u.end(); r.body != session.ErrEnded.Error() || r.header.Get("Set-Cookie") != "" {
		t.Errorf("%q, Set-Cookie %q", r.body, r.header.Get("Set-Cookie"))
	}
	b.want("/get", "ann/0/", "still logged in")
}

// TestTombstoneLasts: the mark of an ended session is gone after MaxRequest and the minute that
// the store allows for clocks that differ, wherever the session's own cap was.
func TestTombstoneLasts(t *testing.T) {
	for _, age := range []time.Duration{0, 11*time.Hour + 59*time.Minute} {
		s := newSite(t, &session.Options{MaxRequest: 20 * time.Minute})
		b := s.browser()
		b.ok("/login?user=ann")
		key := "s:" + b.ok("/id").body
		for left := age; left > 0; left -= 25 * time.Minute {
			s.clock.Advance(min(left, 25*time.Minute))
			b.want("/get", "ann/0/", "busy")
		}
		b.ok("/logout")
		e, err := s.store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if left := e.ExpiresAt.Time().Sub(s.clock.Now()).Round(time.Second); left < 20*time.Minute || left > 21*time.Minute {
			t.Errorf("ended %v after the login: remembered for %v", age, left)
		}
		if e.Value.User != "" || e.Value.Data != nil || e.Value.Token != nil {
			t.Errorf("an ended session keeps %+v", e.Value)
		}
	}
}

// TestReplayUnderKeepAlive: the middleware itself reads a token that was renewed.
func TestReplayUnderKeepAlive(t *testing.T) {
	replays := 0
	s := newSite(t, &session.Options{KeepAlive: true, OnReplay: func(context.Context, session.Info) { replays++ }})
	b := s.browser()
	b.ok("/login?user=ann")
	old := b.cookie()
	b.ok("/renew")
	s.clock.Advance(time.Minute)
	if b.with("/public", old); replays != 1 {
		t.Errorf("OnReplay was told %d times", replays)
	}
	b.want("/get", "ann/0/", "the session is not harmed")
}

// TestFormerTokensAreForgotten: the tokens that a record remembers are bounded in number, and by
// the time of the longest request.
func TestFormerTokensAreForgotten(t *testing.T) {
	s := newSite(t, &session.Options{MaxRequest: 20 * time.Minute})
	b := s.browser()
	b.ok("/login?user=ann")
	key := "s:" + b.ok("/id").body
	renew := func(after time.Duration) int {
		s.clock.Advance(after)
		b.ok("/renew")
		e, err := s.store.Driver.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return len(e.Value.Former)
	}
	const needed = 20*time.Minute + 10*time.Second // MaxRequest after the grace
	for i, tt := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {needed - time.Millisecond, 2}, {time.Millisecond, 2}, {needed, 1}} {
		if n := renew(tt.after); n != tt.want {
			t.Errorf("renewal %d: %d former tokens are kept, want %d", i, n, tt.want)
		}
	}
	for range 20 {
		if n := renew(time.Second); n > 8 {
			t.Fatalf("%d former tokens are kept, want 8 at most", n)
		}
	}
}
