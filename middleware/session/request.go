package session

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// request is what a manager knows of a request under way.
type request[T any] struct {
	m         *Manager[T]
	r         *http.Request // nil: from Load
	w         response.Writer
	transport Transport
	arrived   driver.Instant

	mu     sync.Mutex  // guards the rest; held while the session is read, and over no hook
	loaded bool        // now, or failed, is settled
	now    *current[T] // nil: no session
	bad    *current[T] // a session whose data does not decode, which counts as none but for its end
	ended  bool        // while the request was under way: not to be followed by an anonymous session
	heir   *token      // of the login that the session gave way to
	aged   bool        // its token was found due for renewal, and that was tried
	failed error       // nil, or why the session could not be read
	shown  bool        // the client has a token, good or not
	used   bool        // the answer may depend on it
	given  *given      // what the client is to be given with the header; nil: nothing
	sent   bool        // the header is on its way
	blind  bool        // it left before anyone looked at the session, and says so to caches
}

// current is a session as a request last saw it. It is never changed, but
// replaced.
type current[T any] struct {
	key   string
	token token // the request's, or the one it was given
	entry driver.Entry[Record]
	data  T
}

// of returns the request that ctx belongs to.
func (m *Manager[T]) of(ctx context.Context) (*request[T], error) {
	q, ok := ctx.Value(m).(*request[T])
	if !ok {
		return nil, ErrNoMiddleware
	}
	return q, nil
}

// look is of, for a caller whose answer will depend on the session.
func (m *Manager[T]) look(ctx context.Context) (*request[T], error) {
	q, err := m.of(ctx)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.blind {
		return nil, ErrHeaderSent
	}
	return q, nil
}

// visit is of, with the request's session, nil if it has none.
func (m *Manager[T]) visit(ctx context.Context) (*request[T], *current[T], error) {
	q, err := m.of(ctx)
	if err != nil {
		return nil, nil, err
	}
	now, err := q.load(ctx)
	return q, now, err
}

// load returns the request's session, nil if it has none, reading it if that was
// not done.
func (q *request[T]) load(ctx context.Context) (*current[T], error) {
	now, after, err := q.loadLocked(ctx, true)
	if after != nil {
		after()
	}
	if q.renewal(now) {
		if err := q.m.renew(ctx, q, now); err != ErrEnded {
			q.m.survived(ctx, err)
		}
		return q.load(ctx)
	}
	return now, err
}

// renewal reports whether now is to be renewed, once.
func (q *request[T]) renewal(now *current[T]) bool {
	if q.m.opts.RenewEvery == 0 || now == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aged || q.sent || q.passive() || !q.m.renewalDue(&now.entry) {
		return false
	}
	q.aged = true
	return true
}

// keepAlive counts the request as an access.
func (q *request[T]) keepAlive(ctx context.Context) {
	if q.passive() {
		return
	}
	_, after, err := q.loadLocked(ctx, false)
	if after != nil {
		after()
	} else {
		q.m.survived(ctx, err)
	}
}

// passive reports whether the request must not keep its session alive.
func (q *request[T]) passive() bool {
	return q.m.opts.Passive != nil && q.r != nil && q.m.opts.Passive(q.r)
}

// loadLocked is load but for the hook, which may want the session itself. use: the
// answer may depend on what is found.
func (q *request[T]) loadLocked(ctx context.Context, use bool) (now *current[T], after func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.used || use
	if q.loaded {
		return q.now, nil, q.failed
	}
	var f found[T]
	var text string
	text, q.shown = q.transport.Token(q.r)
	if t, ok := parseToken(text); ok {
		f, err = q.fetch(ctx, t, false)
	}
	// A caller that gave up says nothing of the store.
	q.loaded, q.failed = err == nil || ctx.Err() == nil, err
	q.now, q.bad, q.ended, q.heir = f.now, f.bad, f.ended, f.heir
	if err != nil && q.loaded && q.m.opts.Anonymous {
		f.after = func() { q.m.survived(ctx, err) }
	}
	return f.now, f.after, err
}

// found is what a token leads to.
type found[T any] struct {
	now   *current[T] // nil: no session
	bad   *current[T] // one whose data does not decode
	ended bool        // the session, or the token's right to it, while the request was under way
	heir  *token      // of the login that the session then gave way to
	after func()      // a hook to be called without the lock; nil: none
}

// fetch reads the session of t, and touches it if that is due. proven: the right to
// it needs no further proof.
func (q *request[T]) fetch(ctx context.Context, t token, proven bool) (f found[T], err error) {
	m := q.m
	now := &current[T]{key: t.key(m.opts.KeyPrefix), token: t}
	now.entry, err = m.store.Peek(ctx, now.key)
	r := &now.entry.Value
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		// Meanwhile the client may have begun another session.
		f.ended = driver.Floor(m.store.Now()) >= q.arrived.Add(m.opts.RenewGrace)
		return f, nil
	case err != nil:
		return f, err
	case r.Kind == ended:
		f.ended = q.arrived < r.ChangedAt.Add(m.opts.RenewGrace)
		if f.ended && r.Heir != nil {
			heir := t.veil(r.Heir)
			f.heir = &heir
		}
		return f, nil
	case r.Kind != live:
		return f, nil
	case !proven && !r.accepts(&t, q.arrived):
		if f.ended = q.arrived < r.ChangedAt; !f.ended && m.opts.OnReplay != nil {
			info := m.info(now.key, &now.entry)
			f.after = func() { m.opts.OnReplay(ctx, info) }
		}
		return f, nil
	}
	var bad error
	if now.data, bad = decode[T](r.Data); bad != nil {
		f.bad, f.after = now, func() { m.survived(ctx, bad) }
		return f, nil
	}
	if !q.passive() {
		if now.entry, err = m.store.TouchEntry(ctx, now.key, now.entry); err != nil {
			return f, err
		}
	}
	f.now = now
	return f, nil
}

// beforeHeader puts what is to be said of the session into the header.
func (q *request[T]) beforeHeader(status int) (answered bool) {
	q.mu.Lock()
	q.sent, q.blind = true, !q.used && status != http.StatusSwitchingProtocols
	header := q.w.Header()
	if q.used {
		header.Add("Vary", q.transport.Header())
	}
	failed := q.failed
	if q.m.opts.Anonymous || !q.used {
		failed = nil
	}
	switch {
	case q.given != nil:
		q.transport.Give(header, q.given.token, q.given.last)
		header.Set("Cache-Control", "no-store")
	case failed != nil, q.used && q.now != nil && header.Get("Cache-Control") == "":
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

// replace makes now the request's session and gives it to the client. False: it is
// too late for that, and nothing was done.
func (q *request[T]) replace(now *current[T], g *given) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return false
	}
	q.set(now)
	q.given = g
	return true
}

// drop leaves the request without a session, and its client without a token, unless
// it is too late for that or the token may be another session's by now.
func (q *request[T]) drop(had bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.sent && (had || q.shown && !q.ended) {
		q.given = &given{}
	}
	q.set(nil)
}

// set settles that the request's session is now. The caller holds the lock.
func (q *request[T]) set(now *current[T]) {
	q.loaded, q.used, q.now, q.bad, q.ended = true, true, now, nil, false
}

// ending returns the session that a logout or a login ends: the request's, also if
// its data does not decode; nil if it has none.
func (q *request[T]) ending(ctx context.Context) (was *current[T], bad bool, err error) {
	if was, err = q.load(ctx); was != nil || err != nil {
		return was, false, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.bad, q.bad != nil, nil
}

// forget has the request's session read anew.
func (q *request[T]) forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loaded, q.now, q.bad = false, nil, nil
}

// retry has a session that could not be read asked for again. It reports whether
// the next load reads.
func (q *request[T]) retry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		q.loaded, q.failed = false, nil
	}
	return !q.loaded
}

// adopt makes the anonymous session now the request's, unless it has another by
// now, or it is too late for a cookie.
func (q *request[T]) adopt(now *current[T]) (other bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.now != nil:
		return true, nil
	case q.sent:
		return false, ErrHeaderSent
	}
	q.now, q.given = now, q.m.give(now)
	return false, nil
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

// successor returns the token of the login that the request's session gave way to
// while it was under way; nil if there is none.
func (q *request[T]) successor() *token {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.heir
}

// gaveWay reports whether the request's session ended while it was under way.
func (q *request[T]) gaveWay() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}

// headerSent returns ErrHeaderSent if it is too late for a cookie.
func (q *request[T]) headerSent() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.sent {
		return ErrHeaderSent
	}
	return nil
}
