package sessions

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// TestRivals shows that the handlers of the benchmarks do the same.
func TestRivals(t *testing.T) {
	for _, r := range rivals {
		var c checks
		v := r.open(&c)
		cookie := login(t, v)
		v.visit("/write", cookie)
		v.visit("/write", cookie)
		if got := v.visit("/read", cookie); got != fresh.User+"5" {
			t.Errorf("%s: %q", v.name, got)
		}
		c.close()
		if err := c.err(); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}

func login(t *testing.T, v rival) string {
	t.Helper()
	cookie, err := v.login()
	fail(t, err)
	return cookie
}

func fail(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

// TestSlowReader holds a request that only reads while others change and then
// destroy its session. With an idle timeout, scs saves what the slow request read.
func TestSlowReader(t *testing.T) {
	for _, tt := range []struct {
		name             string
		make             func(reading, finish chan struct{}) rival
		keeps, destroyed bool // another's write; the session
	}{
		{"slidingttl", slowSlidingTTL(t), true, true},
		{"scs", slowSCS(t), false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reading, finish := make(chan struct{}), make(chan struct{})
			v := tt.make(reading, finish)
			cookie := login(t, v)
			slowly := func(path string) {
				var wg sync.WaitGroup
				wg.Go(func() { v.visit("/slow", cookie) })
				<-reading
				v.visit(path, cookie)
				finish <- struct{}{}
				wg.Wait()
			}
			slowly("/write")
			if keeps := v.visit("/read", cookie) == "1"; keeps != tt.keeps {
				t.Errorf("another's write survives a slow read: %v, expected %v", keeps, tt.keeps)
			}
			slowly("/logout")
			if destroyed := v.visit("/user", cookie) == ""; destroyed != tt.destroyed {
				t.Errorf("a destroyed session stays destroyed: %v, expected %v", destroyed, tt.destroyed)
			}
		})
	}
}

func slowSlidingTTL(t *testing.T) func(reading, finish chan struct{}) rival {
	return func(reading, finish chan struct{}) rival {
		mem, err := memory.New[session.Record](nil)
		fail(t, err)
		m, err := session.New[data](mem, nil)
		fail(t, err)
		t.Cleanup(func() {
			fail(t, m.Close(context.Background()))
			fail(t, mem.Close())
		})
		get := func(r *http.Request) session.Session[data] {
			s, err := m.Get(r.Context())
			fail(t, err)
			return s
		}
		return slow("slidingttl", m.Middleware, reading, finish, slowHandlers{
			login:  func(r *http.Request) { fail(t, m.Login(r.Context(), session.Login{User: "ann"}, nil)) },
			write:  func(r *http.Request) { fail(t, m.Update(r.Context(), func(d *data) error { d.Count++; return nil })) },
			logout: func(r *http.Request) { fail(t, m.Destroy(r.Context())) },
			user:   func(r *http.Request) string { return get(r).User },
			count:  func(r *http.Request) int { return get(r).Data.Count },
		})
	}
}

func slowSCS(t *testing.T) func(reading, finish chan struct{}) rival {
	return func(reading, finish chan struct{}) rival {
		store := memstore.NewWithCleanupInterval(0)
		m := scs.New()
		m.Store, m.IdleTimeout, m.Lifetime = store, idleTimeout, lifetime
		return slow("scs", m.LoadAndSave, reading, finish, slowHandlers{
			login:  func(r *http.Request) { m.Put(r.Context(), "user", "ann") },
			write:  func(r *http.Request) { m.Put(r.Context(), "count", m.GetInt(r.Context(), "count")+1) },
			logout: func(r *http.Request) { fail(t, m.Destroy(r.Context())) },
			user:   func(r *http.Request) string { return m.GetString(r.Context(), "user") },
			count:  func(r *http.Request) int { return m.GetInt(r.Context(), "count") },
		})
	}
}

type slowHandlers struct {
	login, write, logout func(*http.Request)
	user                 func(*http.Request) string
	count                func(*http.Request) int
}

func slow(name string, middleware func(http.Handler) http.Handler, reading, finish chan struct{}, h slowHandlers) rival {
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(_ http.ResponseWriter, r *http.Request) { h.login(r) })
	mux.HandleFunc("/write", func(_ http.ResponseWriter, r *http.Request) { h.write(r) })
	mux.HandleFunc("/logout", func(_ http.ResponseWriter, r *http.Request) { h.logout(r) })
	mux.HandleFunc("/user", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, h.user(r)) })
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strconv.Itoa(h.count(r))) })
	mux.HandleFunc("/slow", func(_ http.ResponseWriter, r *http.Request) {
		_ = h.user(r)
		reading <- struct{}{}
		<-finish
	})
	return rival{name: name, site: middleware(mux)}
}
