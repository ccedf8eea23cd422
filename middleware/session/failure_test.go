package session_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var errDown = errors.New("secret detail of the store")

func TestStoreDown(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/careless", func(w http.ResponseWriter, r *http.Request) {
		v, _ := s.sessions.Get(r.Context())
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "300")
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "welcome %s", v.User)
		http.NewResponseController(w).Flush()
		_, _ = io.Copy(w, strings.NewReader("more"))
	})
	b := s.browser()
	b.ok("/login?user=ann")
	s.store.failWith(errDown)
	for _, path := range []string{"/careless", "/get", "/count", "/renew", "/logout", "/login?user=ann"} {
		r := b.get(path)
		if r.status != http.StatusServiceUnavailable || r.body != "Service Unavailable" {
			t.Errorf("%s: %d %q", path, r.status, r.body)
		}
		if got := r.header.Get("Content-Type") + r.header.Get("Cache-Control"); got != "text/plain; charset=utf-8no-store" {
			t.Errorf("%s: headers %v", path, r.header)
		}
		if r.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: sets a cookie", path)
		}
	}
	b.want("/public", "public", "does not need the session")
	s.browser().want("/get", "/0/", "has none")
	if r := s.browser().get("/count"); r.status != http.StatusConflict || r.header.Get("Set-Cookie") != "" {
		t.Errorf("a session that could not be written: %d %v", r.status, r.header)
	}
	s.store.failWith(nil)
	b.want("/get", "ann/0/", "the store is back")
}

func TestStoreDownAnonymous(t *testing.T) {
	var survived []error
	s := newSite(t, &session.Options{Anonymous: true, OnError: func(_ context.Context, err error) { survived = append(survived, err) }})
	b := s.browser()
	b.ok("/login?user=ann")
	s.store.failWith(errDown)
	b.want("/get", "/0/", "without a session")
	if len(survived) != 1 || !errors.Is(survived[0], errDown) {
		t.Errorf("OnError was reported %v", survived)
	}
	if r := b.get("/count"); r.status != http.StatusConflict || r.header.Get("Set-Cookie") != "" {
		t.Errorf("an update: %d %v; it must fail and begin no session", r.status, r.header)
	}
	s.store.failWith(nil)
	b.want("/get", "ann/0/", "the store is back")
}

func TestErrorHandler(t *testing.T) {
	var got error
	s := newSite(t, &session.Options{ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
		got = err
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, "sorry, ", r.URL.Path)
	}})
	said := []string{"Content-Type", "Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Location"}
	s.mux.HandleFunc("/silent", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range said {
			w.Header().Set(name, "42")
		}
		_, _ = s.sessions.Get(r.Context())
	})
	b := s.browser()
	b.ok("/count")
	s.store.failWith(errDown)
	for _, path := range []string{"/get", "/silent"} {
		r := b.get(path)
		for _, name := range said {
			if r.header.Get(name) == "42" {
				t.Errorf("%s: the handler's %s stands in another answer", path, name)
			}
		}
		if r.status != http.StatusTeapot || r.body != "sorry, "+path || r.header.Get("Retry-After") != "5" || !errors.Is(got, errDown) {
			t.Errorf("%s: %d %q, error %v", path, r.status, r.body, got)
		}
	}
	_, token, _ := strings.Cut(b.cookie(), "=")
	if strings.Contains(got.Error(), token) || strings.Contains(got.Error(), "s:") {
		t.Errorf("the error holds a key: %v", got)
	}
}

// unanswering is a store that does not answer: its client tries again for as long as the context lasts.
type unanswering struct{ driver.Driver[session.Record] }

func (unanswering) Get(ctx context.Context, _ string) (driver.Entry[session.Record], error) {
	<-ctx.Done()
	return driver.Entry[session.Record]{}, ctx.Err()
}

func (unanswering) Insert(ctx context.Context, _ string, _ session.Record, _ driver.Life, _ driver.Instant) (driver.Version, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// TestStoreDoesNotAnswer: a request without a deadline is answered though the store's client waits for ever.
func TestStoreDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var log bytes.Buffer
		m, err := session.New[Data](unanswering{d}, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, "GET", "/", nil)
		r.Header.Set("Cookie", "__Host-session="+strings.Repeat("0", 64))
		w := httptest.NewRecorder()
		begun := time.Now()
		m.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			var failed *session.Error
			if _, err := m.Get(r.Context()); !errors.As(err, &failed) {
				t.Errorf("Get: %v", err)
			}
		})).ServeHTTP(w, r)
		if took := time.Since(begun); w.Code != http.StatusServiceUnavailable || took > 10*time.Second || !strings.Contains(log.String(), "503") {
			t.Errorf("%d after %v; log %q", w.Code, took, log.String())
		}
	})
}

// TestStoreDoesNotAnswerCalls: neither does a call of a handler wait for ever.
func TestStoreDoesNotAnswerCalls(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, m *session.Manager[Data]) error{
		"Login": func(ctx context.Context, m *session.Manager[Data]) error {
			return m.Login(ctx, session.Login{User: "ann"}, nil)
		},
		"Update": func(ctx context.Context, m *session.Manager[Data]) error {
			return m.Update(ctx, func(d *Data) error { d.Count++; return nil })
		},
		"RevokeAll": func(ctx context.Context, m *session.Manager[Data]) error { return m.RevokeAll(ctx, "ann") },
		"List": func(ctx context.Context, m *session.Manager[Data]) error {
			_, err := m.List(ctx, "ann")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := memory.New[session.Record](nil)
				if err != nil {
					t.Fatal(err)
				}
				defer d.Close()
				m, err := session.New[Data](unanswering{d}, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer m.Close(context.Background())
				begun := time.Now()
				var failed *session.Error
				if err := call(m.Load(t.Context(), ""), m); !errors.As(err, &failed) || time.Since(begun) > 30*time.Second {
					t.Errorf("after %v: %v", time.Since(begun), err)
				}
			})
		})
	}
}

// deaf is a store that does not answer writes over some records, or reads of them either.
type deaf struct {
	driver.Driver[session.Record]
	silent func(key string) bool // nil: it answers all
	reads  bool
}

func (d *deaf) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	if d.reads && d.silent != nil && d.silent(key) {
		<-ctx.Done()
		return driver.Entry[session.Record]{}, ctx.Err()
	}
	return d.Driver.Get(ctx, key)
}

func (d *deaf) Replace(ctx context.Context, key string, v session.Record, m driver.Meta, l driver.Life, n driver.Instant) (driver.Version, error) {
	if d.silent == nil || !d.silent(key) {
		return d.Driver.Replace(ctx, key, v, m, l, n)
	}
	<-ctx.Done()
	return 0, ctx.Err()
}

// onDeaf gives f a manager with 32 sessions of ann, and its store.
func onDeaf(t *testing.T, f func(t *testing.T, m *session.Manager[Data], d *deaf)) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		d := &deaf{Driver: memory}
		m, err := session.New[Data](d, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		for range 32 {
			begin(t, m)
		}
		f(t, m, d)
	})
}

func all(string) bool { return true }

// TestManySessionsOfSilentStore: RevokeAll does not wait for each session of a store that does not answer.
func TestManySessionsOfSilentStore(t *testing.T) {
	onDeaf(t, func(t *testing.T, m *session.Manager[Data], d *deaf) {
		d.silent = all
		begun := time.Now()
		if err := m.RevokeAll(t.Context(), "ann"); err == nil || time.Since(begun) > 20*time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		d.silent = nil
		if err := m.RevokeAll(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
	})
}

// TestSilentSessions: RevokeAll ends all sessions but those that cannot be read or written, such as one whose row is
// locked, or those of a node that is down, also if its request has less time than a read that is silent takes.
func TestSilentSessions(t *testing.T) {
	for _, c := range []struct {
		silent int
		reads  bool
		within time.Duration
	}{{1, false, time.Hour}, {11, false, time.Hour}, {1, true, 5 * time.Second}, {11, true, 5 * time.Second}} {
		onDeaf(t, func(t *testing.T, m *session.Manager[Data], d *deaf) {
			list, err := m.List(t.Context(), "ann")
			if err != nil {
				t.Fatal(err)
			}
			d.reads, d.silent = c.reads, func(key string) bool {
				return slices.ContainsFunc(list[:c.silent], func(s session.Info) bool { return strings.HasSuffix(key, s.ID) })
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.within)
			defer cancel()
			if err := m.RevokeAll(ctx, "ann"); err == nil {
				t.Error("no error")
			}
			d.silent = nil
			if left, err := m.List(t.Context(), "ann"); len(left) != c.silent || err != nil {
				t.Errorf("%+v: %d sessions live on, %v", c, len(left), err)
			}
		})
	}
}

// oneAtATime is a store that two calls must not use at once, as a transaction.
type oneAtATime struct {
	driver.Driver[session.Record]
	used atomic.Bool
	t    *testing.T
}

func (d *oneAtATime) begin() (end func()) {
	if !d.used.CompareAndSwap(false, true) {
		d.t.Error("two calls at once")
	}
	time.Sleep(20 * time.Millisecond)
	return func() { d.used.Store(false) }
}

func (d *oneAtATime) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	defer d.begin()()
	return d.Driver.Get(ctx, key)
}

func (d *oneAtATime) Replace(ctx context.Context, key string, v session.Record, m driver.Meta, l driver.Life, n driver.Instant) (driver.Version, error) {
	defer d.begin()()
	return d.Driver.Replace(ctx, key, v, m, l, n)
}

// TestRevokeAllOneByOne: RevokeAll makes one call at a time, for its context may have a transaction, and ends all
// sessions of a store that is slow.
func TestRevokeAllOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		m, err := session.New[Data](&oneAtATime{Driver: memory, t: t}, &session.Options{MaxPerUser: 1000})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		for range 600 {
			begin(t, m)
		}
		if err := m.RevokeAll(t.Context(), "ann"); err != nil {
			t.Error(err)
		}
		if left, err := m.List(t.Context(), "ann"); len(left) != 0 || err != nil {
			t.Errorf("%d sessions live on, %v", len(left), err)
		}
	})
}

// TestSilentIndex: after a longer policy a user's index that cannot be written holds up one read in ten seconds, and
// no other user's index.
func TestSilentIndex(t *testing.T) {
	onDeaf(t, func(t *testing.T, m *session.Manager[Data], d *deaf) {
		token := begin(t, m)
		other := m.Load(t.Context(), "")
		if err := m.Login(other, session.Login{User: "bob"}, nil); err != nil {
			t.Fatal(err)
		}
		bobs, _, err := m.Commit(other)
		if err != nil {
			t.Fatal(err)
		}
		longer, err := session.New[Data](d, &session.Options{OnError: func(context.Context, error) {}, Policy: slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 24 * time.Hour, Slack: 3 * time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		defer longer.Close(context.Background())
		listed := func(token string, want time.Duration) {
			t.Helper()
			v, err := longer.Get(longer.Load(t.Context(), token))
			if err != nil {
				t.Fatal(err)
			}
			if e, err := d.Driver.Get(t.Context(), "s:"+v.ID); err != nil || e.Value.Listed != want {
				t.Errorf("the index outlasts %v of %s's session, %v; want %v", e.Value.Listed, v.User, err, want)
			}
		}
		d.silent = all // no touch is due
		begun := time.Now()
		var reads sync.WaitGroup
		for range 5 {
			reads.Go(func() { listed(token, 12*time.Hour) })
			time.Sleep(time.Second / 10)
		}
		reads.Wait()
		listed(token, 12*time.Hour)
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the reads took %v", took)
		}
		short, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if v, err := longer.Get(longer.Load(short, bobs)); err != nil || v.User != "bob" {
			t.Errorf("with a second to go: %q, %v", v.User, err)
		}
		time.Sleep(20 * time.Second)
		left, leave := context.WithCancel(t.Context())
		leave()
		_, _ = longer.Get(longer.Load(left, bobs))
		d.silent = nil
		listed(bobs, 24*time.Hour)
		listed(token, 24*time.Hour)
	})
}

// TestLogHasNoData: data may be secret, and the text of its error holds nothing of it.
func TestLogHasNoData(t *testing.T) {
	type secrets struct {
		At time.Time `json:"at"`
		N  int       `json:"n"`
	}
	for _, stored := range []string{`{"at":"secret-4711"}`, `{"n":47114711}`, `{"n":4711e999}`, `{"n":"4711"}`, `[4711]`, `"4711"`} {
		var log bytes.Buffer
		s := newSite(t, nil)
		m, err := session.New[secrets](s.driver, &session.Options{Now: s.clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		ctx := m.Load(t.Context(), s.login("", "ann"))
		v, err := m.Get(ctx)
		if err != nil {
			t.Fatal(err)
		}
		s.store.put(t, v.ID, json.RawMessage(stored))
		if _, err := m.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(log.String(), "4711") {
			t.Errorf("%s is logged: %s", stored, log.String())
		}
	}
}

// TestLinesAfterPanic: code around the middleware that answers for a panic through the middleware's own writer,
// as echo's Recover does, sends the session's lines once.
func TestLinesAfterPanic(t *testing.T) {
	s := newSite(t, nil)
	var inner http.ResponseWriter
	h := s.sessions.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner = w
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Error(err)
		}
		panic("handler")
	}))
	w := httptest.NewRecorder()
	func() {
		defer func() {
			if recover() != nil {
				inner.WriteHeader(http.StatusInternalServerError)
			}
		}()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/", nil))
	}()
	if n := w.Header().Values("Set-Cookie"); w.Code != http.StatusInternalServerError || len(n) != 1 {
		t.Errorf("%d, %d cookies", w.Code, len(n))
	}
}

func TestFailedTouchIsSurvived(t *testing.T) {
	survived := make(chan error, 2)
	s := newSite(t, &session.Options{Policy: halfHour, OnError: func(_ context.Context, err error) { survived <- err }})
	s.mux.HandleFunc("/touch-fails", func(w http.ResponseWriter, r *http.Request) {
		// The read succeeds, and its touch fails.
		s.store.failTouches(errDown)
		defer s.store.failTouches(nil)
		v, err := s.sessions.Get(r.Context())
		s.waitForTouches()
		fmt.Fprint(w, v.Data.Count, err)
	})
	b := s.browser()
	b.ok("/count")
	s.clock.Advance(time.Minute)
	b.want("/touch-fails", "1 <nil>", "the session was read")
	if err := <-survived; !errors.Is(err, errDown) || len(survived) > 0 { // the hook may be later than the request
		t.Errorf("OnError was reported %v, and %d more", err, len(survived))
	}
}

func TestCancelledRequest(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/cancelled", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		cancel()
		if _, err := s.sessions.Get(ctx); err != context.Canceled {
			t.Errorf("Get: %v", err)
		}
		v, err := s.sessions.Get(r.Context())
		fmt.Fprint(w, v.Data.Count, err)
	})
	b := s.browser()
	b.ok("/count")
	b.want("/cancelled", "1 <nil>", "a read that failed is tried again by the next call")
}

func TestOversizedData(t *testing.T) {
	s := newSite(t, &session.Options{MaxData: 100})
	var got error
	s.mux.HandleFunc("/big", func(w http.ResponseWriter, r *http.Request) {
		got = s.sessions.Update(r.Context(), func(d *Data) error { d.Flash = strings.Repeat("x", 100); return nil })
	})
	b := s.browser()
	if r := b.ok("/big"); r.header.Get("Set-Cookie") != "" || s.store.calls() != 0 {
		t.Error("data that is too large began a session")
	}
	b.ok("/count")
	b.ok("/big")
	var invalid *slidingttl.InvalidError
	if !errors.As(got, &invalid) || invalid.Field != "session data" || !strings.Contains(got.Error(), "100 bytes") {
		t.Errorf("error %v", got)
	}
	b.want("/get", "/1/", "as it was")
}

func TestDataThatDoesNotDecode(t *testing.T) {
	var survived []error
	s := newSite(t, &session.Options{OnError: func(_ context.Context, err error) { survived = append(survived, err) }})
	b := s.browser()
	b.ok("/login?user=ann")
	id := b.ok("/id").body
	s.store.put(t, id, json.RawMessage(`{"count":"many"}`))
	b.want("/get", "/0/", "no session, and no half of one")
	if len(survived) != 1 || !errors.Is(survived[0], session.ErrData) {
		t.Errorf("OnError was reported %v", survived)
	}
	b.ok("/count")
	b.want("/get", "/1/", "a new session")
}

// TestHooksMayCallBack: hooks may ask for the session that they are called for, and a predicate
// may panic.
func TestHooksMayCallBack(t *testing.T) {
	var s *site
	var reported, asked int
	back := func(ctx context.Context) {
		reported++
		if v, err := s.sessions.Get(ctx); err != nil || v.ID != "" {
			t.Errorf("from a hook: %+v, %v", v, err)
		}
	}
	s = newSite(t, &session.Options{
		OnReplay: func(ctx context.Context, _ session.Info) { back(ctx) },
		OnError:  func(ctx context.Context, _ error) { back(ctx) },
		Passive: func(r *http.Request) bool {
			if r.URL.Path == "/panics" {
				if asked++; asked == 1 {
					panic("predicate")
				}
			}
			return false
		},
	})
	s.mux.HandleFunc("/panics", func(w http.ResponseWriter, r *http.Request) {
		func() {
			defer func() { _ = recover() }()
			_, _ = s.sessions.Get(r.Context())
		}()
		v, err := s.sessions.Get(r.Context())
		fmt.Fprint(w, v.User, err)
	})
	b := s.browser()
	b.ok("/login?user=ann")
	old := b.cookie()
	b.ok("/renew")
	s.clock.Advance(time.Minute)
	if r := b.with("/get", old); r.body != "/0/" || reported != 1 {
		t.Errorf("%q, hook reported %d times", r.body, reported)
	}
	b.want("/panics", "ann<nil>", "a panic left nothing locked")
	s.store.put(t, b.ok("/id").body, json.RawMessage(`[]`))
	if b.want("/get", "/0/", "data that does not decode"); reported != 2 {
		t.Errorf("hooks reported %d times", reported)
	}
}

func TestDataThatDoesNotEncode(t *testing.T) {
	s := newSite(t, nil)
	m, err := session.New[any](s.driver, &session.Options{Cookie: "other", Now: s.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close(context.Background())
	s.mux.HandleFunc("/chan", func(w http.ResponseWriter, r *http.Request) {
		err := m.Update(r.Context(), func(v *any) error { *v = make(chan int); return nil })
		var cause *json.UnsupportedTypeError
		if !errors.Is(err, session.ErrData) || !errors.As(err, &cause) {
			t.Errorf("error %v", err)
		}
	})
	s.server.Config.Handler = m.Middleware(s.mux)
	if r := s.browser().ok("/chan"); r.header.Get("Set-Cookie") != "" {
		t.Error("sets a cookie")
	}
}

func TestHeaderSent(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/late", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		fmt.Fprint(w, "begun")
		before := s.store.writes.Load()
		for name, err := range map[string]error{
			"Login":  s.sessions.Login(ctx, session.Login{User: "u"}, nil),
			"Update": s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil }),
		} {
			if err != session.ErrHeaderSent {
				t.Errorf("%s: %v", name, err)
			}
		}
		if n := s.store.writes.Load() - before; n != 0 {
			t.Errorf("%d writes", n)
		}
	})
	s.mux.HandleFunc("/late-known", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		fmt.Fprint(w, "begun")
		if err := s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Errorf("Update needs no cookie: %v", err)
		}
		if err := s.sessions.Renew(ctx); err != session.ErrHeaderSent {
			t.Errorf("Renew: %v", err)
		}
		if err := s.sessions.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	})
	s.browser().want("/late", "begun", "")
	b := s.browser()
	b.ok("/count")
	b.want("/late-known", "begun", "")
	b.want("/get", "/0/", "destroyed, though the browser has the cookie")
}

func TestStreaming(t *testing.T) {
	s := newSite(t, nil)
	next := make(chan struct{})
	s.mux.HandleFunc("/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusEarlyHints)
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Error(err)
		}
		control := http.NewResponseController(w)
		if err := control.SetWriteDeadline(time.Time{}); err != nil {
			t.Errorf("SetWriteDeadline: %v", err)
		}
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n", i)
			if i == 1 {
				w.(http.Flusher).Flush()
			} else if err := control.Flush(); err != nil {
				t.Errorf("Flush: %v", err)
			}
			<-next
		}
	})
	b := s.browser()
	res, err := b.client.Get(s.server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("Set-Cookie") == "" {
		t.Error("the cookie did not come with the header")
	}
	lines := bufio.NewReader(res.Body)
	for i := range 3 {
		line, err := lines.ReadString('\n')
		if want := fmt.Sprintf("data: %d\n", i); line != want || err != nil {
			t.Fatalf("line %q, %v; want %q while the handler still runs", line, err, want)
		}
		next <- struct{}{}
	}
	b.want("/get", "/1/", "")
}

func TestHijack(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Error(err)
		}
		conn, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(buf, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\nSet-Cookie: %s\r\n\r\n", w.Header().Get("Set-Cookie"))
		_ = buf.Flush()
		line, err := buf.ReadString('\n')
		if err != nil {
			t.Error(err)
		}
		v, err := s.sessions.Refresh(r.Context())
		fmt.Fprintf(buf, "%d %v %s", v.Data.Count, err, line)
		_ = buf.Flush()
	})
	// Only HTTP/1.1 has upgrades.
	s.server.TLS.NextProtos = []string{"http/1.1"}
	b := s.browser()
	req, _ := http.NewRequest("GET", s.server.URL+"/upgrade", nil)
	req.Header.Set("Connection", "upgrade")
	req.Header.Set("Upgrade", "echo")
	transport := s.server.Client().Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = false
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	b.client.Transport = transport
	defer transport.CloseIdleConnections()
	res, err := b.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", res.StatusCode)
	}
	conn := res.Body.(io.ReadWriteCloser)
	defer conn.Close()
	fmt.Fprintln(conn, "hello")
	got, err := io.ReadAll(conn)
	if string(got) != "1 <nil> hello\n" || err != nil {
		t.Errorf("over the upgraded connection: %q, %v", got, err)
	}
	b.want("/get", "/1/", "the hijacker sent the cookie that was in the header")
}

// TestHijackThatFails: over HTTP/2 there is no hijacking, and what the handler answers then is an answer like any other.
func TestHijackThatFails(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/upgrade", func(w http.ResponseWriter, r *http.Request) {
		if err := s.count(r.Context()); err != nil {
			t.Error(err)
		}
		if _, _, err := w.(http.Hijacker).Hijack(); err == nil || errors.Is(err, http.ErrHijacked) {
			t.Errorf("hijacked: %v", err)
		}
		if err := s.sessions.Renew(r.Context()); err != nil {
			t.Errorf("the response has not begun: %v", err)
		}
		w.WriteHeader(http.StatusUpgradeRequired)
	})
	r := s.browser().get("/upgrade")
	if h := r.header; r.status != http.StatusUpgradeRequired || h.Get("Vary") != "Cookie" || h.Get("Cache-Control") != "no-store" || len(h["Set-Cookie"]) != 1 {
		t.Errorf("status %d, header %v", r.status, h)
	}
}

func TestPanicInHandler(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		if err := s.sessions.Update(ctx, func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Error(err)
		}
		if err := s.sessions.Renew(ctx); err != nil {
			t.Error(err)
		}
		panic(http.ErrAbortHandler)
	})
	b := s.browser()
	b.ok("/count")
	if res, err := b.client.Get(s.server.URL + "/panic"); err == nil {
		res.Body.Close()
		t.Fatal("the panic was swallowed")
	}
	b.want("/get", "/2/", "what was updated before the panic stands, and the former token is good for the grace")
}

// TestLogoutOfDataThatDoesNotDecode: a logout or a login ends a session that this release cannot
// read, and the session does not come back after a rollback.
func TestLogoutOfDataThatDoesNotDecode(t *testing.T) {
	for _, path := range []string{"/logout", "/login?user=ann", "/login?user=bob"} {
		s := newSite(t, nil)
		b := s.browser()
		b.ok("/login?user=ann")
		id, was := b.ok("/id").body, b.cookie()
		good := s.store.put(t, id, json.RawMessage(`{"count":"many"}`))
		if path == "/logout" {
			if c := b.ok(path).header.Get("Set-Cookie"); !strings.Contains(c, "Max-Age=0") {
				t.Errorf("logout sets %q", c)
			}
		} else {
			b.ok(path)
		}
		e, err := s.store.Get(t.Context(), "s:"+id)
		if err != nil {
			t.Fatal(err)
		}
		if e.Value.Token != nil {
			t.Errorf("%s left the session as it was", path)
			s.store.put(t, id, good)
		}
		if r := b.with("/get", was); r.body != "/0/" {
			t.Errorf("%s: after a rollback the token opens %q", path, r.body)
		}
		want := map[string]int{"/login?user=ann": 1}[path]
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != want {
			t.Errorf("%s: ann has %d sessions, %v; want %d", path, len(list), err, want)
		}
	}
}

// TestStoreDownIsLogged: by default it is logged, without a flood and without a key.
func TestStoreDownIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, &session.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	b := s.browser()
	b.ok("/login?user=ann")
	id := b.ok("/id").body
	s.store.failWith(errDown)
	for range 20 {
		b.get("/get")
	}
	lines := strings.Split(strings.TrimSpace(log.String()), "\n")
	if len(lines) != 1 || !strings.Contains(lines[0], `"level":"ERROR"`) || !strings.Contains(lines[0], errDown.Error()) {
		t.Errorf("logged %q, want one line with the store's error", lines)
	}
	_, token, _ := strings.Cut(b.cookie(), "=")
	if strings.Contains(log.String(), id) || strings.Contains(log.String(), token[:20]) {
		t.Errorf("the log holds a key: %s", log.String())
	}
	s.clock.Advance(10 * time.Second)
	b.get("/get")
	if n := strings.Count(log.String(), "\n"); n != 2 {
		t.Errorf("%d lines after ten seconds more, want 2", n)
	}
}

// TestSurvivedFailureIsLogged: without OnError it is logged.
func TestSurvivedFailureIsLogged(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, &session.Options{Anonymous: true, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	b := s.browser()
	b.ok("/login?user=ann")
	s.store.failWith(errDown)
	b.want("/get", "/0/", "without a session")
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), errDown.Error()) {
		t.Errorf("logged %q, want one line with the store's error", log.String())
	}
}

// TestStoreDownIsAskedOnce has a handler that asks again and again.
func TestStoreDownIsAskedOnce(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		var reported int
		s := newSite(t, &session.Options{Anonymous: anonymous, OnError: func(context.Context, error) { reported++ }})
		s.mux.HandleFunc("/often", func(w http.ResponseWriter, r *http.Request) {
			for range 5 {
				if _, err := s.sessions.Get(r.Context()); errors.Is(err, errDown) == anonymous {
					t.Errorf("Get: %v", err)
				}
			}
			if err := s.sessions.Renew(r.Context()); !errors.Is(err, errDown) {
				t.Errorf("Renew: %v", err)
			}
			s.store.failWith(nil)
			if v, err := s.sessions.Refresh(r.Context()); err != nil || v.User != "ann" {
				t.Errorf("Refresh asks anew: %+v, %v", v, err)
			}
			if v, err := s.sessions.Get(r.Context()); err != nil || v.User != "ann" {
				t.Errorf("Get after it: %+v, %v", v, err)
			}
		})
		b := s.browser()
		b.ok("/login?user=ann")
		s.store.failWith(errDown)
		s.store.reads.Store(0)
		b.ok("/often")
		if n := s.store.reads.Load(); n != 2 {
			t.Errorf("Anonymous %v: the store was read %d times, want once down and once up", anonymous, n)
		}
		if want := map[bool]int{true: 1}[anonymous]; reported != want {
			t.Errorf("Anonymous %v: OnError was reported %d times, want %d", anonymous, reported, want)
		}
	}
}

// TestGetAfterTheHeader: an answer whose header left before the session was read has neither
// Vary nor no-store, so it must not be personal.
func TestGetAfterTheHeader(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("look") != "" {
			_, _ = s.sessions.Get(r.Context())
		}
		http.NewResponseController(w).Flush()
		v, err := s.sessions.Get(r.Context())
		again, errAgain := s.sessions.Refresh(r.Context())
		fmt.Fprintf(w, "%q %v %q %v", v.User, err, again.User, errAgain)
	})
	s.mux.HandleFunc("/update", func(w http.ResponseWriter, r *http.Request) {
		http.NewResponseController(w).Flush()
		if err := s.sessions.Update(r.Context(), func(d *Data) error { d.Count++; return nil }); err != nil {
			t.Errorf("Update of a session that exists: %v", err)
		}
		v, err := s.sessions.Get(r.Context())
		fmt.Fprintf(w, "%q %v", v.User, err)
	})
	b := s.browser()
	b.ok("/login?user=ann")
	r := b.want("/stream?look=1", `"ann" <nil> "ann" <nil>`, "looked at before the header left")
	if r.header.Get("Vary") != "Cookie" || r.header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", r.header)
	}
	late := session.ErrHeaderSent.Error()
	b.want("/stream", `"" `+late+` "" `+late, "first looked at after the header left")
	b.want("/update", `"" `+late, "not looked at by an update either")
	b.want("/get", "ann/1/", "the update was written")
}

// TestRefreshOfDataThatDoesNotDecode: another release writes data that this one cannot read.
func TestRefreshOfDataThatDoesNotDecode(t *testing.T) {
	var reported []error
	s := newSite(t, &session.Options{OnError: func(_ context.Context, err error) { reported = append(reported, err) }})
	ctx := s.visit(s.login("", "ann"))
	v, err := s.sessions.Get(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.store.put(t, v.ID, json.RawMessage(`[]`))
	if v, err := s.sessions.Refresh(ctx); err != nil || v.ID != "" {
		t.Errorf("%+v, %v", v, err)
	}
	var syntax *json.UnmarshalTypeError
	if len(reported) != 1 || !errors.Is(reported[0], session.ErrData) || !errors.As(reported[0], &syntax) {
		t.Errorf("OnError was reported %v", reported)
	}
}

// TestWhoLeftIsNoOutage: a client that closes the connection is not logged as an outage, and does not take the
// place of a line about one.
func TestWhoLeftIsNoOutage(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, &session.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	token := s.login("", "ann")
	gone, leave := context.WithCancel(t.Context())
	get := func(ctx context.Context) {
		r := httptest.NewRequestWithContext(ctx, "GET", "/get", nil)
		r.Header.Set("Cookie", "__Host-session="+token)
		s.sessions.Middleware(s.mux).ServeHTTP(httptest.NewRecorder(), r)
	}
	s.store.onCalls(func(string, string) error { leave(); return context.Canceled })
	get(gone)
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
	s.store.onCalls(func(string, string) error { return errDown })
	get(t.Context())
	if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 {
		t.Errorf("%d lines of an outage: %s", n, log.String())
	}
}

// TestLogAfterTheClockWasSetBack: an outage is told of although the last line has a later time.
func TestLogAfterTheClockWasSetBack(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, &session.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	b := s.browser()
	b.ok("/login?user=ann")
	s.store.failWith(errDown)
	b.get("/get")
	s.clock.Advance(-time.Hour)
	for range 60 {
		b.get("/get")
		s.clock.Advance(time.Minute)
	}
	if n := strings.Count(log.String(), "\n"); n < 50 {
		t.Errorf("%d lines in an hour of outage after the clock was set back", n)
	}
}

// TestWarningHidesNoOutage: a failure that a request outlives does not take the place of an error.
func TestWarningHidesNoOutage(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, &session.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	b := s.browser()
	b.ok("/login?user=ann")
	s.clock.Advance(10 * time.Minute)
	s.store.failTouches(errDown)
	b.ok("/get")
	s.waitForTouches()
	s.store.failWith(errDown)
	b.get("/get")
	if n := strings.Count(log.String(), `"level":"ERROR"`); n != 1 {
		t.Errorf("%d lines of an outage: %s", n, log.String())
	}
}

// TestPassiveMayAsk: Options.Passive may use the session, and a request that it then calls active
// is an access.
func TestPassiveMayAsk(t *testing.T) {
	for _, poll := range []bool{false, true} {
		var s *site
		s = newSite(t, &session.Options{Passive: func(r *http.Request) bool {
			v, err := s.sessions.Get(r.Context())
			return err == nil && v.User == "ann" && poll
		}})
		b := s.browser()
		b.ok("/login?user=ann")
		for range 2 {
			s.clock.Advance(20 * time.Minute)
			b.get("/get")
		}
		want := "ann/0/"
		if poll {
			want = "/0/"
		}
		b.want("/get", want, "")
	}
}

// TestErrorAnswerHasNoHeadersOfTheHandlers: what a handler has said of its own answer is not sent with the 503.
func TestErrorAnswerHasNoHeadersOfTheHandlers(t *testing.T) {
	s := newSite(t, nil)
	s.mux.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Content-Disposition", "Content-Range", "Content-Language", "Accept-Ranges", "Link"} {
			w.Header().Set(name, "x")
		}
		w.Header().Set("Content-Security-Policy", "default-src 'self'")
		_, _ = s.sessions.Get(r.Context())
		fmt.Fprint(w, "file")
	})
	b := s.browser()
	b.ok("/login?user=ann")
	s.store.failWith(errDown)
	r := b.get("/file")
	for _, name := range []string{"Content-Disposition", "Content-Range", "Content-Language", "Accept-Ranges", "Link"} {
		if r.header.Get(name) != "" {
			t.Errorf("the 503 has %s", name)
		}
	}
	if r.status != http.StatusServiceUnavailable || r.header.Get("Content-Security-Policy") == "" {
		t.Errorf("%d %v", r.status, r.header)
	}
}

// TestInnerTransportOfTheSameHeader: a transport within one that reads the same header counts all the same.
func TestInnerTransportOfTheSameHeader(t *testing.T) {
	s := newSite(t, nil)
	login := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if err := s.sessions.Login(r.Context(), session.Login{User: "ann"}, nil); err != nil {
			t.Error(err)
		}
	})
	for name, inner := range map[string]session.Transport{"X-Token": session.Bearer{Response: "X-Token"}, "Session-Token": session.Bearer{}} {
		w := httptest.NewRecorder()
		s.sessions.Over(session.Bearer{})(s.sessions.Over(inner)(login)).ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
		if w.Header().Get(name) == "" || name == "X-Token" && w.Header().Get("Session-Token") != "" {
			t.Errorf("%s: %v", name, w.Header())
		}
	}
}

// lostAnswers is a store whose writes land, and whose answers to them are lost while it is set.
type lostAnswers struct {
	driver.Driver[session.Record]
	lost bool
}

func (d *lostAnswers) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	version, err := d.Driver.Replace(ctx, key, v, was, l, now)
	if err == nil && d.lost {
		return 0, fmt.Errorf("%w: %w", driver.ErrAmbiguous, errDown)
	}
	return version, err
}

// TestRenewalWithoutAnswer: a renewal that the store has made, without an answer, logs nobody out.
func TestRenewalWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		store := &lostAnswers{Driver: d}
		m, err := session.New[Data](store, &session.Options{RenewEvery: 10 * time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close(context.Background())
		token := begin(t, m)
		for after, renew := range map[time.Duration]func(ctx context.Context) error{
			time.Minute: m.Renew,
			10 * time.Minute: func(ctx context.Context) error { // by its age
				_, err := m.Get(ctx)
				return err
			},
		} {
			time.Sleep(after)
			ctx := m.Load(t.Context(), token)
			store.lost = true
			err := renew(ctx)
			store.lost = false
			next, changed, _ := m.Commit(ctx)
			if err != nil || !changed {
				t.Fatalf("a renewal that landed: %v, token given: %v", err, changed)
			}
			token = next
			time.Sleep(time.Minute)
			if got := user(t, m, token); got != "ann" {
				t.Errorf("the token opens the session of %q", got)
			}
		}
	})
}

// TestPanicGivesTheToken: the answer of code that recovers a handler's panic outside of the middleware
// has the token that the request was given.
func TestPanicGivesTheToken(t *testing.T) {
	s := newSite(t, &session.Options{RenewEvery: time.Minute})
	s.mux.HandleFunc("/panic", func(w http.ResponseWriter, r *http.Request) {
		_, _ = s.sessions.Get(r.Context())
		if r.FormValue("late") != "" {
			w.WriteHeader(http.StatusAccepted)
		}
		panic("bug")
	})
	inner := s.server.Config.Handler
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil && r.FormValue("late") == "" {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}()
		inner.ServeHTTP(w, r)
	})
	b := s.browser()
	b.ok("/login?user=ann")
	for _, path := range []string{"/panic", "/panic?late=1"} {
		s.clock.Advance(2 * time.Minute)
		before := b.cookie()
		r := b.get(path)
		if r.status < 202 || len(r.header["Set-Cookie"]) != 1 || b.cookie() == before || r.header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d, %v", path, r.status, r.header)
		}
		s.clock.Advance(11 * time.Second)
		b.want("/get", "ann/0/", "after "+path)
	}
	s.store.failWith(errDown)
	if r := b.get("/panic"); r.status != http.StatusInternalServerError || len(r.header["Set-Cookie"]) != 0 {
		t.Errorf("a panic over a store that is down: %d, %v", r.status, r.header)
	}
}

// TestOnErrorMayAsk: OnError may use the session of the request whose touch, or read, has failed.
func TestOnErrorMayAsk(t *testing.T) {
	for _, anonymous := range []bool{false, true} {
		var s *site
		asked := make(chan string, 9)
		s = newSite(t, &session.Options{Anonymous: anonymous, OnError: func(ctx context.Context, _ error) {
			v, err := s.sessions.Get(ctx)
			asked <- fmt.Sprintf("%q %v", v.User, err)
		}})
		token := s.login("", "ann")
		s.clock.Advance(20 * time.Minute)
		want := `"ann" <nil>`
		if anonymous {
			want = `"" <nil>`
			s.store.failWith(errDown)
		} else {
			s.store.failTouches(errDown)
		}
		got := make(chan string)
		ctx := s.visit(token)
		go func() {
			v, err := s.sessions.Get(ctx)
			got <- fmt.Sprintf("%q %v", v.User, err)
		}()
		for _, from := range []chan string{asked, got} {
			select {
			case v := <-from:
				if v != want {
					t.Errorf("anonymous %v: %s, want %s", anonymous, v, want)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("OnError that calls Get hangs")
			}
		}
		s.store.failWith(nil)
	}
}
