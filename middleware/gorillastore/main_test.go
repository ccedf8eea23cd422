package gorillastore_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"

	gorilla "github.com/gorilla/sessions"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/gorillastore"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const name = "session-name"

// counted is a driver whose calls are counted, and which can be down.
type counted struct {
	driver.Driver[session.Record]
	reads, writes, touches atomic.Int64
	down, full             atomic.Bool
	before                 func() // each call but those that it makes itself; nil: nothing
	fails                  error  // what the next call returns. It is done if this is errAnswerLost
}

// call returns what a call fails with, and whether it is not done.
func (c *counted) call() (err error, undone bool) {
	if f := c.before; f != nil {
		c.before = nil
		f()
		c.before = f
	}
	if err = c.fails; err != nil {
		c.fails = nil
	}
	return err, err != nil && err != errAnswerLost
}

func (c *counted) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	if err, _ := c.call(); err != nil && err != errAnswerLost {
		return driver.Entry[session.Record]{}, err
	}
	c.reads.Add(1)
	if c.down.Load() {
		return driver.Entry[session.Record]{}, errors.New("down")
	}
	return c.Driver.Get(ctx, key)
}

func (c *counted) Insert(ctx context.Context, key string, v session.Record, l driver.Life, now driver.Instant) (driver.Version, error) {
	failed, undone := c.call()
	if c.full.Load() {
		return 0, errors.New("full")
	}
	if undone {
		return 0, failed
	}
	c.writes.Add(1)
	version, err := c.Driver.Insert(ctx, key, v, l, now)
	return version, cmp.Or(failed, err)
}

func (c *counted) Replace(ctx context.Context, key string, v session.Record, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	failed, undone := c.call()
	if undone {
		return 0, failed
	}
	c.writes.Add(1)
	version, err := c.Driver.Replace(ctx, key, v, was, l, now)
	return version, cmp.Or(failed, err)
}

func (c *counted) Touch(ctx context.Context, key string, was driver.Meta, l driver.Life, now driver.Instant) (driver.Version, error) {
	c.touches.Add(1)
	return c.Driver.Touch(ctx, key, was, l, now)
}

// site is a gorilla program.
type site struct {
	t     *testing.T
	d     *counted
	store *gorillastore.Store
}

// user names the user of a session as a program does.
func user(s *gorilla.Session) session.Login {
	u, _ := s.Values["user"].(string)
	return session.Login{User: u}
}

// run runs a site on virtual time. opts may be nil.
func run(t *testing.T, opts *gorillastore.Options, test func(t *testing.T, a *site)) {
	synctest.Test(t, func(t *testing.T) {
		d, err := memory.New[session.Record](nil)
		if err != nil {
			t.Fatal(err)
		}
		a := &site{t: t, d: &counted{Driver: d}}
		if opts == nil {
			opts = &gorillastore.Options{}
		}
		if opts.Login == nil {
			opts.Login = user
		}
		if a.store, err = gorillastore.New(a.d, opts); err != nil {
			t.Fatal(err)
		}
		test(t, a)
		if err := a.store.Sessions().Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// browser is a client of a site.
type browser struct {
	*site
	cookies map[string]string
	sent    []*http.Cookie // by the last answer
}

func (a *site) browser() *browser { return &browser{site: a, cookies: map[string]string{}} }

// like returns a client with the same cookies.
func (b *browser) like() *browser {
	c := b.browser()
	for name, value := range b.cookies {
		c.cookies[name] = value
	}
	return c
}

// request is one under way.
type request struct {
	b *browser
	r *http.Request
	w *httptest.ResponseRecorder
}

func (b *browser) request() *request {
	r := httptest.NewRequest("GET", "/", nil)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	return &request{b, r, httptest.NewRecorder()}
}

// get returns a session of the request.
func (q *request) get() *gorilla.Session {
	q.b.t.Helper()
	s, err := q.b.store.Get(q.r, name)
	if err != nil {
		q.b.t.Errorf("Get: %v", err)
	}
	return s
}

// sent returns the cookies of the answer so far.
func (q *request) sent() []*http.Cookie { return (&http.Response{Header: q.w.Header()}).Cookies() }

// answer gives the client its cookies.
func (q *request) answer() {
	q.b.sent = q.sent()
	for _, c := range q.b.sent {
		if c.MaxAge < 0 {
			delete(q.b.cookies, c.Name)
		} else {
			q.b.cookies[c.Name] = c.Value
		}
	}
}

// do changes the session by a request, saves it, and returns what Save did.
func (b *browser) do(f func(s *gorilla.Session)) error {
	b.t.Helper()
	q := b.request()
	s := q.get()
	f(s)
	err := s.Save(q.r, q.w)
	q.answer()
	return err
}

func (b *browser) set(key, value any) {
	b.t.Helper()
	if err := b.do(func(s *gorilla.Session) { s.Values[key] = value }); err != nil {
		b.t.Errorf("Save: %v", err)
	}
}

// has reads a value by a request that saves nothing.
func (b *browser) has(key, want any, why string) {
	b.t.Helper()
	if got := b.request().get().Values[key]; got != want {
		b.t.Errorf("%v is %v, want %v: %s", key, got, want, why)
	}
}

func (b *browser) login(user string) { b.t.Helper(); b.set("user", user) }

func (b *browser) logout() {
	b.t.Helper()
	if err := b.do(func(s *gorilla.Session) { s.Options.MaxAge = -1 }); err != nil {
		b.t.Errorf("logout: %v", err)
	}
}
