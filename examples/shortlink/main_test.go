package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/middleware/touch"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func TestLinkLivesWhileFollowed(t *testing.T) {
	d, err := memory.New[string](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var ahead atomic.Int64
	start := time.Now()
	links, err := slidingttl.New(d, policy, &slidingttl.Options[string]{
		Now: func() time.Time { return start.Add(time.Duration(ahead.Load())) },
	})
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
		res.Body.Close()
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
	if status, _ := follow(forgotten); status != http.StatusNotFound {
		t.Errorf("a link that nobody followed: status %d", status)
	}
	ahead.Add(int64(17 * day))
	if status, _ := follow(followed); status != http.StatusNotFound {
		t.Errorf("a link of 365 days: status %d", status)
	}
	if err := touches.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if err := links.Close(context.Background()); err != nil {
		t.Error(err)
	}
}
