package session

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// Require lets through, to the handlers under it, requests of users who are logged
// in. It must be under Middleware or Over. A browser that asks for a page is sent to
// login by 303 See Other, which is told by "next" which page that was: see Next. Anybody else,
// and everybody if login is empty, is answered 401 Unauthorized.
func (m *Manager[T]) Require(login string) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s, err := m.Get(r.Context())
			switch {
			case errors.Is(err, ErrNoMiddleware), errors.Is(err, ErrHeaderSent):
				http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			case err != nil: // answered by ErrorHandler
			case s.User != "":
				next.ServeHTTP(w, r)
			default:
				w.Header().Set("Cache-Control", "no-store")
				if login != "" && strings.Contains(r.Header.Get("Accept"), "text/html") {
					http.Redirect(w, r, withNext(login, r), http.StatusSeeOther)
					return
				}
				w.Header().Set("WWW-Authenticate", m.challenge(r))
				http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			}
		})
	}
}

// Next returns the page that the visitor who logs in by r wanted.
//
// It is the value of "next", from the URL
// that Require sends visitors to or from the form of that page. It is fallback if there is none, or one that is not a
// plain path of this site. An attacker may choose the value, so a site redirects to nothing else.
func Next(r *http.Request, fallback string) string {
	next := r.PostFormValue("next")
	if next == "" {
		next = r.URL.Query().Get("next")
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(next, "/") {
		return fallback
	}
	before, _, _ := strings.Cut(next, "?")
	if strings.Contains(before, "//") || strings.ContainsFunc(next, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }) {
		return fallback
	}
	return next
}

// withNext returns login with the page that r asks for. A form that was sent cannot be asked for again.
func withNext(login string, r *http.Request) string {
	u, err := url.Parse(login)
	if err != nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return login
	}
	to := r.RequestURI // which no http.StripPrefix has cut
	if !strings.HasPrefix(to, "/") {
		to = r.URL.RequestURI()
	}
	q := u.Query()
	q.Set("next", to)
	u.RawQuery = q.Encode()
	return u.String()
}

// challenge is the WWW-Authenticate of a 401, which needs one, though none is registered
// for cookies.
func (m *Manager[T]) challenge(r *http.Request) string {
	if q, err := m.of(r.Context()); err == nil && q.transport.Header() == "Authorization" {
		return "Bearer"
	}
	return "Cookie"
}
