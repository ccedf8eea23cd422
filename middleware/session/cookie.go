package session

import (
	"net/http"
	"strings"
	"time"
)

// cookies reads and makes the manager's cookie.
type cookies struct {
	name     string
	secure   bool
	sameSite http.SameSite
}

func newCookies(o *Options) cookies {
	c := cookies{name: "__Host-" + o.Cookie, secure: true, sameSite: o.SameSite}
	if o.InsecureLocalhost {
		c.name, c.secure = o.Cookie, false
	}
	return c
}

// read returns the token of the request's cookie. A cookie that is malformed, or
// there more than once, is none: which of two was set by whom cannot be told.
func (c *cookies) read(r *http.Request) (t token, ok bool) {
	found := false
	for _, line := range r.Header["Cookie"] {
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ";")
			name, value, _ := strings.Cut(strings.Trim(part, " \t"), "=")
			if name != c.name {
				continue
			}
			if found {
				return token{}, false
			}
			found = true
			t, ok = parseToken(value)
		}
	}
	return t, ok
}

// present reports whether the request has the cookie, good or not.
func (c *cookies) present(r *http.Request) bool { return len(r.CookiesNamed(c.name)) > 0 }

// set returns the cookie for t. Unless until is zero it lasts until then.
func (c *cookies) set(t *token, until, now time.Time) string {
	cookie := http.Cookie{
		Name:     c.name,
		Value:    t.String(),
		Path:     "/",
		Secure:   c.secure,
		HttpOnly: true,
		SameSite: c.sameSite,
	}
	if !until.IsZero() {
		cookie.MaxAge = int((until.Sub(now) + time.Second - 1) / time.Second)
	}
	return cookie.String()
}

// clear returns the cookie that makes the browser drop its own.
func (c *cookies) clear() string {
	return (&http.Cookie{
		Name:     c.name,
		Path:     "/",
		MaxAge:   -1,
		Secure:   c.secure,
		HttpOnly: true,
		SameSite: c.sameSite,
	}).String()
}
