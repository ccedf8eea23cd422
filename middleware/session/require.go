package session

import (
	"errors"
	"net/http"
	"strings"
)

// Require lets through, to the handlers under it, requests of users who are logged
// in. It must be under Middleware or Over. A browser that asks for a page is sent to
// login by 303 See Other; anybody else, and everybody if login is empty, is answered
// 401 Unauthorized.
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
					http.Redirect(w, r, login, http.StatusSeeOther)
					return
				}
				w.Header().Set("WWW-Authenticate", m.challenge(r))
				http.Error(w, http.StatusText(http.StatusUnauthorized), http.StatusUnauthorized)
			}
		})
	}
}

// challenge is the WWW-Authenticate of a 401, which needs one, though none is registered
// for cookies.
func (m *Manager[T]) challenge(r *http.Request) string {
	if q, err := m.of(r.Context()); err == nil && q.transport.Header() == "Authorization" {
		return "Bearer"
	}
	return "Cookie"
}
