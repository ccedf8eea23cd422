package session

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/middleware/internal/response"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// request is what a manager knows of a request under way.
type request[T any] struct {
	m         *Manager[T]
	r         *http.Request // nil: from Load
	w         response.Writer
	transport Transport
	arrived   driver.Instant
	access    atomic.Int32 // what Options.Passive says

	mu     sync.Mutex // guards the rest; held while the session is read, and while no hook runs
	loaded bool       // found, or failed, is set
	found[T]
	failed error  // nil, or why the session could not be read
	shown  bool   // the client has a token, good or not
	mine   *token // of the session that the request had; nil: read that of the token shown
	aged   bool   // the session's token was found due for renewal, and that was tried
	used   bool   // the answer may depend on the session
	given  *given // what the client is to be given with the header; nil: nothing
	sent   bool   // the header is on its way
	blind  bool   // it left before the session was read, so caches may store the answer
}

// of returns the request that ctx belongs to.
func (m *Manager[T]) of(ctx context.Context) (*request[T], error) {
	q, ok := ctx.Value(m).(*request[T])
	if !ok {
		return nil, ErrNoMiddleware
	}
	return q, nil
}

// readable is of, or ErrHeaderSent if the header left before the session was read.
func (m *Manager[T]) readable(ctx context.Context) (*request[T], error) {
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
	q.askPassive()
	now, _, err := q.read(ctx, true)
	if q.renewal(now) {
		if err := q.m.renew(ctx, q, now, nil); err != ErrEnded {
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
	if q.askPassive(); q.passive() {
		return
	}
	if _, reported, err := q.read(ctx, false); !reported {
		q.m.survived(ctx, err)
	}
}

// read returns the request's session, nil if it has none. The first call reads and touches it. use: the
// answer may depend on the session. reported: OnError has got err.
func (q *request[T]) read(ctx context.Context, use bool) (now *current[T], reported bool, err error) {
	now, first, after, err := q.loadLocked(ctx, use)
	if after != nil {
		after()
	}
	if first && now != nil {
		now, err = q.touchLoaded(ctx, now)
	}
	if first && err != nil && ctx.Err() == nil && q.m.opts.Anonymous {
		q.m.survived(ctx, err)
		reported = true
	}
	return now, reported, err
}

// touchLoaded touches the session now, which the request has just read.
func (q *request[T]) touchLoaded(ctx context.Context, now *current[T]) (*current[T], error) {
	touched, err := q.touch(ctx, now)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.now == now:
		q.now = touched
		q.fail(ctx, err)
	case q.loaded: // another goroutine of the request has changed or ended the session
		return q.now, q.failed
	}
	return touched, err
}

// fail notes whether the session could be read: err is why it could not. The caller holds the lock.
func (q *request[T]) fail(ctx context.Context, err error) {
	// If the caller's context has ended, err says nothing about the store.
	q.loaded, q.failed = err == nil || ctx.Err() == nil, err
}

const (
	unasked = iota // Options.Passive was not called yet
	asking
	active
	passive
)

// askPassive calls Options.Passive, once, with no lock held, for it may use the session: what it
// reads is not touched, and is read again if the request turns out to be an access.
func (q *request[T]) askPassive() {
	if q.m.opts.Passive == nil || q.r == nil || !q.access.CompareAndSwap(unasked, asking) {
		return
	}
	if q.m.opts.Passive(q.r) {
		q.access.Store(passive)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.access.Store(active)
	if q.now != nil && q.given == nil {
		q.loaded, q.now = false, nil
	}
}

// passive reports whether the request must not keep its session alive.
func (q *request[T]) passive() bool {
	a := q.access.Load()
	return a == asking || a == passive
}

// loadLocked is read that calls no hook and touches nothing. first: it has read the session.
func (q *request[T]) loadLocked(ctx context.Context, use bool) (now *current[T], first bool, after func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used = q.used || use
	if q.loaded {
		return q.now, false, nil, q.failed
	}
	var text string
	text, q.shown = q.transport.Token(q.r)
	q.found = found[T]{}
	t, ok := parseToken(text)
	if q.mine != nil {
		t, ok = *q.mine, true
	}
	if ok {
		q.found, after, err = q.find(ctx, t, false)
	}
	if q.mine != nil && err == nil && q.now == nil && q.bad == nil {
		q.ended = true // the request had it, whatever the clocks say
	}
	q.fail(ctx, err)
	return q.now, true, after, err
}

// set makes now the request's session. The caller holds the lock.
func (q *request[T]) set(now *current[T]) {
	q.loaded, q.used, q.now, q.bad, q.ended = true, true, now, nil, false
}

// ending returns the session that a logout or a login ends: the request's, or one that lives for
// another release only; nil if there is none. bad: its data is not the request's to see.
func (q *request[T]) ending(ctx context.Context) (was *current[T], bad bool, err error) {
	if was, err = q.load(ctx); was != nil || err != nil {
		return was, false, err
	}
	q.mu.Lock()
	was = q.bad
	q.mu.Unlock()
	if was == nil {
		was, err = q.m.elsewhere(ctx, q)
	}
	return was, was != nil, err
}

// has reports whether the session under key is the request's, read or not.
func (q *request[T]) has(key string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now != nil {
		return q.now.key == key
	}
	text, _ := q.transport.Token(q.r)
	t, ok := parseToken(text)
	return ok && t.key(q.m.opts.KeyPrefix) == key
}

// mask is the token of was that a second submission of this request shows. This request may have
// renewed it, or begun was.
func (q *request[T]) mask(was *current[T]) token {
	text, _ := q.transport.Token(q.r)
	if t, ok := parseToken(text); ok && t.key(q.m.opts.KeyPrefix) == was.key {
		return t
	}
	return was.token
}

// forget makes the next load read the request's session was again.
func (q *request[T]) forget(was *current[T]) {
	t := q.mask(was)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.loaded, q.now, q.bad, q.mine = false, nil, nil, &t
}

// retry makes the next load read a session again that could not be read. It reports whether
// it does.
func (q *request[T]) retry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.failed != nil {
		q.loaded, q.failed = false, nil
	}
	return !q.loaded
}

// refresh sets what the request knows of the session it has, which is now and was was.
func (q *request[T]) refresh(was, now *current[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.now == nil || q.now.key != now.key {
		return
	}
	overtaken := q.now != was
	now.token = q.now.token
	if q.now = now; overtaken {
		q.reread()
	}
}

// reread makes the next load read the session again: another goroutine of the request has changed it too, and
// nothing says which change was the last. The caller holds the lock.
func (q *request[T]) reread() {
	t := q.now.token
	q.loaded, q.mine = false, &t
}

// successor returns the token of the login that replaced the request's session during the
// request; nil if there is none.
func (q *request[T]) successor() *token {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.replacedBy
}

// gaveWay reports whether the request's session ended during the request.
func (q *request[T]) gaveWay() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ended
}
