package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	idle     = 2 * time.Minute
	slack    = 20 * time.Second
	absolute = 10 * time.Minute
)

// site is the app on a TLS server of this machine, with a time of its own.
type site struct {
	*httptest.Server
	ahead atomic.Int64
	down  atomic.Bool // the store
}

// store is a driver that can be taken down.
type store struct {
	driver.Driver[session.Record]
	site *site
}

func (s *store) Get(ctx context.Context, key string) (driver.Entry[session.Record], error) {
	if s.site.down.Load() {
		return driver.Entry[session.Record]{}, errors.New("down")
	}
	return s.Driver.Get(ctx, key)
}

func newSite(t *testing.T) *site { return newSiteOn(t, "memory") }

func newSiteOn(t *testing.T, name string) *site {
	t.Helper()
	b, err := backend.Open[session.Record](t.Context(), backend.Choice{Driver: name})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{}
	start := time.Now().Truncate(time.Second) // for stores that count seconds
	a, err := newApp(&store{b.Driver, s}, session.Options{
		Policy: slidingttl.Policy{IdleGrace: idle, MaxLifetime: absolute, Slack: slack},
		Now:    func() time.Time { return start.Add(time.Duration(s.ahead.Load())) },
	}, 50*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = httptest.NewTLSServer(a.handler())
	t.Cleanup(func() {
		s.Close()
		if err := a.sessions.Close(context.Background()); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *site) advance(d time.Duration) { s.ahead.Add(int64(d)) }

func TestPages(t *testing.T) {
	for _, driver := range []string{"memory", "couchbase", "dynamodb", "redis", "cosmos", "postgres", "mariadb", "sqlite"} {
		t.Run(driver, func(t *testing.T) { testPages(t, newSiteOn(t, driver)) })
	}
}

func testPages(t *testing.T, s *site) {
	client := s.Client()
	client.Jar, _ = cookiejar.New(nil)
	read := func(res *http.Response, err error) (int, string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(body)
	}
	post := func(path string, form ...string) (int, string) {
		t.Helper()
		v := url.Values{}
		for i := 0; i < len(form); i += 2 {
			v.Set(form[i], form[i+1])
		}
		return read(client.PostForm(s.URL+path, v))
	}
	contains := func(what, body string, parts ...string) {
		t.Helper()
		for _, p := range parts {
			if !strings.Contains(body, p) {
				t.Errorf("%s lacks %q:\n%s", what, p, body)
			}
		}
	}

	_, body := read(client.Get(s.URL))
	contains("the login page", body, `action="/login"`, "<code>sliding</code>")
	if status, _ := read(client.Get(s.URL + "/status")); status != http.StatusUnauthorized {
		t.Errorf("status of nobody: %d", status)
	}
	status, body := post("/login", "user", "An<n", "password", "wrong", "remember", "1")
	if contains("a failed login", body, `role="alert" id="wrong">That name and password do not match`, `value="An&lt;n"`, "checked"); status != http.StatusForbidden {
		t.Errorf("status %d", status)
	}
	_, body = post("/login", "user", " Ann ", "password", password)
	contains("the page", body, "Welcome, ann", "this one", "whichever comes first", `<time id="at-now"`, `id="reads">1<`, `id="touches">1<`, `id="saved">0<`, "in 2:00</span>", "in 2:20</span>", "in 10:00</span>")
	_, body = post("/note", "note", "<b>milk</b>")
	contains("the page", body, "&lt;b&gt;milk&lt;/b&gt;")
	if strings.Contains(body, "Welcome") {
		t.Error("the flash message is shown twice")
	}
	_, body = post("/note", "note", strings.Repeat("x", maxNote+1))
	contains("the page", body, "1 to 120 characters")
	s.advance(time.Minute)
	_, body = read(client.Get(s.URL + "/status"))
	var line timeline
	if err := json.Unmarshal([]byte(body), &line); err != nil {
		t.Fatal(err)
	}
	if line.Cap-line.Now != 540_000 || line.Stored-line.Now != 80_000 || line.Now-line.Touched != 60_000 || line.Accessed != 0 || line.Reads <= line.Touches {
		t.Errorf("the status: %+v", line)
	}
	_, body = post("/renew")
	contains("the page", body, "new token", "in 2:00</span>", "in 2:20</span>", "in 9:00</span>")
	other := *s.Client()
	other.Jar, _ = cookiejar.New(nil)
	read(other.PostForm(s.URL+"/login", url.Values{"user": {"bob"}, "password": {password}}))
	_, body = read(client.Get(s.URL + "/status"))
	was := line
	if err := json.Unmarshal([]byte(body), &line); err != nil {
		t.Fatal(err)
	}
	if line.Reads != was.Reads+3 || line.Touches != was.Touches+1 {
		t.Errorf("a renewal, the page and a poll, and another session: %d reads, then %d; %d writes, then %d", was.Reads, line.Reads, was.Touches, line.Touches)
	}
	id := regexp.MustCompile(`name="id" value="([^"]+)"`)
	if id.MatchString(body) {
		t.Error("a device can revoke itself")
	}
	for _, path := range []string{"/revoke", "/revoke-others"} {
		_, body = post(path, "id", "somebody else's")
		contains("the page", body, "Your devices")
	}
	s.down.Store(true)
	status, body = read(client.Get(s.URL))
	if contains("a page without the store", body, "Sorry", "style.css"); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
	s.down.Store(false)
	_, body = post("/logout")
	contains("after logout", body, `action="/login"`)
	for _, path := range []string{"/note", "/renew", "/revoke", "/revoke-others", "/logout"} {
		_, body = post(path, "note", "x", "id", "x")
		contains(path+" without a session", body, `action="/login"`)
	}
	status, body = read(client.Get(s.URL + "/nowhere"))
	if contains("a page that is not there", body, "Not found", "style.css"); status != http.StatusNotFound {
		t.Errorf("status %d", status)
	}
	for path, kind := range map[string]string{"/static/style.css": "text/css", "/static/app.js": "javascript", "/static/icon.svg": "image/svg"} {
		res, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK || !strings.Contains(res.Header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %s", path, res.StatusCode, res.Header.Get("Content-Type"))
		}
	}
}

func TestDevice(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/148.0 Safari/537.36":         "Chrome on Linux",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) AppleWebKit/605.1.15 Version/19.0 Safari/604.1":     "Safari on iPhone",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0":                          "Firefox on Windows",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/148.0.0.0 Safari/537.36 Edg/148.0.0.0": "Edge on Windows",
		"": "A browser on an unknown system",
	} {
		if got := device(agent); got != want {
			t.Errorf("%q is %q, want %q", agent, got, want)
		}
	}
}

func TestTimeline(t *testing.T) {
	const second, day = 1000, 24 * 60 * 60 * 1000
	l := timeline{Now: 100 * second, Created: 40 * second, Accessed: 100 * second, Touched: 90 * second, Stored: 230 * second, Cap: 640 * second, Idle: 120 * second, Reads: 5, Touches: 2}
	if l.Deadline() != 220*second || l.Saved() != 3 {
		t.Errorf("deadline %d, saved %d", l.Deadline(), l.Saved())
	}
	if got := l.X(l.Created) + " " + l.X(l.Cap+day) + " " + l.X(l.Created+300*second) + " " + l.Width(l.Created, l.Created+300*second); got != "4.00% 96.00% 50.00% 46.00%" {
		t.Errorf("places %s", got)
	}
	l.Now = 600 * second
	l.Accessed = l.Now
	if l.Deadline() != l.Cap {
		t.Errorf("deadline %d beyond the cap", l.Deadline())
	}
	for ms, want := range map[int64]string{
		90 * second: "8:30 ago", 640 * second: "in 0:40", 600*second + 1: "in 0:01",
		600*second + 30*day: "in 30 d 0:00:00", 600*second + 30*day - 1: "in 30 d 0:00:00", 600*second + day/2: "in 12:00:00",
	} {
		if got := l.Left(ms); got != want {
			t.Errorf("%d: %q, want %q", ms, got, want)
		}
	}
	if got := l.At(0); got != "1 Jan 1970, 00:00:00 UTC" {
		t.Errorf("a moment: %q", got)
	}
}
