package session_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// busy is a store whose calls take turns in any order, and fail before or after their effect.
type busy struct {
	driver.Driver[session.Record]
	failing int // of a hundred writes
}

func (d *busy) turn() {
	for range rand.IntN(8) {
		runtime.Gosched()
	}
}

func (d *busy) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	d.turn()
	defer d.turn()
	return d.Driver.Get(ctx, key)
}

func (d *busy) write(f func() (driver.Version, error)) (driver.Version, error) {
	d.turn()
	defer d.turn()
	if rand.IntN(100) < d.failing {
		return 0, errDown
	}
	v, err := f()
	if err == nil && rand.IntN(100) < d.failing {
		return 0, fmt.Errorf("%w: %w", driver.ErrAmbiguous, errDown)
	}
	return v, err
}

func (d *busy) Insert(ctx context.Context, key string, r session.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	return d.write(func() (driver.Version, error) { return d.Driver.Insert(ctx, key, r, l, now) })
}

func (d *busy) Replace(ctx context.Context, key string, r session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	return d.write(func() (driver.Version, error) { return d.Driver.Replace(ctx, key, r, was, l, now) })
}

func (d *busy) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	d.turn()
	return driver.Remove(ctx, d.Driver, key, was, now)
}

// atOnce is a user whose clients make requests at the same time.
type atOnce struct {
	t        *testing.T
	managers [2]*session.Manager[Data] // two releases
	mu       sync.Mutex                // guards all
	all      []string                  // tokens that clients were given
}

// do makes a request with token and returns what the client is given: its token, unless that changed.
func (a *atOnce) do(m *session.Manager[Data], token string, f func(ctx context.Context) error) (string, error) {
	ctx := m.Load(a.t.Context(), token)
	err := f(ctx)
	if next, changed, _ := m.Commit(ctx); changed {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.all = append(a.all, next)
		return next, err
	}
	return token, err
}

func (a *atOnce) login(m *session.Manager[Data], token, user string) (string, error) {
	return a.do(m, token, func(ctx context.Context) error { return m.Login(ctx, session.Login{User: user}, nil) })
}

// live returns the IDs of ann's sessions that the tokens given so far open.
func (a *atOnce) live() map[string]bool {
	ids := map[string]bool{}
	for _, token := range a.all {
		if v, err := a.managers[1].Get(a.managers[1].Load(a.t.Context(), token)); err != nil {
			a.t.Fatal(err)
		} else if v.User == "ann" {
			ids[v.ID] = true
		}
	}
	return ids
}

// TestAllAtOnce makes logins, one of them submitted twice, renewals, changes, logouts and a RevokeAll at once, in two releases
// over a store that fails. No token from before a RevokeAll that returned nil opens a session, each session that
// a token opens is listed, and a login that succeeded is one until another call ends its session.
func TestAllAtOnce(t *testing.T) {
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for round := 0; round < 600 && !t.Failed(); round++ {
		store := &busy{Driver: d}
		most := 1 + rand.IntN(4)
		alone := round%2 == 0 // the logins that are submitted twice
		if alone {
			most = 4
		}
		a := &atOnce{t: t}
		for i, idle := range []time.Duration{30 * time.Minute, 2 * time.Hour} {
			p := slidingttl.Policy{IdleGrace: idle, MaxLifetime: 10 * idle}
			if a.managers[i], err = session.New[Data](store, &session.Options{Policy: p, MaxPerUser: most, OnError: func(context.Context, error) {}}); err != nil {
				t.Fatal(err)
			}
		}
		renews, ends, twice := "", "", ""
		for _, token := range []*string{&renews, &ends, &twice} {
			if *token, err = a.login(a.managers[0], "", "ann"); err != nil {
				t.Fatal(err)
			}
		}
		before := a.all
		if store.failing = []int{0, 5, 30}[rand.IntN(3)]; alone {
			store.failing = 20
		}
		var wg sync.WaitGroup
		maybe := func(percent int, f func(m *session.Manager[Data])) bool {
			m := a.managers[rand.IntN(2)]
			if rand.IntN(100) >= percent || alone && percent < 80 {
				return false
			}
			wg.Go(func() { f(m) })
			return true
		}
		// Where the first submission fails, the others may begin a session each.
		revoked, ended := false, store.failing > 0 && most < 3
		ended = maybe(30, func(m *session.Manager[Data]) { revoked = m.RevokeAll(t.Context(), "ann") == nil }) || ended
		ended = maybe(20, func(m *session.Manager[Data]) { _, _ = a.login(m, twice, "bob") }) || ended
		ended = maybe(30, func(m *session.Manager[Data]) { _, _ = a.login(m, "", "ann") }) || ended // which may evict
		maybe(50, func(m *session.Manager[Data]) { _, _ = a.do(m, renews, m.Renew) })
		maybe(30, func(m *session.Manager[Data]) { _, _ = a.do(m, ends, m.Destroy) })
		maybe(50, func(m *session.Manager[Data]) {
			_, _ = a.do(m, twice, func(ctx context.Context) error {
				return m.Update(ctx, func(d *Data) error { d.Count++; return nil })
			})
		})
		var logins [3]string
		for i := range logins {
			maybe(80, func(m *session.Manager[Data]) {
				if token, err := a.login(m, twice, "ann"); err == nil {
					logins[i] = token
				}
			})
		}
		wg.Wait()
		store.failing = 0
		for i, token := range logins {
			if v, err := a.managers[1].Get(a.managers[1].Load(t.Context(), token)); err != nil || token != "" && !ended && v.User != "ann" {
				t.Errorf("round %d: the token of submission %d opens the session of %q, %v", round, i, v.User, err)
			}
		}
		list, err := a.managers[1].List(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		unlisted := a.live()
		for _, s := range list {
			delete(unlisted, s.ID)
		}
		if len(unlisted) > 0 {
			t.Errorf("round %d: %d sessions live that are not listed", round, len(unlisted))
		}
		all := a.all
		if a.all = before; revoked && len(a.live()) > 0 {
			t.Errorf("round %d: a token from before RevokeAll opens a session", round)
		}
		a.all = all
		for _, user := range []string{"ann", "bob"} {
			if err := a.managers[0].RevokeAll(t.Context(), user); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(a.live()); n > 0 {
			t.Errorf("round %d: %d sessions live after RevokeAll", round, n)
		}
		for _, m := range a.managers {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
}
