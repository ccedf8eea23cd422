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

// Serve runs listen, which is a method of s that serves, until ctx ends. Then it gives the requests under way 10 s to
// end. It returns when they have ended, and not when listen does, as their shutdown begins: only then may their
// store be closed.
func Serve(ctx context.Context, s *http.Server, listen func() error) error {
	failed := make(chan error, 1)
	go func() { failed <- listen() }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if s.Shutdown(ctx) != nil {
		return s.Close()
	}
	return nil
}
