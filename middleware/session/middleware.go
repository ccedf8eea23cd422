package session

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Middleware gives the handlers under it their sessions, by cookie. Without
// Options.KeepAlive it reads nothing before a handler asks. A Middleware within another has
// no effect.
func (m *Manager[T]) Middleware(next http.Handler) http.Handler { return m.Over(&m.cookies)(next) }

// Over is Middleware with another transport. The innermost counts, so that a part of a site
// can have its own:
//
//	mux.Handle("/api/", sessions.Over(session.Bearer{})(api))
//	http.ListenAndServeTLS(addr, cert, key, sessions.Middleware(mux))
func (m *Manager[T]) Over(t Transport) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if q, err := m.of(r.Context()); err == nil && same(q.transport, t) {
				next.ServeHTTP(w, r)
				return
			}
			if m.opts.InsecureLocalhost && !forLocalhost(r) {
				m.opts.ErrorHandler(w, r, ErrInsecure)
				return
			}
			q, ctx := m.begun(r.Context(), t)
			q.r = r.WithContext(ctx)
			q.w = response.Writer{ResponseWriter: w, Before: q.beforeHeader, Refuses: q.refuses}
			defer func() {
				if !q.w.Begun() { // of a panic, whose answer is that of the code which recovers it
					q.writeLines(http.StatusInternalServerError)
				}
			}()
			if m.opts.KeepAlive {
				q.keepAlive(ctx)
			}
			next.ServeHTTP(&q.w, q.r)
			q.w.Begin(http.StatusOK)
		})
	}
}

// same reports whether two transports are equal.
func same(a, b Transport) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.ValueOf(a).Comparable() && a == b
}

// begun returns a request that arrives now, and its context.
func (m *Manager[T]) begun(ctx context.Context, t Transport) (*request[T], context.Context) {
	q := &request[T]{m: m, transport: t, arrived: driver.Floor(m.store.Now())}
	return q, context.WithValue(ctx, m, q)
}

// Load returns a context for a request with token that did not come through Middleware. It
// is for other protocols, such as messages on a socket. An empty or malformed token is no
// session. Load does no I/O.
func (m *Manager[T]) Load(ctx context.Context, token string) context.Context {
	_, ctx = m.begun(ctx, shown(token))
	return ctx
}

// Commit returns the token that the client must send from now on, and whether it changed.
// If it changed to the empty token, the client must forget its token. The session itself is
// already written. After Commit, a call that needs a new token fails with ErrHeaderSent.
func (m *Manager[T]) Commit(ctx context.Context) (token string, changed bool, err error) {
	q, err := m.of(ctx)
	if err != nil {
		return "", false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = true
	if q.given == nil {
		return "", false, nil
	}
	return q.given.token, true, nil
}

// shown is the Transport of a token that Load was given.
type shown string

func (t shown) Token(*http.Request) (string, bool)      { return string(t), t != "" }
func (t shown) Give(http.Header, string, time.Duration) {}
func (t shown) Header() string                          { return "" }
