package session

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is a session as a request sees it.
type Session[T any] struct {
	Info

	// Data is the session's data. The calls of one request share what it points
	// to: do not change it in place, but with Update.
	Data T

	// Renewed says that the request's token is a former one: another request has renewed it, and
	// its answer has the token that the client is to keep.
	Renewed bool
}

// Get returns the session of the request: the zero Session if it has none. The
// first call reads it, and touches it if that is due; later ones answer from memory,
// with what this request has changed since. ErrHeaderSent: the header left before
// the session was first read.
func (m *Manager[T]) Get(ctx context.Context) (_ Session[T], err error) {
	defer mark(&err)
	q, err := m.readable(ctx)
	if err != nil {
		return Session[T]{}, err
	}
	now, err := q.load(ctx)
	if m.opts.Anonymous {
		err = nil
	}
	return m.session(now), err
}

// Refresh is Get that reads the session again, for long requests. A websocket or a stream
// learns whether the session is still alive, and keeps it alive. The zero Session says that
// it has ended.
func (m *Manager[T]) Refresh(ctx context.Context) (_ Session[T], err error) {
	defer mark(&err)
	q, err := m.readable(ctx)
	if err != nil {
		return Session[T]{}, err
	}
	unread := q.retry()
	now, err := q.load(ctx)
	if unread || err != nil || now == nil {
		return m.session(now), err
	}
	f, after, err := q.fetch(ctx, now.token, true)
	if after != nil {
		after()
	}
	if err != nil || f.now == nil {
		return Session[T]{}, err
	}
	q.refresh(now, f.now)
	return m.session(f.now), nil
}

func (m *Manager[T]) session(now *current[T]) Session[T] {
	if now == nil {
		return Session[T]{}
	}
	return Session[T]{
		Info:    m.info(now.key, &now.entry),
		Data:    now.data,
		Renewed: !sameHash(now.token.hash(), now.entry.Value.Token),
	}
}

// Update changes the session's data by f and writes it at once. f is called again
// if another request was faster, each time on a copy of its own, so it must have no
// side effects but on what it is given, and must not call the manager. All of that has 10 s. If f returns
// an error nothing is written and the error is returned as it is. Data that f left
// as it was is not written.
//
// A visitor without a session gets an anonymous one, and its cookie, if f makes of
// the zero T something else.
//
// Errors: ErrEnded, ErrHeaderSent, ErrData, one that matches
// slidingttl.ErrInvalid where the data is over Options.MaxData, the store's. None of
// them leaves a change but the store's slidingttl.ErrAmbiguous, which may.
func (m *Manager[T]) Update(ctx context.Context, f func(*T) error) (err error) {
	defer mark(&err)
	f = theirs(f)
	for {
		q, now, err := m.visit(ctx)
		if err != nil {
			return err
		}
		if now != nil {
			after, err := m.changed(ctx, now, f, false)
			if err == nil {
				q.refresh(now, after)
			}
			return err
		}
		if done, err := m.begin(ctx, q, f); done || err != nil {
			return err
		}
	}
}

// errRenewed says that a session has another token by now.
var errRenewed = errors.New("renewed")

// changed returns the session now with what f makes of its data, written unless it is the same. A
// login that joins the session writes it in any case: should the first submission fail, it does not
// remove the session. errRenewed: the login that joins has a former token of it.
func (m *Manager[T]) changed(ctx context.Context, now *current[T], f func(*T) error, joins bool) (*current[T], error) {
	next := &current[T]{key: now.key, token: now.token}
	var err error
	next.entry, err = m.store.UpdateEntry(ctx, now.key, now.entry, func(r Record) (_ Record, err error) {
		if r.Kind != live {
			return r, ErrEnded
		}
		if joins && !sameHash(now.token.hash(), r.Token) {
			return r, errRenewed
		}
		if next.data, r.Data, err = m.apply(r.Data, f); joins && err == errUnchanged {
			err = nil
		}
		return r, err
	})
	switch {
	case err == errUnchanged:
		next.entry = now.entry
	case errors.Is(err, slidingttl.ErrNotFound):
		return nil, ErrEnded
	case err != nil:
		return nil, err
	}
	return next, nil
}

// begin starts an anonymous session. Not done: another goroutine of the request
// was faster.
func (m *Manager[T]) begin(ctx context.Context, q *request[T], f func(*T) error) (done bool, err error) {
	if q.gaveWay() {
		return true, ErrEnded
	}
	data, encoded, err := m.apply(nil, f)
	if err == errUnchanged {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	if err := q.headerSent(); err != nil {
		return true, err
	}
	now, err := m.insert(ctx, Record{Data: encoded}, data)
	if err != nil {
		return true, err
	}
	if other, err := q.adopt(now); err != nil || other {
		m.discard(ctx, now)
		return err != nil, err
	}
	if m.opts.OnCreated != nil {
		m.opts.OnCreated(ctx, m.info(now.key, &now.entry))
	}
	return true, nil
}

// insert writes r as a new session with a new token.
func (m *Manager[T]) insert(ctx context.Context, r Record, data T) (*current[T], error) {
	now := &current[T]{token: newToken(), data: data}
	now.key = now.token.key(m.opts.KeyPrefix)
	r.Token = now.token.hash()
	r = m.policies.listed(r) // before its user's index is written: until then nobody has the token
	var err error
	if now.entry, err = m.store.InsertEntry(ctx, now.key, r); err != nil {
		return nil, err
	}
	return now, nil
}

// Take returns the value that field points to in the session's data, and sets it to zero.
// It is for a flash message, which is shown once. Of concurrent requests one gets the
// value. Without a session, or without a value, nothing is written.
//
//	msg, err := session.Take(ctx, sessions, func(d *Data) *string { return &d.Flash })
func Take[T, V any](ctx context.Context, m *Manager[T], field func(*T) *V) (V, error) {
	var taken, zero V
	s, err := m.Get(ctx)
	if err != nil || s.ID == "" {
		return zero, err
	}
	err = m.Update(ctx, func(d *T) error {
		v := field(d)
		taken, *v = *v, zero
		return nil
	})
	if err != nil {
		return zero, err
	}
	return taken, nil
}
