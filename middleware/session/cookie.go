package session

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// maxAge is how long browsers keep a cookie (RFC 6265bis, section 5.5).
const maxAge = 400 * 24 * time.Hour

// cookies is the Transport of browsers: the manager's cookie.
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

// Token implements Transport. A cookie that occurs more than once counts as none: nothing
// tells which server set which.
func (c *cookies) Token(r *http.Request) (token string, shown bool) {
	for _, line := range r.Header["Cookie"] {
		for line != "" {
			var part string
			part, line, _ = strings.Cut(line, ";")
			name, value, _ := strings.Cut(strings.Trim(part, " \t"), "=")
			if name != c.name {
				continue
			}
			if shown {
				return "", true
			}
			token, shown = value, true
		}
	}
	return token, shown
}

// Give implements Transport.
func (c *cookies) Give(header http.Header, token string, last time.Duration) {
	cookie := http.Cookie{
		Name:     c.name,
		Value:    token,
		Path:     "/",
		Secure:   c.secure,
		HttpOnly: true,
		SameSite: c.sameSite,
		MaxAge:   int(math.Ceil(min(last, maxAge).Seconds())),
	}
	if token == "" {
		cookie.MaxAge = -1
	}
	header.Add("Set-Cookie", cookie.String())
}

// Header implements Transport.
func (c *cookies) Header() string { return "Cookie" }
