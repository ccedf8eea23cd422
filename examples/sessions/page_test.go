//go:build browser

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/slidingttl/slidingttl/examples/internal/browser"
)

// The pages as people meet them: narrow and wide, light and dark, with a screen
// reader, without JavaScript, and when something fails.

// look has the browser show pages at this width and in this color scheme.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	browser.Look(b.t, b.ctx, width, scheme)
}

// clean fails for what is wrong with the page; see [browser.Clean].
func (b *tab) clean(page string) {
	b.t.Helper()
	browser.Clean(b.t, b.ctx, "node_modules/axe-core/axe.min.js", page)
}

func TestBrowserPagesAreAccessible(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.do(chromedp.Navigate(s.URL))
	b.shows(loginPage)
	b.clean("login")
	b.do(chromedp.SendKeys(chromedp.CSS("#user"), "ann"))
	b.fill("#password", "wrong", ".flash")
	b.clean("login-failed")

	other := b.open(chromedp.WithNewBrowserContext())
	other.login("ann", true)
	b.login("ann", false)
	b.polls(1)
	b.clean("home")
	other.click("#active", ".revoke")
	other.fill("#note", strings.Repeat("x", 100), ".notes")
	other.clean("home-remembered")

	const top = `document.getElementById("active").getBoundingClientRect().top + scrollY`
	was := get(b, chromedp.Evaluate[float64](top))
	s.advance(idle*3/4 + time.Second)
	b.shows("#warning:not(:empty)")
	if now := get(b, chromedp.Evaluate[float64](top)); now != was {
		t.Errorf("the warning moved what somebody may be about to click by %v pixels", now-was)
	}
	b.clean("warned")
	s.advance(idle)
	b.shows(endedBox)
	b.clean("ended")

	b.do(chromedp.Navigate(s.URL + "/nowhere"))
	b.clean("not-found")
	s.down.Store(true)
	b.do(chromedp.Navigate(s.URL))
	b.shows("h1")
	b.clean("unavailable")
	if styled := get(b, chromedp.Evaluate[string](`getComputedStyle(document.querySelector(".card")).borderRadius`)); styled == "0px" {
		t.Error("the error page has no style")
	}
	s.down.Store(false)
}

// TestBrowserSaysWhichLimit has sessions end in each way, and reads what the page
// says it was.
func TestBrowserSaysWhichLimit(t *testing.T) {
	for want, end := range map[string]func(s *site, b *tab){
		"idle for too long: the idle timeout is 2:00": func(s *site, b *tab) { s.advance(idle + slack + time.Second) },
		"reached its absolute timeout, 10:00 after": func(s *site, b *tab) {
			for range 5 {
				s.advance(idle - time.Second)
				b.click("#active", homePage)
				b.polls(1)
			}
			if text := get(b, chromedp.Text(chromedp.CSS("#warning"))); !strings.Contains(text, "absolute timeout is near") {
				b.t.Errorf("five seconds before the cap the page warns %q", text)
			}
			const left = `["left-deadline", "left-cap"].map(id => document.getElementById(id).textContent)`
			if both := get(b, chromedp.Evaluate[[]string](left)); both[0] != both[1] {
				b.t.Errorf("five seconds before the cap the idle deadline is %s, and the cap %s", both[0], both[1])
			}
			s.advance(6 * time.Second)
		},
		"ended elsewhere": func(s *site, b *tab) {
			two := b.open()
			two.do(chromedp.Navigate(s.URL))
			two.shows(homePage)
			two.click("#logout", loginPage)
		},
	} {
		s := newSite(t)
		b := newBrowser(t, s)
		b.login("ann", false)
		b.polls(1)
		end(s, b)
		b.shows(endedBox)
		if why := get(b, chromedp.Text(chromedp.CSS("#ended-why"))); !strings.Contains(why, want) {
			t.Errorf("the page says %q, want %q", why, want)
		}
	}
}

func TestBrowserTimeLine(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	b.login("ann", false)
	text := func(id string) string { return get(b, chromedp.Text(chromedp.CSS("#"+id))) }
	s.advance(10 * time.Second) // within the slack: an access, and no touch
	touches := text("touches")
	b.click("#active", homePage)
	b.polls(1)
	if got := text("left-touched"); !strings.HasSuffix(got, " ago") {
		t.Errorf("last touch %q", got)
	}
	if text("touches") != touches {
		t.Error("an access within the slack was written")
	}
	for id, least := range map[string]string{"left-deadline": "in 1:5", "left-stored": "in 2:0", "left-cap": "in 9:"} {
		if got := text(id); !strings.HasPrefix(got, least) && got != "in 2:00" && got != "in 2:10" {
			t.Errorf("%s is %q, want about %q", id, got, least)
		}
	}
	// What is announced must not be rewritten all the time.
	n := get(b, chromedp.Evaluate[int](`document.querySelectorAll("output, [aria-live=polite], [aria-live=assertive]").length`))
	timers := get(b, chromedp.Evaluate[int](`document.querySelectorAll("[role=timer]").length`))
	if n != 0 || timers != 4 {
		t.Errorf("%d live regions and %d timers", n, timers)
	}
	changes := get(b, chromedp.Evaluate[int](`new Promise(done => {
		let n = 0;
		const text = (nodes) => Array.from(nodes, (e) => e.textContent).join();
		const watch = new MutationObserver(all => { for (const m of all) if (text(m.removedNodes) === text(m.addedNodes)) n++; });
		for (const e of document.querySelectorAll("[role=timer], [role=alert]")) watch.observe(e, {childList: true});
		setTimeout(() => done(n), 1000);
	})`, chromedp.EvalAwaitPromise))
	if changes > 0 {
		t.Errorf("texts that had not changed were written %d times in a second", changes)
	}
}

func TestBrowserWithoutJavaScript(t *testing.T) {
	s := newSite(t)
	b := newBrowser(t, s)
	call(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(chromedp.Navigate(s.URL))
	html := func() string { return get(b, chromedp.OuterHTML(chromedp.CSS("html"))) }
	b.do(chromedp.SendKeys(chromedp.CSS("#user"), "ann"))
	b.do(chromedp.SendKeys(chromedp.CSS("#password"), password+"\n"))
	b.shows(homePage)
	for _, want := range []string{"in 2:00<", "in 2:20<", "in 10:00<", "Without JavaScript"} {
		if !strings.Contains(html(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(get(b, chromedp.Text(chromedp.CSS("main"))), "Polled") {
		t.Error("says how often it polled, which it does not")
	}
	if dir := os.Getenv("SCREENSHOTS"); dir != "" {
		for _, width := range browser.Widths {
			b.look(width, "light")
			_ = os.WriteFile(filepath.Join(dir, fmt.Sprintf("noscript-%d.png", width)), get(b, chromedp.FullScreenshot(100)), 0o600)
		}
	}
	s.advance(idle + slack + time.Second)
	b.do(chromedp.Click(chromedp.CSS("#renew")))
	b.shows(loginPage)
	if text := get(b, chromedp.Text(chromedp.CSS(".flash"))); !strings.Contains(text, "Your session has ended") {
		t.Errorf("after the session's end: %q", text)
	}
}
