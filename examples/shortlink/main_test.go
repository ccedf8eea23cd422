package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/middleware/touch"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) { os.Exit(sqltest.Main(m)) }

func TestLinkLivesWhileFollowed(t *testing.T) {
	for name, database := range map[string]struct {
		dialect sql.Dialect
		server  sqltest.Database
	}{
		"postgres": {sql.PostgreSQL, sqltest.PostgreSQL},
		"mariadb":  {sql.MySQL, sqltest.MariaDB},
		"sqlite":   {sql.SQLite, sqltest.SQLite},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := openTable(t.Context(), sqltest.DB(t, database.server), database.dialect)
			if err != nil {
				t.Fatal(err)
			}
			liveWhileFollowed(t, d, func(now func() time.Time) {
				s, err := d.Sweeper(&sql.SweepOptions{Now: now})
				if err == nil {
					err = s.Sweep(t.Context())
				}
				if err != nil {
					t.Error(err)
				}
			})
		})
	}
	t.Run("memory", func(t *testing.T) {
		d, done, err := open(t.Context(), backend.Choice{Driver: "memory"})
		if err != nil {
			t.Fatal(err)
		}
		defer done()
		liveWhileFollowed(t, d, nil)
	})
}

// liveWhileFollowed: sweep deletes the dead, nil where they go in their own time.
func liveWhileFollowed(t *testing.T, d driver.Driver[string], sweep func(now func() time.Time)) {
	var ahead atomic.Int64
	start := time.Now()
	now := func() time.Time { return start.Add(time.Duration(ahead.Load())) }
	links, err := slidingttl.New(d, policy, &slidingttl.Options[string]{Now: now, TouchWait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	touches, err := touch.New(links, touch.PathValue("id"), &touch.Options{Wait: true})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(routes(links, touches))
	defer server.Close()
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	shorten := func(target string) (int, string) {
		res, err := client.PostForm(server.URL, url.Values{"url": {target}})
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, strings.TrimSpace(string(body))
	}
	follow := func(path string) (int, string) {
		res, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		if res.StatusCode != http.StatusFound && res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("status %d may be kept", res.StatusCode)
		}
		if res.StatusCode == http.StatusGone {
			return res.StatusCode, string(body)
		}
		return res.StatusCode, res.Header.Get("Location")
	}

	for _, bad := range []string{"", "x", "javascript:alert(1)", "/relative"} {
		if status, _ := shorten(bad); status != http.StatusBadRequest {
			t.Errorf("%q: status %d", bad, status)
		}
	}
	_, followed := shorten("https://go.dev/a?b=c")
	_, forgotten := shorten("https://go.dev/")
	for visit := range 12 {
		ahead.Add(int64(29 * day))
		if status, to := follow(followed); status != http.StatusFound || to != "https://go.dev/a?b=c" {
			t.Fatalf("visit %d: %d, %q", visit, status, to)
		}
	}
	if status, page := follow(forgotten); status != http.StatusGone || !strings.Contains(page, "Nobody followed it") {
		t.Errorf("a link that nobody followed: status %d, %q", status, page)
	}
	ahead.Add(int64(17 * day))
	if status, page := follow(followed); status != http.StatusGone || !strings.Contains(page, "It was a year old") {
		t.Errorf("a link of 365 days: status %d, %q", status, page)
	}
	if status, _ := follow("/never"); status != http.StatusNotFound {
		t.Errorf("a link that never was: status %d", status)
	}
	if sweep != nil {
		ahead.Add(int64(31 * day)) // past the retention
		sweep(now)
		for _, path := range []string{forgotten, followed} {
			if status, _ := follow(path); status != http.StatusNotFound {
				t.Errorf("a link that was swept: status %d", status)
			}
		}
	}
	if err := touches.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := links.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// The page at / shortens an address in a browser, and links what it made.
func TestPage(t *testing.T) {
	d, done, err := open(t.Context(), backend.Choice{Driver: "memory"})
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	links, err := slidingttl.New(d, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer links.Close(context.Background())
	touches, err := touch.New(links, touch.PathValue("id"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer touches.Close(context.Background())
	site := routes(links, touches)
	ask := func(method, path, form string) *httptest.ResponseRecorder {
		r, w := httptest.NewRequest(method, path, strings.NewReader(form)), httptest.NewRecorder()
		r.Header.Set("Accept", "text/html,*/*")
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		site.ServeHTTP(w, r)
		return w
	}
	if w := ask("GET", "/", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `<form method="post">`) {
		t.Errorf("the page is %d, %s", w.Code, w.Body)
	}
	made := ask("POST", "/", url.Values{"url": {"https://go.dev/"}}.Encode())
	_, rest, _ := strings.Cut(made.Body.String(), `<a href="`)
	path, _, _ := strings.Cut(rest, `"`)
	if w := ask("GET", path, ""); made.Code != http.StatusCreated || w.Header().Get("Location") != "https://go.dev/" {
		t.Errorf("%q leads to %q", path, w.Header().Get("Location"))
	}
}
