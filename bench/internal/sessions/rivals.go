package sessions

import (
	"context"
	"crypto/rand"
	"encoding/gob"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
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

// rivals are the libraries.
var rivals = []struct {
	name string
	open func(*checks) rival
}{
	{own, newSlidingTTL},
	{scsName, newSCS},
	{gorillaName, newGorilla},
}

const (
	own         = "slidingttl"
	scsName     = "scs"
	gorillaName = "gorilla, no timeouts"
)

// answer is the response that all read handlers give.
func answer(w http.ResponseWriter, d data) {
	_, _ = io.WriteString(w, d.User)
	_, _ = io.WriteString(w, strconv.Itoa(len(d.Cart)+d.Count))
}

// checks collects the first of what goes wrong in handlers, which cannot return it.
type checks struct {
	mu       sync.Mutex // guards the rest
	failed   error
	cleanups []func()
}

func (c *checks) check(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
}

func (c *checks) err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *checks) cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

func (c *checks) close() {
	for _, f := range c.cleanups {
		f()
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

func newSlidingTTL(c *checks) rival {
	mem, err := memory.New[session.Record](nil)
	c.check(err)
	d := &counting{Driver: mem}
	m, err := session.New[data](d, nil)
	c.check(err)
	c.cleanup(func() {
		c.check(m.Close(context.Background()))
		c.check(mem.Close())
	})
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		c.check(m.Login(r.Context(), session.Login{User: fresh.User}, func(d *data) error { *d = fresh; return nil }))
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		s, err := m.Get(r.Context())
		c.check(err)
		answer(w, s.Data)
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		c.check(m.Update(r.Context(), func(d *data) error { d.Count++; return nil }))
	})
	return rival{own, m.Middleware(mux), &d.writes}
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

func newSCS(c *checks) rival {
	store := &scsStore{MemStore: memstore.New()}
	c.cleanup(store.StopCleanup)
	m := scs.New()
	m.Store, m.IdleTimeout, m.Lifetime = store, idleTimeout, lifetime
	m.ErrorFunc = func(_ http.ResponseWriter, _ *http.Request, err error) { c.check(err) }
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		c.check(m.RenewToken(ctx))
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
	return rival{scsName, m.LoadAndSave(mux), &store.writes}
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
func newGorilla(c *checks) rival {
	store := &gorillaStore{codecs: securecookie.CodecsFromPairs([]byte("0123456789abcdef0123456789abcdef"))}
	const name = "session"
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		c.check(err)
		s.Values["user"], s.Values["cart"], s.Values["count"] = fresh.User, fresh.Cart, 0
		c.check(s.Save(r, w))
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		c.check(err)
		user, _ := s.Values["user"].(string)
		cart, _ := s.Values["cart"].([]string)
		count, _ := s.Values["count"].(int)
		answer(w, data{User: user, Cart: cart, Count: count})
	})
	mux.HandleFunc("/write", func(w http.ResponseWriter, r *http.Request) {
		s, err := store.Get(r, name)
		c.check(err)
		count, _ := s.Values["count"].(int)
		s.Values["count"] = count + 1
		c.check(s.Save(r, w))
	})
	return rival{gorillaName, mux, &store.writes}
}

// login returns the Cookie header of a visitor who has logged in.
func (v rival) login() (string, error) {
	w := httptest.NewRecorder()
	v.site.ServeHTTP(w, httptest.NewRequest("GET", "/login", nil))
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		return "", fmt.Errorf("%s: %d cookies", v.name, len(cookies))
	}
	return cookies[0].Name + "=" + cookies[0].Value, nil
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
