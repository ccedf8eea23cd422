package session

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Manager manages the sessions of an application, whose data is of type T. Its
// methods are safe for concurrent use.
//
// Those that take the context of a request want one that passed Middleware, else
// they fail with ErrNoMiddleware. Errors of the store are [*slidingttl.Error]s; a
// context's error passes unchanged.
type Manager[T any] struct {
	opts     Options
	store    *slidingttl.Store[Record]
	policies policies
	cookies  cookies
	reported atomic.Int64 // when something was last logged
}

// New returns a manager that keeps its records in d. opts may be nil; it is
// copied. New does no I/O. The caller keeps d, and closes it after the manager.
//
// An option that breaks its rule, and a T of which JSON would keep nothing, is a
// *slidingttl.InvalidError that names it.
func New[T any](d driver.Driver[Record], opts *Options) (*Manager[T], error) {
	m := &Manager[T]{}
	if opts != nil {
		m.opts = *opts
	}
	var err error
	if m.opts, err = m.opts.validate(); err != nil {
		return nil, err
	}
	if err := checkData[T](); err != nil {
		return nil, err
	}
	if m.opts.ErrorHandler == nil {
		m.opts.ErrorHandler = m.unavailable
	}
	m.policies, m.cookies = newPolicies(&m.opts), newCookies(&m.opts)
	m.store, err = slidingttl.New(d, m.policies.index, &slidingttl.Options[Record]{
		PolicyOf:     m.policies.of,
		Touches:      m.opts.Touches,
		Now:          m.opts.Now,
		OnTouchError: func(ctx context.Context, _ string, err error) { m.survived(ctx, err) },
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Middleware gives the handlers under it their sessions. It reads nothing before
// a handler asks, but with Options.KeepAlive. Under itself it has no effect.
func (m *Manager[T]) Middleware(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Context().Value(m) != nil {
			next.ServeHTTP(w, r)
			return
		}
		if m.opts.InsecureLocalhost && !forLocalhost(r) {
			m.opts.ErrorHandler(w, r, ErrInsecure)
			return
		}
		q := &request[T]{m: m, w: response.Writer{ResponseWriter: w}, arrived: driver.Floor(m.store.Now())}
		q.w.Before = q.beforeHeader
		q.r = r.WithContext(context.WithValue(r.Context(), m, q))
		if m.opts.KeepAlive {
			q.keepAlive(q.r.Context())
		}
		next.ServeHTTP(&q.w, q.r)
		q.w.Begin(http.StatusOK)
	})
}

// Check asks the driver, at start-up, whether its store is configured to keep what
// the policies promise. See [slidingttl.Store.Check].
func (m *Manager[T]) Check(ctx context.Context) error { return m.store.Check(ctx) }

// Stats returns what the store under the manager has done so far.
func (m *Manager[T]) Stats() slidingttl.Stats { return m.store.Stats() }

// Close makes further calls fail and waits for touches under way. See
// [slidingttl.Store.Close].
func (m *Manager[T]) Close(ctx context.Context) error { return m.store.Close(ctx) }

// info describes the session e, stored under key.
func (m *Manager[T]) info(key string, e *driver.Entry[Record]) Info {
	return m.policies.info(idOf(key), e, driver.Floor(m.store.Now()))
}

func (m *Manager[T]) key(id string) string { return m.opts.KeyPrefix + sessionKey + id }

// cookie returns the cookie for t and the session e.
func (m *Manager[T]) cookie(t *token, e *driver.Entry[Record]) string {
	var until time.Time
	if e.Value.Remember {
		until = m.policies.of(e.Value).Cap(e.CreatedAt).Time()
	}
	return m.cookies.set(t, until, m.store.Now())
}
