//go:build browser

package main

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/slidingttl/slidingttl/examples/internal/browser"
)

const axe = "../sessions/node_modules/axe-core/axe.min.js"

// The pages with events of all stages, as people meet them.
func TestBrowserPagesAreAccessible(t *testing.T) {
	s := newSite(t, inSQLite(t))
	server := httptest.NewServer(s.handler())
	defer server.Close()
	ctx := browser.Open(t)
	show := func(path, name string) {
		t.Helper()
		if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+path)); err != nil {
			t.Fatal(err)
		}
		browser.Clean(t, ctx, axe, name)
	}
	show("/", "empty")
	s.until(-70)
	old := s.begin("Founding")
	s.until(-40)
	s.begin("Rehearsal, the second")
	s.until(-3)
	ended := s.begin("An event with a name that is as long as it may be, which is eighty characters..")
	s.until(-1)
	active := s.begin("Festival")
	s.begin("Launch")
	for _, text := range []string{"Who comes?", "We all do, and bring Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichensammlungen along."} {
		ok(t, s.Comment(t.Context(), active, text))
		ok(t, s.Comment(t.Context(), ended, text))
	}
	ok(t, s.End(t.Context(), ended))
	s.until(0)
	s.buried(old)
	s.visit(active)
	show("/", "all")
	show("/event/"+active, "active")
	show("/event/"+ended, "ended")
	show("/event/"+old, "archived")
	show("/event/another", "none")
}
