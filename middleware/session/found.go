package session

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// current is a session as a request last saw it. It is never changed, but
// replaced.
type current[T any] struct {
	key   string
	token token // the request's, or the one it was given
	entry driver.Entry[Record]
	data  T
}

// found is the session that a token gives access to.
type found[T any] struct {
	now        *current[T] // nil: no session
	bad        *current[T] // a session whose data does not decode; it can only be ended
	ended      bool        // the session, or the token, ended during the request: it gets no anonymous session
	replacedBy *token      // of the login that replaced the session
}

// fetch is find that touches the session. No lock is held: a touch calls hooks.
func (q *request[T]) fetch(ctx context.Context, t token, proven bool) (f found[T], after func(), err error) {
	f, after, err = q.find(ctx, t, proven)
	if f.now != nil {
		f.now, err = q.touch(ctx, f.now)
	}
	return f, after, err
}

// find reads the session of t. proven: the secret need not be checked again. after is a hook to
// call without the lock; nil: none.
func (q *request[T]) find(ctx context.Context, t token, proven bool) (f found[T], after func(), err error) {
	m := q.m
	now := &current[T]{key: t.key(m.opts.KeyPrefix), token: t}
	now.entry, err = m.store.Peek(ctx, now.key)
	r := &now.entry.Value
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		f.ended = q.slow()
		return f, nil, nil
	case err != nil:
		return f, nil, err
	case r.Kind == ended:
		until := r.ChangedAt
		if r.ReplacedBy != nil {
			// The client may not have the login's answer yet, with the cookie that replaces this one.
			until = until.Add(m.opts.RenewGrace)
		}
		if q.arrived < until && r.ReplacedBy != nil {
			replacedBy := t.veil(r.ReplacedBy)
			f.replacedBy = &replacedBy
		}
		f.ended = q.arrived < until || q.slow()
		return f, nil, nil
	case r.Kind != live:
		return f, nil, nil
	case !proven && !r.accepts(&t, q.arrived):
		if f.ended = q.arrived < r.ChangedAt; !f.ended && m.opts.OnReplay != nil {
			info := m.info(now.key, &now.entry)
			after = func() { m.opts.OnReplay(ctx, info) }
		}
		return f, after, nil
	}
	if bad := decode(r.Data, &now.data); bad != nil {
		f.bad = now
		return f, func() { m.survived(ctx, bad) }, nil
	}
	f.now = now
	return f, nil, nil
}

// touch returns the session now, touched if that is due, and listed if its user's index may not
// outlast it. No lock is held: it calls hooks.
func (q *request[T]) touch(ctx context.Context, now *current[T]) (*current[T], error) {
	if q.passive() {
		return now, nil
	}
	m := q.m
	if r := &now.entry.Value; !m.policies.outlasted(r) && m.listings.begin(r.User) {
		listed := *now
		now = &listed
		bounded, cancel := context.WithTimeout(ctx, share(ctx, listing))
		err := m.list(bounded, now)
		cancel()
		if err == nil || errors.Is(ctx.Err(), context.Canceled) {
			m.listings.forget(r.User)
		}
		m.survived(ctx, err)
	}
	e, err := m.store.TouchEntry(ctx, now.key, now.entry)
	if err != nil {
		return nil, err
	}
	if e.Meta != now.entry.Meta {
		now = &current[T]{now.key, now.token, e, now.data}
	}
	return now, nil
}

// slow reports whether the request took so long to ask for its session that the client
// may have begun another one meanwhile.
func (q *request[T]) slow() bool {
	return driver.Floor(q.m.store.Now()) >= q.arrived.Add(q.m.opts.RenewGrace)
}
