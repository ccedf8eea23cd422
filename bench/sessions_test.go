// Package bench sets slidingttl beside the libraries that its users would take
// instead. It is a module of its own, so that nobody else depends on them.
package bench

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	"github.com/gorilla/securecookie"
	"github.com/gorilla/sessions"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The same small session everywhere: who it is, what they look at, how often.
type data struct {
	User  string   `json:"user"`
	Cart  []string `json:"cart"`
	Count int      `json:"count"`
}

var fresh = data{User: "ann@example.com", Cart: []string{"oat milk", "bread", "two apples"}}

const (
	idleTimeout = 30 * time.Minute
	lifetime    = 12 * time.Hour
)

// rival is a session library with handlers that log in, read and write.
type rival struct {
	name   string
	site   http.Handler
	writes *atomic.Int64 // of the store
}

func rivals(tb testing.TB) []rival {
	return []rival{newSlidingTTL(tb), newSCS(tb), newGorilla(tb)}
}

// answer is the response that all read handlers give.
func answer(w http.ResponseWriter, d data) {
	_, _ = io.WriteString(w, d.User)
	_, _ = io.WriteString(w, strconv.Itoa(len(d.Cart)+d.Count))
}

func fail(tb testing.TB, err error) {
	if err != nil {
		tb.Error(err)
	}
}

// counting counts the writes that reach the driver.
type counting struct {
	*memory.Driver[session.Record]
	writes atomic.Int64
}

func (c *counting) Insert(ctx context.Context, key string, v session.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Insert(ctx, key, v, l, now)
}

func (c *counting) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Replace(ctx, key, v, was, l, now)
}

func (c *counting) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.writes.Add(1)
	return c.Driver.Touch(ctx, key, was, l, now)
}

func newSlidingTTL(tb testing.TB) rival {
	mem, err := memory.New[session.Record](nil)
	fail(tb, err)
	d := &counting{Driver: mem}
	m, err := session.New[data](d, nil)
	fail(tb, err)
	tb.Cleanup(func() {
		fail(tb, m.Close(context.Background()))
		fail(tb, mem.Close())
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		fail(tb, m.Login(r.Context(), session.Login{User: fresh.User}, func(d *data) error { *d = fresh; return nil }))
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		s, err := m.Get(r.Context())
		fail(tb, err)
		answer(w, s.Data)
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		fail(tb, m.Update(r.Context(), func(d *data) error { d.Count++; return nil }))
	})
	return rival{"slidingttl", m.Middleware(mux), &d.writes}
}

// scsStore counts the writes that reach scs's own memory store.
type scsStore struct {
	*memstore.MemStore
	writes atomic.Int64
}

func (s *scsStore) Commit(token string, b []byte, expiry time.Time) error {
	s.writes.Add(1)
	return s.MemStore.Commit(token, b, expiry)
}

func newSCS(tb testing.TB) rival {
	store := &scsStore{MemStore: memstore.New()}
	tb.Cleanup(store.StopCleanup)
	m := scs.New()
	m.Store, m.IdleTimeout, m.Lifetime = store, idleTimeout, lifetime
	m.ErrorFunc = func(_ http.ResponseWriter, _ *http.Request, err error) { fail(tb, err) }
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		fail(tb, m.RenewToken(ctx))
		m.Put(ctx, "user", fresh.User)
		m.Put(ctx, "cart", fresh.Cart)
		m.Put(ctx, "count", 0)
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		cart, _ := m.Get(ctx, "cart").([]string)
		answer(w, data{User: m.GetString(ctx, "user"), Cart: cart, Count: m.GetInt(ctx, "count")})
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		m.Put(r.Context(), "count", m.GetInt(r.Context(), "count")+1)
	})
	return rival{"scs", m.LoadAndSave(mux), &store.writes}
}

// gorillaStore is gorilla's FilesystemStore with a map for the files, of which
// gorilla has none: the cookie carries a signed id, the map the encoded values.
type gorillaStore struct {
	codecs []securecookie.Codec
	values sync.Map // id to encoded values
	writes atomic.Int64
}

func (s *gorillaStore) Get(r *http.Request, name string) (*sessions.Session, error) {
	return sessions.GetRegistry(r).Get(s, name)
}

func (s *gorillaStore) New(r *http.Request, name string) (*sessions.Session, error) {
	v := sessions.NewSession(s, name)
	v.Options = &sessions.Options{Path: "/", MaxAge: int(lifetime / time.Second)}
	v.IsNew = true
	c, err := r.Cookie(name)
	if err != nil {
		return v, nil
	}
	if err := securecookie.DecodeMulti(name, c.Value, &v.ID, s.codecs...); err != nil {
		return v, err
	}
	if encoded, ok := s.values.Load(v.ID); ok {
		v.IsNew = false
		return v, securecookie.DecodeMulti(name, encoded.(string), &v.Values, s.codecs...)
	}
	return v, nil
}

func (s *gorillaStore) Save(_ *http.Request, w http.ResponseWriter, v *sessions.Session) error {
	s.writes.Add(1)
	if v.ID == "" {
		v.ID = rand.Text()
	}
	encoded, err := securecookie.EncodeMulti(v.Name(), v.Values, s.codecs...)
	if err != nil {
		return err
	}
	s.values.Store(v.ID, encoded)
	id, err := securecookie.EncodeMulti(v.Name(), v.ID, s.codecs...)
	if err != nil {
		return err
	}
	http.SetCookie(w, sessions.NewCookie(v.Name(), id, v.Options))
	return nil
}

func init() { gob.Register([]string(nil)) }

// newGorilla has neither an idle nor an absolute timeout: the library has none.
func newGorilla(tb testing.TB) rival {
	store := &gorillaStore{codecs: securecookie.CodecsFromPairs([]byte("0123456789abcdef0123456789abcdef"))}
	const name = "session"
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		fail(tb, err)
		s.Values["user"], s.Values["cart"], s.Values["count"] = fresh.User, fresh.Cart, 0
		fail(tb, s.Save(r, w))
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		fail(tb, err)
		user, _ := s.Values["user"].(string)
		cart, _ := s.Values["cart"].([]string)
		count, _ := s.Values["count"].(int)
		answer(w, data{User: user, Cart: cart, Count: count})
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		fail(tb, err)
		count, _ := s.Values["count"].(int)
		s.Values["count"] = count + 1
		fail(tb, s.Save(r, w))
	})
	return rival{"gorilla", mux, &store.writes}
}

// login returns the Cookie header of a visitor who has logged in.
func (v rival) login(tb testing.TB) string {
	tb.Helper()
	w := httptest.NewRecorder()
	v.site.ServeHTTP(w, httptest.NewRequest("GET", "/login", nil))
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		tb.Fatalf("%s: %d cookies", v.name, len(cookies))
	}
	return cookies[0].Name + "=" + cookies[0].Value
}

// visit makes a request with the Cookie header and returns the body.
func (v rival) visit(path, cookie string) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Cookie", cookie)
	v.site.ServeHTTP(w, r)
	return w.Body.String()
}

// sink is the cheapest ResponseWriter that has net/http's own WriteString.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header               { return s.header }
func (s *sink) WriteHeader(int)                   {}
func (s *sink) Write(p []byte) (int, error)       { return len(p), nil }
func (s *sink) WriteString(v string) (int, error) { return len(v), nil }

func benchmark(b *testing.B, path string) {
	for _, v := range rivals(b) {
		b.Run(v.name, func(b *testing.B) {
			cookie := v.login(b)
			w := &sink{http.Header{}}
			r := httptest.NewRequest("GET", path, nil)
			r.Header.Set("Cookie", cookie)
			before := v.writes.Load()
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				// A fresh context, as each request has: gorilla keeps its sessions there.
				v.site.ServeHTTP(w, r.WithContext(context.Background()))
			}
			b.ReportMetric(float64(v.writes.Load()-before)/float64(b.N), "writes/op")
		})
	}
}

// BenchmarkSessionRead is a request that reads the session, with an idle timeout
// where the library has one, and no touch due.
func BenchmarkSessionRead(b *testing.B) { benchmark(b, "/read") }

// BenchmarkSessionWrite is a request that changes the session.
func BenchmarkSessionWrite(b *testing.B) { benchmark(b, "/write") }

// TestRivals shows that the handlers of the benchmarks do the same.
func TestRivals(t *testing.T) {
	for _, v := range rivals(t) {
		cookie := v.login(t)
		v.visit("/write", cookie)
		v.visit("/write", cookie)
		if got := v.visit("/read", cookie); got != fresh.User+"5" {
			t.Errorf("%s: %q", v.name, got)
		}
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
			cookie := v.login(t)
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
