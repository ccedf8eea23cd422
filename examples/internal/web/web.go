// Package web is what the servers of the examples share.
package web

import (
	"context"
	"net/http"
	"time"
)

// Within gives each request a deadline, as docs/operations.md asks for: some clients of a store wait for it as
// long as they may.
func Within(d time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		h.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Shutdown gives the requests under way 10 s to end.
func Shutdown(s *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		_ = s.Close()
	}
}
