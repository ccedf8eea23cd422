package scsstore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/scsstore"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	_ scs.CtxStore         = (*scsstore.Store)(nil)
	_ scs.IterableStore    = (*scsstore.Store)(nil)
	_ scs.IterableCtxStore = (*scsstore.Store)(nil)
)

// counted is a driver whose writes are counted, and which can be down.
type counted struct {
	driver.Driver[scsstore.Record]
	driver.Scanner
	writes, touches atomic.Int64
	down            atomic.Bool
	keys            []string
	fault           func(call func() error) error // makes each write; nil: they are just made
	unread          map[string]error              // what a read of a key fails with
}

func (c *counted) Get(ctx context.Context, key string) (driver.Entry[scsstore.Record], error) {
	if c.down.Load() {
		return driver.Entry[scsstore.Record]{}, errors.New("down")
	}
	if err := c.unread[key]; err != nil {
		return driver.Entry[scsstore.Record]{}, err
	}
	return c.Driver.Get(ctx, key)
}

func (c *counted) Insert(ctx context.Context, key string, v scsstore.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	c.keys = append(c.keys, key)
	return c.write(func() (driver.Version, error) { return c.Driver.Insert(ctx, key, v, l, now) })
}

func (c *counted) Replace(ctx context.Context, key string, v scsstore.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.write(func() (driver.Version, error) { return c.Driver.Replace(ctx, key, v, was, l, now) })
}

func (c *counted) write(f func() (driver.Version, error)) (v driver.Version, err error) {
	if c.fault == nil {
		return f()
	}
	err = c.fault(func() (err error) {
		v, err = f()
		return err
	})
	return v, err
}

// Remove implements driver.Remover.
func (c *counted) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	return driver.Remove(ctx, c.Driver, key, was, now)
}

func (c *counted) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.touches.Add(1)
	return c.Driver.Touch(ctx, key, was, l, now)
}

// app is an scs application, and a browser of it.
type app struct {
	t        *testing.T
	sessions *scs.SessionManager
	kept     *scsstore.Store
	store    *counted
	cookie   string
}

// run runs an application on virtual time.
func run(t *testing.T, test func(t *testing.T, a *app)) { runOver(t, nil, test) }

// runOver is run for an application that moves from a store of scs; nil: it does not move.
func runOver(t *testing.T, former scsstore.Former, test func(t *testing.T, a *app)) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[scsstore.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &app{t: t, store: &counted{Driver: d, Scanner: d}}
		a.kept, err = scsstore.New(a.store, slidingttl.Policy{
			IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute,
		}, &scsstore.Options{Former: former})
		if err != nil {
			t.Fatal(err)
		}
		a.sessions = manager(a.kept)
		test(t, a)
		if err := a.kept.Records().Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// manager is one of scs over a store.
func manager(over scs.Store) *scs.SessionManager {
	m := scs.New()
	synctest.Wait() // until scs's own store has begun its clean-up, which ends here
	m.Store.(*memstore.MemStore).StopCleanup()
	m.Store = over
	return m
}

// do runs f in a request's handler and keeps the cookie.
func (a *app) do(f func(ctx context.Context)) int {
	ctx, end := context.WithCancel(context.WithValue(context.Background(), http.ServerContextKey, &http.Server{})) // as net/http ends it
	defer func() {
		end()
		synctest.Wait()
	}()
	r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
	r.Header.Set("Cookie", a.cookie)
	w := httptest.NewRecorder()
	a.sessions.LoadAndSave(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { f(r.Context()) })).ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		a.cookie = c.Name + "=" + c.Value
	}
	return w.Code
}

func (a *app) put(key string, value any) {
	a.do(func(ctx context.Context) { a.sessions.Put(ctx, key, value) })
}

func (a *app) want(key, value, why string) {
	a.t.Helper()
	a.do(func(ctx context.Context) {
		if got := a.sessions.GetString(ctx, key); got != value {
			a.t.Errorf("%s is %q, want %q: %s", key, got, value, why)
		}
	})
}

func TestReadsCostNoWrite(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.put("user", "ann")
		for range 100 {
			time.Sleep(time.Second)
			a.want("user", "ann", "live")
		}
		if w, n := a.store.writes.Load(), a.store.touches.Load(); w != 1 || n != 0 {
			t.Errorf("%d writes and %d touches for one change and a hundred reads", w, n)
		}
		for range 20 {
			time.Sleep(29 * time.Minute)
			a.want("user", "ann", "busy")
		}
		if n := a.store.touches.Load(); n != 20 {
			t.Errorf("%d touches, want 20", n)
		}
	})
}

func TestTimeouts(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.put("user", "ann")
		time.Sleep(34 * time.Minute)
		a.want("user", "", "idle")

		a.put("user", "ann")
		for range 24 {
			time.Sleep(29 * time.Minute)
			a.want("user", "ann", "busy")
			a.put("seen", fmt.Sprint(time.Now()))
		}
		time.Sleep(25 * time.Minute)
		a.want("user", "", "older than the policy's cap, though changed all the time")
	})
}

// TestDeadlineOfScs: a session's deadline in scs counts if it is the earlier one.
func TestDeadlineOfScs(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.sessions.Lifetime = time.Hour
		a.put("user", "ann")
		for range 2 {
			time.Sleep(29 * time.Minute)
			a.want("user", "ann", "busy")
		}
		time.Sleep(2*time.Minute - time.Millisecond)
		a.want("user", "ann", "just before its deadline")
		time.Sleep(time.Millisecond)
		touches := a.store.touches.Load()
		a.want("user", "", "at its deadline")
		if a.store.touches.Load() != touches {
			t.Error("a session past its deadline was touched")
		}
	})
}

// TestEndedUnderWay: a request that changes a session which has ended meanwhile, by a timeout or a Destroy, does not
// bring it back.
func TestEndedUnderWay(t *testing.T) {
	for name, test := range map[string]struct {
		busy, lasts, lifetime time.Duration
		during                func(a *app)
	}{
		"cap":      {busy: 11*time.Hour + 50*time.Minute, lasts: 20 * time.Minute},
		"idle":     {lasts: 40 * time.Minute},
		"deadline": {lasts: 21 * time.Minute, lifetime: 20 * time.Minute},
		"Destroy":  {during: func(a *app) { a.do(func(ctx context.Context) { _ = a.sessions.Destroy(ctx) }) }},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, a *app) {
				if test.lifetime != 0 {
					a.sessions.Lifetime = test.lifetime
				}
				a.put("user", "ann")
				b := a.browserWith(a.cookie)
				for begun := time.Now(); time.Since(begun) < test.busy; {
					time.Sleep(10 * time.Minute)
					a.want("user", "ann", "busy")
				}
				status := b.do(func(ctx context.Context) {
					time.Sleep(test.lasts)
					if test.during != nil {
						test.during(a)
					}
					a.sessions.SetDeadline(ctx, time.Now().Add(time.Hour))
					a.sessions.Put(ctx, "upload", "done")
				})
				if status != http.StatusInternalServerError {
					t.Errorf("its request is answered %d", status)
				}
				a.browserWith(b.cookie).want("user", "", "ended")
			})
		})
	}
}

func TestRenewAndDestroy(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.put("user", "ann")
		old := a.cookie
		a.do(func(ctx context.Context) {
			if err := a.sessions.RenewToken(ctx); err != nil {
				t.Error(err)
			}
		})
		renewed := a.cookie
		a.want("user", "ann", "renewed")
		a.cookie = old
		a.want("user", "", "the token from before")
		a.cookie = renewed
		a.do(func(ctx context.Context) {
			if err := a.sessions.Destroy(ctx); err != nil {
				t.Error(err)
			}
		})
		a.cookie = renewed
		a.want("user", "", "destroyed")
		for _, key := range a.store.keys {
			for _, cookie := range []string{old, renewed} {
				if _, token, _ := strings.Cut(cookie, "="); strings.Contains(key, token) {
					t.Error("the store holds a token")
				}
			}
		}
	})
}

func TestStoreDown(t *testing.T) {
	run(t, func(t *testing.T, a *app) {
		a.put("user", "ann")
		a.store.down.Store(true)
		a.sessions.ErrorFunc = func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
		if code := a.do(func(context.Context) { t.Error("the handler ran") }); code != http.StatusBadGateway {
			t.Errorf("status %d", code)
		}
		a.store.down.Store(false)
		a.want("user", "ann", "up again")
	})
}
