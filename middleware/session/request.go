package session

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"

	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// request is what a manager knows of a request under way.
type request[T any] struct {
	m *Manager[T]
	r *http.Request
	w response.Writer

	mu     sync.Mutex  // guards the rest; held while the session is read, and over no hook
	loaded bool        // now is settled
	now    *current[T] // nil: no session
	ended  bool        // by a login elsewhere: not to be followed by an anonymous session
	failed error       // the last attempt to load
	used   bool        // the answer may depend on the cookie
	cookie string      // to be set with the header
	sent   bool        // the header is on its way
}

// current is a session as a request last saw it. It is never changed, but
// replaced.
type current[T any] struct {
	key   string
	token token // the request's, or the one it was given
	entry driver.Entry[Record]
	data  T
}

func (c *current[T]) info(p *policies) Info { return p.info(idOf(c.key), &c.entry) }

// load returns the request's session, nil if it has none, reading it if that was
// not done.
func (q *request[T]) load(ctx context.Context) (*current[T], error) {
	now, after, err := q.loadLocked(ctx)
	if after != nil {
		after()
	}
	return now, err
}

// loadLocked is load but for the hook, which may want the session itself.
func (q *request[T]) loadLocked(ctx context.Context) (now *current[T], after func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.loaded {
		return q.now, nil, nil
	}
	now, after, err = q.read(ctx)
	q.failed = err
	if err == nil {
		q.loaded, q.now = true, now
	}
	return now, after, err
}

// read finds the session of the request's cookie.
func (q *request[T]) read(ctx context.Context) (now *current[T], after func(), err error) {
	q.used = true
	m := q.m
	t, ok := m.cookies.read(q.r)
	if !ok {
		return nil, nil, nil
	}
	key := t.key(m.opts.KeyPrefix)
	e, err := m.store.Peek(ctx, key)
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case e.Value.Kind == Ended:
		q.ended = true
		return nil, nil, nil
	case e.Value.Kind != Live:
		return nil, nil, nil
	}
	if !m.accepts(&t, &e) {
		info := m.policies.info(idOf(key), &e)
		return nil, func() {
			if m.opts.OnReplay != nil {
				m.opts.OnReplay(ctx, info)
			}
		}, nil
	}
	now = &current[T]{key: key, token: t, entry: e}
	var bad error
	if now.data, bad = decode[T](e.Value.Data); bad != nil {
		return nil, func() { m.survived(ctx, bad) }, nil
	}
	if m.opts.Passive == nil || !m.opts.Passive(q.r) {
		if now.entry, err = m.store.TouchEntry(ctx, key, e); err != nil {
			return nil, nil, err
		}
	}
	return now, nil, nil
}

// accepts reports whether t is the session's token, or was until a moment ago.
func (m *Manager[T]) accepts(t *token, e *driver.Entry[Record]) bool {
	h := t.hash()
	if sameHash(h, e.Value.Token) {
		return true
	}
	return sameHash(h, e.Value.Previous) &&
		driver.Floor(m.store.Now()) < e.Value.RenewedAt.Add(m.opts.RenewGrace)
}

// beforeHeader puts what is to be said of the session into the header.
func (q *request[T]) beforeHeader(int) (answered bool) {
	q.mu.Lock()
	q.sent = true
	header := q.w.Header()
	if q.used {
		header.Add("Vary", "Cookie")
	}
	failed := q.failed
	if failed != nil && q.m.opts.Anonymous {
		failed = nil
	}
	switch {
	case q.cookie != "":
		header.Add("Set-Cookie", q.cookie)
		header.Set("Cache-Control", "no-store")
	case failed != nil, q.now != nil && header.Get("Cache-Control") == "":
		header.Set("Cache-Control", "no-store")
	}
	q.mu.Unlock()
	if failed == nil {
		return false
	}
	// What the handler said of its answer does not hold for this one.
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding", "Etag", "Last-Modified", "Location"} {
		header.Del(name)
	}
	q.m.opts.ErrorHandler(q.w.ResponseWriter, q.r, failed)
	return true
}

// replace makes now the request's session, and cookie, unless it is empty, its
// cookie. False: it is too late for a cookie.
func (q *request[T]) replace(now *current[T], cookie string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if cookie != "" && q.sent {
		return false
	}
	q.loaded, q.used, q.now, q.ended = true, true, now, false
	if cookie != "" {
		q.cookie = cookie
	}
	return true
}

// refresh sets what the request knows of the session it has.
func (q *request[T]) refresh(now *current[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now != nil && q.now.key == now.key {
		now.token = q.now.token
		q.now = now
	}
}

// gaveWay reports whether the request's session ended for a login elsewhere.
func (q *request[T]) gaveWay() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// headerSent returns ErrHeaderSent if it is too late for a cookie.
func (q *request[T]) headerSent() error {
	if q.w.Begun() {
		return ErrHeaderSent
	}
	return nil
}

func decode[T any](data []byte) (T, error) {
	var v T
	if len(data) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, &DataError{Op: "decode", Err: err}
	}
	return v, nil
}
