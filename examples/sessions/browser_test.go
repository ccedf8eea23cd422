//go:build browser

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/examples/internal/browser"
	"github.com/slidingttl/slidingttl/middleware/session"
)

// These tests drive the app in a real browser, headless Chromium, which must be
// on the PATH: go test -tags browser ./examples/sessions.

const (
	loginPage = chromedp.CSS(`form[action="/login"]`)
	homePage  = chromedp.CSS(`main#home`)
	endedBox  = chromedp.CSS(`dialog#ended[open]`)
)

// tab is a tab of a browser that looks at a site.
type tab struct {
	t    *testing.T
	ctx  context.Context
	site *site
}

// newBrowser starts a browser that reaches no other host than this machine.
func newBrowser(t *testing.T, s *site) *tab {
	t.Helper()
	return &tab{t, browser.Open(t), s}
}

// open returns another tab: with the same cookies or, with an option, without.
func (b *tab) open(opts ...chromedp.ContextOption) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, opts...)
	b.t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		b.t.Fatal(err)
	}
	return &tab{b.t, ctx, b.site}
}

// get runs an action that returns a value.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 30*time.Second)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	for _, a := range steps {
		get(b, a)
	}
}

// call sends a command of the protocol.
func call[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	r, err := chromedp.Call(b.ctx, cmd, params)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// shows waits until the page shows sel.
func (b *tab) shows(sel chromedp.CSS) {
	b.t.Helper()
	b.do(chromedp.WaitVisible(sel))
}

// click clicks on sel, which loads a page, and waits for that to show then.
func (b *tab) click(sel, then chromedp.CSS) {
	b.t.Helper()
	loaded := b.mark()
	b.do(chromedp.Click(sel))
	loaded(then)
}

// mark marks the document, so that the next one can be told from it. loaded waits until
// that shows then and is whole.
func (b *tab) mark() (loaded func(then chromedp.CSS)) {
	b.t.Helper()
	get(b, chromedp.Evaluate[bool](`document.documentElement.classList.add("former"), true`))
	return func(then chromedp.CSS) {
		b.t.Helper()
		b.shows("html:not(.former) " + then)
		get(b, chromedp.Poll[bool](`document.readyState == "complete"`))
	}
}

// fill types text into the field sel, sends its form and waits for then.
func (b *tab) fill(sel chromedp.CSS, text string, then chromedp.CSS) {
	b.t.Helper()
	loaded := b.mark()
	b.do(chromedp.SendKeys(sel, text+"\n"))
	loaded(then)
}

func (b *tab) login(user string, remember bool) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.site.URL))
	b.shows(loginPage)
	if remember {
		b.do(chromedp.Click(chromedp.CSS(`input[name="remember"]`)))
	}
	b.do(chromedp.SendKeys(chromedp.CSS("#user"), user))
	b.fill("#password", password, homePage)
}

// polls waits until the page has polled n more times.
func (b *tab) polls(n int) {
	b.t.Helper()
	const polls = `Number(document.getElementById("polls").textContent)`
	now := get(b, chromedp.Evaluate[int](polls))
	get(b, chromedp.Poll[bool](fmt.Sprintf("%s >= %d", polls, now+n)))
}

// cookie returns the only cookie that the browser has for the site.
func (b *tab) cookie() *network.Cookie {
	b.t.Helper()
	all, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{b.site.URL}})
	if err != nil {
		b.t.Fatal(err)
	}
	if len(all.Cookies) != 1 {
		b.t.Fatalf("%d cookies", len(all.Cookies))
	}
	return all.Cookies[0]
}

func TestBrowserCookie(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	c := b.cookie()
	if c.Name != "__Host-session" || !c.Secure || !c.HTTPOnly || c.SameSite != network.CookieSameSiteLax || c.Path != "/" || c.Domain != "127.0.0.1" || !c.Session {
		t.Errorf("the browser has %+v", c)
	}
	if script := get(b, chromedp.Evaluate[string]("document.cookie")); script != "" {
		t.Errorf("scripts can read %q", script)
	}
	b.click("#logout", loginPage)
	b.login("ann", true)
	c = b.cookie()
	want := time.Now().Add(90 * 24 * time.Hour)
	if at := time.UnixMilli(int64(c.Expires * 1000)); c.Session || at.Before(want.Add(-time.Minute)) || at.After(want.Add(time.Minute)) {
		t.Errorf("a remembered session's cookie ends at %v, want %v", at, want)
	}
}

func TestBrowserIdleLogout(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	b.polls(2)
	s.advance(idle + slack + time.Second)
	b.shows(endedBox)
	b.click("#ended a", loginPage)
}

func TestBrowserPollingDoesNotExtend(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	for range 3 {
		s.advance((idle+slack)/4 + time.Second)
		b.polls(3)
	}
	s.advance((idle + slack) / 4)
	b.shows(endedBox)
}

func TestBrowserAbsoluteLogoutWhileActive(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	for range 6 {
		s.advance(95 * time.Second)
		b.click("#active", homePage)
		b.polls(1)
	}
	s.advance(31 * time.Second)
	b.shows(endedBox)
}

func TestBrowserTwoTabs(t *testing.T) {
	s := newSite(t)
	one := newBrowser(t, s)
	one.login("ann", false)
	two := one.open()
	two.do(chromedp.Navigate(s.URL))
	two.shows(homePage)
	one.fill("#note", "from one", ".notes")
	two.fill("#note", "from two", ".notes")
	if notes := strings.Join(strings.Fields(get(two, chromedp.Text(chromedp.CSS(".notes")))), " "); notes != "from one from two" {
		t.Errorf("notes %q", notes)
	}
	one.click("#renew", homePage)
	s.advance(time.Minute)
	two.polls(2)
	one.click("#logout", loginPage)
	two.shows(endedBox)
}

func TestBrowserTokenChanges(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	id := func() string { return get(b, chromedp.Text(chromedp.CSS("#session"))) }
	b.login("ann", false)
	first, before := id(), b.cookie().Value
	b.click("#renew", homePage)
	renewed := b.cookie().Value
	if renewed == before || id() != first {
		t.Errorf("renewal: token changed %v, session changed %v", renewed != before, id() != first)
	}
	// A login over a login: no grace for the tokens from before.
	ok := get(b, chromedp.Evaluate[bool](
		`fetch("/login", {method: "POST", body: new URLSearchParams({user: "ann", password: "`+password+`"})}).then(r => r.ok)`,
		chromedp.EvalAwaitPromise))
	if !ok {
		t.Fatal("login failed")
	}
	b.do(chromedp.Navigate(s.URL))
	b.shows(homePage)
	if after := b.cookie().Value; after == renewed || id() == first {
		t.Errorf("login: token changed %v, session changed %v", after != renewed, id() != first)
	}
	for _, token := range []string{before, renewed} {
		req, err := http.NewRequest("GET", s.URL+"/status", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "__Host-session", Value: token})
		res, err := s.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusUnauthorized {
			t.Errorf("a token from before the login: status %d", res.StatusCode)
		}
	}
}

func TestBrowserRevokeFromAnotherDevice(t *testing.T) {
	s := newSite(t)
	phone := newBrowser(t, s)
	laptop := phone.open(chromedp.WithNewBrowserContext())
	phone.login("ann", false)
	laptop.login("ann", false)
	laptop.polls(1)
	phone.click("#active", ".revoke")
	phone.click(".revoke", homePage)
	if n := len(get(phone, chromedp.Nodes(chromedp.CSSAll(".devices li")))); n != 1 {
		t.Errorf("%d devices listed", n)
	}
	laptop.shows(endedBox)
	phone.polls(2)
}

func TestBrowserBackAfterLogout(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	b.fill("#note", "my secret", ".notes")
	b.click("#active", ".notes")
	b.click("#logout", loginPage)
	for range 2 {
		b.do(chromedp.NavigateBack())
		b.shows(loginPage)
		if html := get(b, chromedp.OuterHTML(chromedp.CSS("html"))); strings.Contains(html, "my secret") || strings.Contains(html, "Your devices") {
			t.Fatal("the back button shows a page of the session that has ended")
		}
	}
}

func TestBrowserCrossOrigin(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	// Another port is another origin of the same site: SameSite does not help.
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<form method="post" action="%s/logout"><button id="win">You have won</button></form>`, s.URL)
	}))
	defer other.Close()
	b.login("ann", false)
	b.do(chromedp.Navigate(other.URL))
	b.click("#win", "body")
	if body := get(b, chromedp.Text(chromedp.CSS("main"))); !strings.Contains(body, "cross-origin") {
		t.Errorf("the forged request was answered %q", body)
	}
	b.do(chromedp.Navigate(s.URL))
	b.shows(homePage)
}

// TestBrowserSinglePageApp: the page of one origin logs in at the API of another, reads the token of each answer, and
// sends it. It is what middleware/README.md says under "Tokens in a header".
func TestBrowserSinglePageApp(t *testing.T) {
	d, err := memory.New[session.Record](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	sessions, err := session.New[Data](d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sessions.Close(t.Context())
	page := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<title>page</title><main>a page</main>")
	}))
	defer page.Close()
	mux := http.NewServeMux()
	done := func(w http.ResponseWriter, err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		done(w, sessions.Login(r.Context(), session.Login{User: "ann"}, nil))
	})
	mux.HandleFunc("POST /renew", func(w http.ResponseWriter, r *http.Request) { done(w, sessions.Renew(r.Context())) })
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) { done(w, sessions.Destroy(r.Context())) })
	mux.HandleFunc("GET /me", func(w http.ResponseWriter, r *http.Request) {
		s, err := sessions.Get(r.Context())
		fmt.Fprint(w, s.User)
		done(w, err)
	})
	guarded := sessions.Over(session.Bearer{})(mux)
	api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") == page.URL { // the site's own CORS settings
			w.Header().Set("Access-Control-Allow-Origin", page.URL)
			w.Header().Set("Access-Control-Allow-Headers", "Authorization")
			w.Header().Add("Vary", "Origin")
		}
		if r.Method != http.MethodOptions {
			guarded.ServeHTTP(w, r)
		}
	}))
	defer api.Close()

	b := newBrowser(t, nil)
	b.do(chromedp.Navigate(page.URL))
	token := ""
	// ask makes a request with the token. It returns the body, and the token that the script can read.
	ask := func(method, path string) (body, given string) {
		t.Helper()
		a := get(b, chromedp.Evaluate[[]string](fmt.Sprintf(
			`fetch(%q, {method: %q, headers: {Authorization: "Bearer " + %q}}).then(async r => [await r.text(), r.headers.get("Session-Token") ?? "none"], e => ["refused", "none"])`,
			api.URL+path, method, token), chromedp.EvalAwaitPromise))
		return a[0], a[1]
	}
	me := func(want string) {
		t.Helper()
		if body, given := ask("GET", "/me"); body != want || given != "none" {
			t.Errorf("the page is told %q and given the token %q, want %q and none", body, given, want)
		}
	}
	me("")
	_, token = ask("POST", "/login")
	if len(token) != 64 {
		t.Fatalf("the script reads the token %q", token)
	}
	me("ann")
	former := token
	if _, token = ask("POST", "/renew"); len(token) != 64 || token == former {
		t.Errorf("after a renewal the script reads the token %q", token)
	}
	me("ann")
	if _, given := ask("POST", "/logout"); given != "" {
		t.Errorf("after the logout the script reads the token %q", given)
	}
	me("")
	if cookies := call(b, network.GetCookies, network.GetCookiesParams{URLs: []string{page.URL, api.URL}}); len(cookies.Cookies) > 0 {
		t.Errorf("the browser has %d cookies", len(cookies.Cookies))
	}

	other := httptest.NewTLSServer(http.NotFoundHandler())
	defer other.Close()
	b.do(chromedp.Navigate(other.URL))
	if body, given := ask("GET", "/me"); body != "refused" || given != "none" {
		t.Errorf("a page of an origin that is not let in is told %q and given %q", body, given)
	}
}
