package session

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is a session as a request sees it.
type Session[T any] struct {
	Info

	// Data is the session's data. The calls of one request share what it points
	// to: do not change it in place, but with Update.
	Data T
}

// Get returns the session of the request: the zero Session if it has none. The
// first call reads it, and touches it if that is due; later ones answer from memory,
// with what this request has changed since.
func (m *Manager[T]) Get(ctx context.Context) (Session[T], error) {
	q, err := m.of(ctx)
	if err != nil {
		return Session[T]{}, err
	}
	now, err := q.load(ctx)
	if err != nil {
		if m.opts.Anonymous {
			m.survived(ctx, err)
			err = nil
		}
		return Session[T]{}, err
	}
	return m.session(now), nil
}

// Refresh is Get, reading the session anew: for requests that last, such as a
// websocket or a stream, to learn whether the session still lives and to keep it
// alive. The zero Session says that it has ended.
func (m *Manager[T]) Refresh(ctx context.Context) (Session[T], error) {
	q, err := m.of(ctx)
	if err != nil {
		return Session[T]{}, err
	}
	now, err := q.load(ctx)
	if err != nil || now == nil {
		return Session[T]{}, err
	}
	e, err := m.store.Peek(ctx, now.key)
	if err == nil && e.Value.Kind == Live && (m.opts.Passive == nil || !m.opts.Passive(q.r)) {
		e, err = m.store.TouchEntry(ctx, now.key, e)
	}
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		return Session[T]{}, nil
	case err != nil:
		return Session[T]{}, err
	case e.Value.Kind != Live:
		return Session[T]{}, nil
	}
	data, err := decode[T](e.Value.Data)
	if err != nil {
		return Session[T]{}, err
	}
	fresh := &current[T]{key: now.key, token: now.token, entry: e, data: data}
	q.refresh(fresh)
	return m.session(fresh), nil
}

func (m *Manager[T]) session(now *current[T]) Session[T] {
	if now == nil {
		return Session[T]{}
	}
	return Session[T]{Info: now.info(&m.policies), Data: now.data}
}

// Update changes the session's data by f and writes it at once. f is called again
// if another request was faster, each time on a copy of its own, so it must have no
// side effects but on what it is given, and must not call the manager. If f returns
// an error nothing is written and the error is returned as it is. Data that f left
// as it was is not written.
//
// A visitor without a session gets an anonymous one, and its cookie, if f makes of
// the zero T something else.
//
// Errors: ErrEnded, ErrHeaderSent, *DataError, one that matches
// slidingttl.ErrInvalid where the data is over Options.MaxData, the store's. None of
// them leaves a change.
func (m *Manager[T]) Update(ctx context.Context, f func(*T) error) error {
	q, err := m.of(ctx)
	if err != nil {
		return err
	}
	for {
		now, err := q.load(ctx)
		if err != nil {
			return err
		}
		if now != nil {
			return m.update(ctx, q, now, f)
		}
		if done, err := m.begin(ctx, q, f); done || err != nil {
			return err
		}
	}
}

// update changes the data of the session now.
func (m *Manager[T]) update(ctx context.Context, q *request[T], now *current[T], f func(*T) error) error {
	var data T
	e, err := m.store.UpdateEntry(ctx, now.key, now.entry, func(r Record) (_ Record, err error) {
		if r.Kind != Live {
			return r, ErrEnded
		}
		data, r.Data, err = m.apply(r.Data, f)
		return r, err
	})
	switch {
	case err == errUnchanged:
		e = now.entry
	case errors.Is(err, slidingttl.ErrNotFound):
		return ErrEnded
	case err != nil:
		return err
	}
	q.refresh(&current[T]{key: now.key, token: now.token, entry: e, data: data})
	return nil
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
		m.survived(ctx, m.store.Delete(ctx, now.key))
		return err != nil, err
	}
	return true, nil
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
	q.now, q.cookie = now, q.m.cookie(&now.token, &now.entry)
	return false, nil
}

// insert writes r as a new session with a new token.
func (m *Manager[T]) insert(ctx context.Context, r Record, data T) (*current[T], error) {
	now := &current[T]{token: newToken(), data: data}
	now.key = now.token.key(m.opts.KeyPrefix)
	r.Token = now.token.hash()
	var err error
	if now.entry, err = m.store.InsertEntry(ctx, now.key, r); err != nil {
		return nil, err
	}
	return now, nil
}

// errUnchanged ends an update that has nothing to write.
var errUnchanged = errors.New("unchanged")

// apply runs f on a copy of its own of the encoded data. It returns errUnchanged,
// with the data, if f left that as it was.
func (m *Manager[T]) apply(was json.RawMessage, f func(*T) error) (T, json.RawMessage, error) {
	var zero T
	data, err := decode[T](was)
	if err != nil {
		return zero, nil, err
	}
	if f != nil {
		if err := f(&data); err != nil {
			return zero, nil, err
		}
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return zero, nil, &DataError{Op: "encode", Err: err}
	}
	if len(was) == 0 {
		if was, err = json.Marshal(zero); err != nil {
			return zero, nil, &DataError{Op: "encode", Err: err}
		}
	}
	if bytes.Equal(encoded, was) {
		return data, encoded, errUnchanged
	}
	if len(encoded) > m.opts.MaxData {
		return zero, nil, &slidingttl.InvalidError{
			Field: "session data",
			Value: fmt.Sprintf("%d bytes", len(encoded)),
			Rule:  fmt.Sprintf("must be at most Options.MaxData, %d bytes", m.opts.MaxData),
		}
	}
	return data, encoded, nil
}

// Take returns the value that field points to in the session's data and leaves the
// zero V there: a flash message, shown once. Of concurrent requests one gets it.
// Where there is no session, or no value, nothing is written.
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
