//go:build browser && night

package browser_test

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/slidingttl/slidingttl/examples/internal/browser"
)

// The site of the documents: all its pages are linked, accessible, as wide as a phone and take nothing
// from elsewhere. Its search finds what they say.
func TestBrowserSite(t *testing.T) {
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "npx", "vitepress", "build", "--outDir", dir)
	build.Dir = "../../../site"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the site, for which make npm-night installs what it needs: %v\n%s", err, out)
	}
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	ctx := browser.Open(t)
	evaluate := func(script string) []string {
		t.Helper()
		found, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](script, chromedp.EvalAwaitPromise))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	// Pages that are found, in that order, and once each.
	pages, seen := []string{"/"}, map[string]bool{"/": true}
	for i := 0; i < len(pages); i++ {
		page := pages[i]
		if err := chromedp.Do(ctx, chromedp.Navigate(server.URL+page), chromedp.WaitVisible(chromedp.CSS("main h1"))); err != nil {
			t.Fatal(err)
		}
		if title := evaluate(`[document.title]`); strings.HasPrefix(title[0], "404") {
			t.Errorf("there is no %s", page)
			continue
		}
		for _, link := range evaluate(`[...document.links].filter(a => a.origin == location.origin).map(a => a.pathname)`) {
			if !seen[link] {
				seen[link] = true
				pages = append(pages, link)
			}
		}
		for _, hash := range evaluate(`[...document.links].filter(a => a.pathname == location.pathname && a.hash && !document.getElementById(decodeURIComponent(a.hash.slice(1)))).map(a => a.hash)`) {
			t.Errorf("%s has no %s", page, hash)
		}
		for _, url := range evaluate(`performance.getEntriesByType("resource").map(r => r.name).filter(u => !u.startsWith(location.origin) && !u.startsWith("data:"))`) {
			t.Errorf("%s takes %s", page, url)
		}
		browser.Clean(t, ctx, axe, "site"+strings.ReplaceAll(strings.TrimSuffix(page, ".html"), "/", "-"))
	}
	if len(pages) < 30 {
		t.Errorf("the site has the pages %q", pages)
	}
	if err := chromedp.Do(ctx, chromedp.Click(chromedp.CSS("#local-search button")),
		chromedp.SendKeys(chromedp.CSS("#localsearch-input"), "resurrection"), chromedp.WaitVisible(chromedp.CSS("#localsearch-list .result"))); err != nil {
		t.Fatal(err)
	}
	if found := evaluate(`[...document.querySelectorAll("#localsearch-list .result")].map(a => a.pathname)`); !strings.Contains(strings.Join(found, " "), "/docs/promises") {
		t.Errorf("the search finds %q", found)
	}
}
