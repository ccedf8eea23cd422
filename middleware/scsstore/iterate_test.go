package scsstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/scs/v2/memstore"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/scsstore"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// everywhere is how an scs application logs a user out everywhere. It returns how many
// sessions it saw.
func (a *app) everywhere(user string) (seen int) {
	a.t.Helper()
	err := a.sessions.Iterate(context.Background(), func(ctx context.Context) error {
		seen++
		if a.sessions.GetString(ctx, "user") != user {
			return nil
		}
		return a.sessions.Destroy(ctx)
	})
	if err != nil {
		a.t.Error(err)
	}
	return seen
}

// browser is another visitor of the application.
func (a *app) browser() *app { return &app{t: a.t, sessions: a.sessions, kept: a.kept, store: a.store} }

func TestIterate(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		if n := a.everywhere("ann"); n != 0 {
			t.Errorf("%d sessions in an empty store", n)
		}
		idle, short, phone, bob := a.browser(), a.browser(), a.browser(), a.browser()
		idle.put("user", "ann")
		time.Sleep(10 * time.Minute)
		short.do(func(ctx context.Context) {
			a.sessions.Put(ctx, "user", "ann")
			a.sessions.SetDeadline(ctx, time.Now().Add(25*time.Minute))
		})
		time.Sleep(25 * time.Minute)
		for _, b := range []*app{a, phone} {
			b.put("user", "ann")
		}
		bob.put("user", "bob")
		if _, err := a.store.Insert(t.Context(), "other", scsstore.Record{Until: driver.MaxInstant}, driver.Life{
			CreatedAt: driver.Floor(time.Now()), ExpiresAt: driver.MaxInstant,
		}, driver.Floor(time.Now())); err != nil {
			t.Fatal(err)
		}

		touches := a.store.touches.Load()
		if n := a.everywhere("ann"); n != 3 {
			t.Errorf("%d sessions, want the 3 that live", n)
		}
		if a.store.touches.Load() != touches {
			t.Error("sessions were touched")
		}
		a.want("user", "", "logged out everywhere")
		phone.want("user", "", "logged out everywhere")
		bob.want("user", "bob", "somebody else")
		if n := a.everywhere("ann"); n != 1 {
			t.Errorf("%d sessions, want one", n)
		}

		var token string
		if err := a.sessions.Iterate(context.Background(), func(ctx context.Context) error {
			a.sessions.Put(ctx, "told", "yes")
			token = a.sessions.Token(ctx)
			_, _, err := a.sessions.Commit(ctx)
			return err
		}); err != nil {
			t.Error(err)
		}
		bob.want("told", "yes", "changed by Iterate")
		thief := a.browser()
		thief.cookie = "session=" + token
		thief.want("user", "", "what Iterate has for a token opens nothing")
	})
}

func TestIterateOverPages(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		for i := range 2500 {
			if err := a.kept.Commit(fmt.Sprint("token", i), fmt.Append(nil, i), time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		all, err := a.kept.All()
		if err != nil || len(all) != 2500 {
			t.Fatalf("%d sessions, %v", len(all), err)
		}
		seen := map[string]bool{}
		for key, b := range all {
			if seen[string(b)] = true; !strings.HasPrefix(key, "scs:") {
				t.Fatalf("key %q", key)
			}
		}
		if len(seen) != 2500 {
			t.Errorf("%d different ones", len(seen))
		}
	})
}

// TestIterateLeavesOut: sessions that open to nobody, because they cannot be read, do not keep a user from being logged
// out everywhere. One that is not read because the store failed does: it may be that user's.
func TestIterateLeavesOut(t *testing.T) {
	former := memstore.NewWithCleanupInterval(0)
	runOver(t, former, func(t *testing.T, a *app) {
		var log bytes.Buffer
		kept, err := scsstore.New(a.store, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}, &scsstore.Options{
			Records: slidingttl.Options[scsstore.Record]{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			Former:  former,
		})
		if err != nil {
			t.Fatal(err)
		}
		defer kept.Records().Close(context.Background())
		a.kept, a.sessions.Store = kept, kept
		phone, tablet := a.browser(), a.browser()
		for _, b := range []*app{a, phone} {
			b.put("user", "ann")
		}
		tablet.onScs(former)
		if err := former.Commit("bad", []byte("no gob"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		odd := a.store.keys[0]
		a.store.unread = map[string]error{odd: &driver.InvalidError{Field: "created_at", Value: "text", Rule: "must be a time"}}
		if n := a.everywhere("ann"); n != 2 {
			t.Errorf("%d sessions, want 2", n)
		}
		phone.want("user", "", "logged out everywhere")
		tablet.want("user", "", "logged out everywhere, before it had moved")
		if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "sessions=2") ||
			!strings.Contains(text, "must be a time") || strings.Contains(text, odd) {
			t.Errorf("the log: %s", text)
		}
		down := errors.New("down")
		a.store.unread[odd] = down
		if _, err := kept.All(); !errors.Is(err, down) {
			t.Errorf("All while the store does not answer for one: %v", err)
		}
	})
}

// TestSealedElsewhere: what All has for a token is of no use to another process, and is refused there.
func TestSealedElsewhere(t *testing.T) {
	former := memstore.NewWithCleanupInterval(0)
	runOver(t, former, func(t *testing.T, a *app) {
		a.onScs(former)
		all, err := a.kept.All()
		if err != nil || len(all) != 1 {
			t.Fatalf("%d sessions, %v", len(all), err)
		}
		_, token, _ := strings.Cut(a.cookie, "=")
		other, err := scsstore.New(a.store, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}, &scsstore.Options{Former: former})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Records().Close(context.Background())
		for listed, b := range all {
			if strings.Contains(listed, token) {
				t.Error("it has the token")
			}
			for _, name := range []string{listed, "sealed:", "sealed:!"} {
				if err := other.Commit(name, b, time.Now().Add(time.Hour)); !errors.Is(err, slidingttl.ErrInvalid) {
					t.Errorf("Commit: %v", err)
				}
				if err := other.Delete(name); !errors.Is(err, slidingttl.ErrInvalid) {
					t.Errorf("Delete: %v", err)
				}
			}
		}
		a.want("user", "ann", "neither changed nor ended")
	})
}

// TestDriverThatCannotList: New refuses such a driver, so that no logout fails later.
func TestDriverThatCannotList(t *testing.T) {
	d, err := memory.New[scsstore.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	_, err = scsstore.New(struct{ driver.Driver[scsstore.Record] }{d}, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}, nil)
	var invalid *slidingttl.InvalidError
	if !errors.As(err, &invalid) || invalid.Field != "driver" {
		t.Errorf("error %v", err)
	}
	if _, err := scsstore.New(d, slidingttl.Policy{}, nil); !errors.As(err, &invalid) {
		t.Errorf("without a policy: %v", err)
	}
}

// stale is a driver whose Get may show what was deleted, and whose Latest does not.
type stale struct {
	driver.Driver[scsstore.Record]
	driver.Scanner
	seen map[string]driver.Entry[scsstore.Record]
}

func (d *stale) Get(ctx context.Context, key string) (driver.Entry[scsstore.Record], error) {
	if e, ok := d.seen[key]; ok {
		return e, nil
	}
	e, err := d.Driver.Get(ctx, key)
	if err == nil {
		d.seen[key] = e
	}
	return e, err
}

func (d *stale) Latest(ctx context.Context, key string) (driver.Entry[scsstore.Record], error) {
	return d.Driver.Get(ctx, key)
}

// TestStaleReads: a session that was destroyed must not open, whatever a replica shows.
func TestStaleReads(t *testing.T) {
	d, err := memory.New[scsstore.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := scsstore.New(&stale{Driver: d, Scanner: d, seen: map[string]driver.Entry[scsstore.Record]{}},
		slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: time.Hour}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Records().Close(context.Background())
	if err := s.Commit("token", nil, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Find("token"); !found || err != nil {
		t.Fatalf("found %v, %v", found, err)
	}
	if err := s.Delete("token"); err != nil {
		t.Fatal(err)
	}
	if _, found, err := s.Find("token"); found || err != nil {
		t.Errorf("destroyed: found %v, %v", found, err)
	}
}

// TestDestroyOfHalfMoved: a session whose move has failed half-way ends where Iterate destroys it.
func TestDestroyOfHalfMoved(t *testing.T) {
	former := &hooked{MemStore: memstore.NewWithCleanupInterval(0)}
	runOver(t, former, func(t *testing.T, a *app) {
		a.onScs(former.MemStore)
		former.delete = errors.New("down")
		_, token, _ := strings.Cut(a.cookie, "=")
		if _, found, err := a.kept.Find(token); found || err == nil {
			t.Fatalf("the move did not fail: %v, %v", found, err)
		}
		former.delete = nil
		if n := a.everywhere("ann"); n != 1 {
			t.Errorf("%d sessions, want one", n)
		}
		a.want("user", "", "logged out everywhere")
	})
}

// TestEndedDuringIterate: a session that ends while the function of Iterate has it does not come back by what that
// commits.
func TestEndedDuringIterate(t *testing.T) {
	for _, former := range []scsstore.Former{nil, memstore.NewWithCleanupInterval(0)} {
		runOver(t, former, func(t *testing.T, a *app) {
			a.put("user", "ann")
			shown := a.cookie
			err := a.sessions.Iterate(context.Background(), func(ctx context.Context) error {
				a.do(func(ctx context.Context) { _ = a.sessions.Destroy(ctx) })
				a.sessions.Put(ctx, "notice", "new terms")
				_, _, err := a.sessions.Commit(ctx)
				return err
			})
			if !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Iterate: %v", err)
			}
			a.browserWith(shown).want("user", "", "destroyed")
		})
	}
}

// TestLongContext: sessions that are found by a context which lasts, as a worker's, are not kept in memory.
func TestLongContext(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.put("user", "ann")
		_, token, _ := strings.Cut(a.cookie, "=")
		bare := 0.0
		for known, ctx := range []context.Context{context.Background(), context.WithValue(context.Background(), http.ServerContextKey, &http.Server{})} {
			ctx, end := context.WithCancel(ctx)
			n := testing.AllocsPerRun(100, func() { _, _, _ = a.kept.FindCtx(ctx, token) })
			if known == 0 {
				bare = n
			}
			if n > bare || a.kept.Requests() != known {
				t.Errorf("%v allocations a Find, %v of a context that is not noted; %d requests are known", n, bare, a.kept.Requests())
			}
			end()
			synctest.Wait()
		}
		if n := a.kept.Requests(); n != 0 {
			t.Errorf("%d requests are known at the end", n)
		}
	})
}
