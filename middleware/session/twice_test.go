package session_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// given is the cookie that a reply sets, as the browser sends it.
func given(r reply) string {
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	return cookie
}

// TestLoginTwice submits a login twice, as an impatient click does: the browser
// keeps the cookie of either answer.
func TestLoginTwice(t *testing.T) {
	s := newSite(t, nil)
	b := s.browser()
	b.ok("/add?item=a")
	anonymous := b.cookie()
	first := given(b.with("/login?user=ann", anonymous))
	b.with("/add?item=b", first)
	second := given(b.with("/login?user=ann", anonymous))
	for name, cookie := range map[string]string{"first": first, "second": second} {
		if r := b.with("/get", cookie); r.body != "ann/0/a,b" {
			t.Errorf("with the cookie of the %s answer: %q", name, r.body)
		}
	}
	if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
		t.Errorf("%d devices, %v", len(list), err)
	}

	other := given(b.with("/login?user=bob", anonymous))
	if r := b.with("/get", other); r.body != "bob/0/" {
		t.Errorf("another user's login with the same cookie opens %q", r.body)
	}
	if r := b.with("/get", first); r.body != "ann/0/a,b" {
		t.Errorf("after another user's login ann's session holds %q", r.body)
	}

	b.with("/logout", first)
	third := given(b.with("/login?user=ann", anonymous))
	if r := b.with("/get", third); r.body != "ann/0/" || third == first {
		t.Errorf("a login after the logout opens %q", r.body)
	}
	s.clock.Advance(time.Minute)
	fourth := given(b.with("/login?user=ann", anonymous))
	if r := b.with("/get", fourth); r.body != "ann/0/" || fourth == third {
		t.Errorf("a login with a cookie from long before joins another: %q", r.body)
	}
}

func TestLoginManyTimesAtOnce(t *testing.T) {
	for _, before := range []string{"/add?item=a", "/login?user=ann", "/login?user=bob"} {
		s := newSite(t, nil)
		b := s.browser()
		b.ok(before)
		b.ok("/add?item=b")
		former := b.cookie()
		want := map[string]string{"/add?item=a": "ann/0/a,b", "/login?user=ann": "ann/0/b", "/login?user=bob": "ann/0/"}[before]
		var mu sync.Mutex
		var cookies []string
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				r := b.with("/login?user=ann", former)
				if r.status != http.StatusOK {
					t.Errorf("%d %s", r.status, r.body)
				}
				mu.Lock()
				defer mu.Unlock()
				cookies = append(cookies, given(r))
			})
		}
		wg.Wait()
		for _, c := range cookies {
			if r := b.with("/get", c); r.body != want {
				t.Errorf("after %s: %q, want %q", before, r.body, want)
			}
		}
		if list, err := s.sessions.List(t.Context(), "ann"); err != nil || len(list) != 1 {
			t.Errorf("after %s: %d devices, %v", before, len(list), err)
		}
		if r := b.with("/get", former); r.body != "/0/" {
			t.Errorf("after %s the former session opens %q", before, r.body)
		}
	}
}
