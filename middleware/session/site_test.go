package session_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Data is the session data of the tests.
type Data struct {
	Count int            `json:"count,omitempty"`
	Cart  []string       `json:"cart,omitempty"`
	Seen  map[string]int `json:"seen,omitempty"`
	Flash string         `json:"flash,omitempty"`
}

// clock is the time of a site, set by its test. It starts ahead of the real time, at a whole
// second, and only goes forward: the memory driver removes records by the real time, which must
// not be early by this clock.
type clock struct {
	start  time.Time
	ahead  atomic.Int64
	before func() // called before the clock moves; nil: not called
}

func newClock() *clock { return &clock{start: time.Now().Truncate(time.Second).Add(time.Second)} }

func (c *clock) Now() time.Time { return c.start.Add(time.Duration(c.ahead.Load())) }

func (c *clock) Advance(d time.Duration) {
	if c.before != nil {
		c.before()
	}
	c.ahead.Add(int64(d))
}

// remote is a store that behaves like a remote one: it keeps JSON, has a resolution of a second,
// and offers none of the memory driver's shortcuts.
type remote struct{ kept *memory.Driver[[]byte] }

func (d *remote) Resolution() time.Duration { return time.Second }

func (d *remote) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	e, err := d.kept.Get(ctx, key)
	if err != nil {
		return driver.Entry[session.Record]{}, err
	}
	r := driver.Entry[session.Record]{Meta: e.Meta}
	return r, json.Unmarshal(e.Value, &r.Value)
}

func (d *remote) Insert(ctx context.Context, key string, v session.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return d.kept.Insert(ctx, key, b, l, now)
}

func (d *remote) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return 0, err
	}
	return d.kept.Replace(ctx, key, b, was, l, now)
}

func (d *remote) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	return d.kept.Touch(ctx, key, was, l, now)
}

func (d *remote) Delete(ctx context.Context, key string) error { return d.kept.Delete(ctx, key) }

func (d *remote) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	return d.kept.Remove(ctx, key, was, now)
}

// onRemote makes newSite keep its sessions in a remote store.
var onRemote bool

// TestRemote runs the tests of what a site's visitors see on a remote store.
func TestRemote(t *testing.T) {
	onRemote = true
	defer func() { onRemote = false }()
	for name, test := range map[string]func(*testing.T){
		"Cookie":                    TestCookie,
		"Timeouts":                  TestTimeouts,
		"ReadsWriteOnlyWhenDue":     TestReadsWriteOnlyWhenDue,
		"LoadsOnce":                 TestLoadsOnce,
		"SlowReader":                TestSlowReader,
		"ConcurrentUpdatesBothWin":  TestConcurrentUpdatesBothWin,
		"ManyConcurrentUpdates":     TestManyConcurrentUpdates,
		"UpdateIsIsolated":          TestUpdateIsIsolated,
		"UnchangedDataIsNotWritten": TestUnchangedDataIsNotWritten,
		"Take":                      TestTake,
		"UpdateOfEndedSession":      TestUpdateOfEndedSession,
		"PassiveRequests":           TestPassiveRequests,
		"Refresh":                   TestRefresh,
		"Login":                     TestLogin,
		"LoginWhileWriting":         TestLoginWhileWriting,
		"LoginTwice":                TestLoginTwice,
		"LoginPolicy":               TestLoginPolicy,
		"LoginManyTimesAtOnce":      TestLoginManyTimesAtOnce,
		"LoginTwiceAndRenewal":      TestLoginTwiceAndRenewal,
		"LoginAndChangesAtOnce":     TestLoginAndChangesAtOnce,
		"UserIsText":                TestUserIsText,
		"OnErrorMayAsk":             TestOnErrorMayAsk,
		"Renew":                     TestRenew,
		"LateAfterRenewals":         TestLateAfterRenewals,
		"LateAfterTheSessionEnded":  TestLateAfterTheSessionEnded,
		"TombstoneLasts":            TestTombstoneLasts,
		"ConcurrentRenewals":        TestConcurrentRenewals,
		"UsersSessions":             TestUsersSessions,
		"IndexOutlivesSessions":     TestIndexOutlivesSessions,
		"MaxPerUser":                TestMaxPerUser,
		"ConcurrentLogins":          TestConcurrentLogins,
		"StoreDown":                 TestStoreDown,
		"FailedTouchIsSurvived":     TestFailedTouchIsSurvived,
		"CancelledRequest":          TestCancelledRequest,
		"DataThatDoesNotDecode":     TestDataThatDoesNotDecode,
		"PanicInHandler":            TestPanicInHandler,
	} {
		t.Run(name, test)
	}
}

// spy is a driver that counts its calls and can be made to fail.
type spy struct {
	driver.Driver[session.Record]
	reads, writes, touches, deletes atomic.Int64

	mu        sync.Mutex // guards the rest
	fail      error
	failTouch error
	failWrite error
	seen      map[string]session.Record  // every record ever written
	before    func(op, key string) error // called before each call, which fails with its error; nil: none
}

// onCalls calls f before each call from now on. f may call the store itself.
func (s *spy) onCalls(f func(op, key string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// called runs the hook of onCalls.
func (s *spy) called(op, key string) error {
	s.mu.Lock()
	f := s.before
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(op, key)
}

func (s *spy) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func (s *spy) failTouches(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failTouch = err
}

func (s *spy) failWrites(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failWrite = err
}

func (s *spy) failing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail
}

func (s *spy) wrote(op, key string, r session.Record) error {
	err := s.called(op, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes.Add(1)
	err = cmp.Or(err, s.fail, s.failWrite)
	if err == nil {
		s.seen[fmt.Sprint(len(s.seen), " ", key)] = r
	}
	return err
}

func (s *spy) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	s.reads.Add(1)
	if err := cmp.Or(s.called("read", key), s.failing()); err != nil {
		return driver.Entry[session.Record]{}, err
	}
	return s.Driver.Get(ctx, key)
}

// localSpy is a spy of the memory driver.
type localSpy struct {
	*spy
	memory *memory.Driver[session.Record]
}

var _ driver.Local[session.Record] = (*localSpy)(nil)

// Load implements driver.Local, by which a store reads from memory.
func (s *localSpy) Load(key string) (*session.Record, driver.Meta, *atomic.Int64, error) {
	s.reads.Add(1)
	if err := cmp.Or(s.called("read", key), s.failing()); err != nil {
		return nil, driver.Meta{}, nil, err
	}
	return s.memory.Load(key)
}

func (s *spy) Insert(ctx context.Context, key string, v session.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	if err := s.wrote("insert", key, v); err != nil {
		return 0, err
	}
	return s.Driver.Insert(ctx, key, v, l, now)
}

func (s *spy) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	if err := s.wrote("replace", key, v); err != nil {
		return 0, err
	}
	return s.Driver.Replace(ctx, key, v, was, l, now)
}

func (s *spy) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	s.touches.Add(1)
	err := s.called("touch", key)
	s.mu.Lock()
	err = cmp.Or(err, s.fail, s.failTouch)
	s.mu.Unlock()
	if err != nil {
		return 0, err
	}
	return s.Driver.Touch(ctx, key, was, l, now)
}

func (s *spy) Delete(ctx context.Context, key string) error {
	s.deletes.Add(1)
	if err := cmp.Or(s.called("delete", key), s.failing()); err != nil {
		return err
	}
	return s.Driver.Delete(ctx, key)
}

// Remove implements driver.Remover.
func (s *spy) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	s.deletes.Add(1)
	if err := cmp.Or(s.called("delete", key), s.failing()); err != nil {
		return err
	}
	return driver.Remove(ctx, s.Driver, key, was, now)
}

// put sets the data of session id, and returns the former data.
func (s *spy) put(t *testing.T, id string, data json.RawMessage) json.RawMessage {
	t.Helper()
	e, err := s.Driver.Get(t.Context(), "s:"+id)
	if err != nil {
		t.Fatal(err)
	}
	was := e.Value.Data
	e.Value.Data = data
	if _, err := s.Driver.Replace(t.Context(), "s:"+id, e.Value, e.Meta, e.Life, 0); err != nil {
		t.Fatal(err)
	}
	return was
}

// calls returns the number of calls of the store.
func (s *spy) calls() int64 {
	return s.reads.Load() + s.writes.Load() + s.touches.Load() + s.deletes.Load()
}

// site is a server with sessions on a real loopback connection.
type site struct {
	t        *testing.T
	sessions *session.Manager[Data]
	driver   driver.Driver[session.Record] // the store with its capabilities
	store    *spy
	clock    *clock
	mux      *http.ServeMux
	server   *httptest.Server
}

func newSite(t *testing.T, opts *session.Options) *site {
	t.Helper()
	s := &site{t: t, store: &spy{seen: map[string]session.Record{}}, clock: newClock(), mux: http.NewServeMux()}
	var closeMemory func() error
	if onRemote {
		d, err := memory.New[[]byte](nil)
		if err != nil {
			t.Fatal(err)
		}
		closeMemory = d.Close
		s.store.Driver = &remote{d}
		s.driver = s.store
	} else {
		d, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		closeMemory = d.Close
		s.store.Driver = d
		s.driver = &localSpy{s.store, d}
	}
	var o session.Options
	if opts != nil {
		o = *opts
	}
	o.Now = s.clock.Now
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	var err error
	if s.sessions, err = session.New[Data](s.driver, &o); err != nil {
		t.Fatal(err)
	}
	s.clock.before = s.waitForTouches
	s.server = httptest.NewUnstartedServer(s.sessions.Middleware(s.mux))
	s.server.EnableHTTP2 = true
	s.server.Config.ErrorLog = log.New(t.Output(), "", 0)
	s.server.StartTLS()
	t.Cleanup(func() {
		s.server.Close()
		if err := s.sessions.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
		if err := closeMemory(); err != nil {
			t.Errorf("Close of the driver: %v", err)
		}
	})
	s.routes()
	return s
}

// waitForTouches waits for the touches that requests left behind: a request waits for 100 ms
// of real time for its touch, and then continues.
func (s *site) waitForTouches() {
	for {
		n := s.sessions.Stats()
		if n.Due+n.Retried <= n.Touched+n.Shared+n.TouchLost+n.Deferred+n.TouchFails+n.Shed+uint64(n.Pending) {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// routes are the handlers that most tests need.
func (s *site) routes() {
	handle := func(path string, f func(ctx context.Context, r *http.Request) (string, error)) {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			body, err := f(r.Context(), r)
			if err != nil {
				http.Error(w, "handler: "+err.Error(), http.StatusConflict)
				return
			}
			_, _ = io.WriteString(w, body)
		})
	}
	handle("/public", func(context.Context, *http.Request) (string, error) { return "public", nil })
	handle("/get", func(ctx context.Context, _ *http.Request) (string, error) {
		v, err := s.sessions.Get(ctx)
		return fmt.Sprintf("%s/%d/%s", v.User, v.Data.Count, strings.Join(v.Data.Cart, ",")), err
	})
	handle("/id", func(ctx context.Context, _ *http.Request) (string, error) {
		v, err := s.sessions.Get(ctx)
		return v.ID, err
	})
	handle("/times", func(ctx context.Context, _ *http.Request) (string, error) {
		v, err := s.sessions.Get(ctx)
		round := func(at time.Time) time.Duration { return at.Sub(s.clock.start).Round(time.Second) }
		return fmt.Sprintf("created %v idle %v absolute %v", round(v.CreatedAt), round(v.IdleExpiry), round(v.AbsoluteExpiry)), err
	})
	handle("/count", func(ctx context.Context, _ *http.Request) (string, error) {
		return "", s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil })
	})
	handle("/add", func(ctx context.Context, r *http.Request) (string, error) {
		return "", s.sessions.Update(ctx, func(d *Data) error { d.Cart = append(d.Cart, r.FormValue("item")); return nil })
	})
	handle("/login", func(ctx context.Context, r *http.Request) (string, error) {
		return "", s.sessions.Login(ctx, session.Login{
			User: r.FormValue("user"), Label: r.FormValue("label"), Remember: r.FormValue("remember") != "",
		}, nil)
	})
	handle("/renew", func(ctx context.Context, _ *http.Request) (string, error) { return "", s.sessions.Renew(ctx) })
	handle("/logout", func(ctx context.Context, _ *http.Request) (string, error) { return "", s.sessions.Destroy(ctx) })
}

// browser is a client with a cookie jar.
type browser struct {
	s      *site
	client *http.Client
}

func (s *site) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	c := *s.server.Client()
	c.Jar = jar
	return &browser{s, &c}
}

// reply is a response with its body read.
type reply struct {
	status int
	header http.Header
	body   string
}

func (b *browser) get(path string) reply {
	b.s.t.Helper()
	req, err := http.NewRequest("GET", b.s.server.URL+path, nil)
	if err != nil {
		b.s.t.Fatal(err)
	}
	return b.do(req)
}

func (b *browser) do(req *http.Request) reply {
	b.s.t.Helper()
	res, err := b.client.Do(req)
	if err != nil {
		b.s.t.Errorf("%s: %v", req.URL.Path, err)
		return reply{}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.s.t.Errorf("%s: %v", req.URL.Path, err)
	}
	b.s.waitForTouches()
	return reply{res.StatusCode, res.Header, strings.TrimSpace(string(body))}
}

// with sends the request with this Cookie header and without the jar, like a request that was in
// flight when the jar changed.
func (b *browser) with(path, cookie string) reply {
	b.s.t.Helper()
	req, err := http.NewRequest("GET", b.s.server.URL+path, nil)
	if err != nil {
		b.s.t.Fatal(err)
	}
	req.Header.Set("Cookie", cookie)
	c := *b.client
	c.Jar = nil
	return (&browser{b.s, &c}).do(req)
}

// cookie returns the cookie that the browser would send.
func (b *browser) cookie() string {
	b.s.t.Helper()
	req, err := http.NewRequest("GET", b.s.server.URL, nil)
	if err != nil {
		b.s.t.Fatal(err)
	}
	var parts []string
	for _, c := range b.client.Jar.Cookies(req.URL) {
		parts = append(parts, c.Name+"="+c.Value)
	}
	return strings.Join(parts, "; ")
}

// want gets path and compares status 200 and body.
func (b *browser) want(path, body, why string) reply {
	b.s.t.Helper()
	got := b.get(path)
	if got.status != http.StatusOK || got.body != body {
		b.s.t.Errorf("%s: %d %q, want 200 %q: %s", path, got.status, got.body, body, why)
	}
	return got
}

// ok gets path and wants status 200.
func (b *browser) ok(path string) reply {
	b.s.t.Helper()
	got := b.get(path)
	if got.status != http.StatusOK {
		b.s.t.Errorf("%s: %d %q", path, got.status, got.body)
	}
	return got
}

// visit begins a request of a client with token, without HTTP.
func (s *site) visit(token string) context.Context { return s.sessions.Load(s.t.Context(), token) }

// leave ends a visit, and returns the token that its client has from then on.
func (s *site) leave(ctx context.Context, token string) string {
	s.t.Helper()
	next, changed, err := s.sessions.Commit(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if changed {
		return next
	}
	return token
}

// login logs user in with a request of its own, and returns the new token.
func (s *site) login(token, user string) string {
	s.t.Helper()
	ctx := s.visit(token)
	if err := s.sessions.Login(ctx, session.Login{User: user}, nil); err != nil {
		s.t.Fatal(err)
	}
	return s.leave(ctx, token)
}

// count changes the data of the request's session.
func (s *site) count(ctx context.Context) error {
	return s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil })
}

// get returns the session that token opens.
func (s *site) get(token string) session.Session[Data] {
	s.t.Helper()
	v, err := s.sessions.Get(s.visit(token))
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// live returns the live sessions in the store, with their users.
func (s *site) live() map[string]string {
	s.t.Helper()
	users := map[string]string{}
	for written := range s.store.seen {
		key := strings.Fields(written)[1]
		e, err := s.store.Driver.Get(s.t.Context(), key)
		if id, ok := strings.CutPrefix(key, "s:"); ok && err == nil && e.Value.Kind == 0 {
			users[id] = e.Value.User
		}
	}
	return users
}
