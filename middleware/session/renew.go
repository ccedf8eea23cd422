package session

import (
	"bytes"
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Renew gives the session a new token: call it after a change of privilege. The session,
// its ID and its absolute timeout stay. The former token is good for requests that arrive
// within Options.RenewGrace. Requests that renew at the same time, or with the former
// token, make one renewal. Without a session, or if this request's answer has a new token
// anyway, after a Login for instance, Renew does nothing and returns nil.
func (m *Manager[T]) Renew(ctx context.Context) (err error) {
	defer mark(&err)
	q, now, err := m.visit(ctx)
	if err != nil || now == nil {
		return err
	}
	return m.renew(ctx, q, now, nil)
}

// Rotate is Renew that changes the session's data by f in the same write, with the rules of
// Update. With an error the token is not renewed and the data is not changed. ErrEnded says that the request has no session,
// or that another request has renewed its token.
func (m *Manager[T]) Rotate(ctx context.Context, f func(*T) error) (err error) {
	defer mark(&err)
	q, now, err := m.visit(ctx)
	if err != nil {
		return err
	}
	if now == nil {
		return ErrEnded
	}
	if f == nil {
		f = func(*T) error { return nil }
	}
	return m.renew(ctx, q, now, theirs(f))
}

// renew gives the session now a new token. If f is not nil, it changes the data by it too.
func (m *Manager[T]) renew(ctx context.Context, q *request[T], was *current[T], f func(*T) error) error {
	now := was
	switch gives, err := q.gives(now); {
	case err != nil || gives && f == nil:
		return err
	case gives:
		if now, err = m.changed(ctx, now, f, false); err == nil {
			q.refresh(was, now)
		}
		return err
	}
	t, data := now.token.renewed(), now.data
	var before Record
	e, err := m.store.UpdateEntry(ctx, now.key, now.entry, func(r Record) (_ Record, err error) {
		former := !sameHash(now.token.hash(), r.Token) // renewed by another request
		switch {
		case r.Kind != live, former && f != nil:
			return r, ErrEnded
		case former:
			return r, errUnchanged
		}
		before = r
		if f != nil {
			if data, r.Data, err = m.apply(r.Data, f); err != nil && err != errUnchanged {
				return r, err
			}
		}
		r.renew(&t, driver.Floor(m.store.Now()), m.opts.RenewGrace, m.opts.MaxRequest)
		return r, nil
	})
	if errors.Is(err, slidingttl.ErrAmbiguous) {
		// If the token is the session's, the client must have it, or is logged out.
		aside, cancel := undoing(ctx)
		defer cancel()
		if landed, failed := m.store.Peek(aside, now.key); failed == nil && sameHash(t.hash(), landed.Value.Token) {
			e, err = landed, nil
		}
	}
	switch {
	case err == errUnchanged:
		return nil
	case errors.Is(err, slidingttl.ErrNotFound):
		return ErrEnded
	case err != nil:
		return err
	}
	now = &current[T]{key: now.key, token: t, entry: e, data: data}
	if !q.replace(was, now, m.give(now)) {
		m.survived(ctx, m.unrenew(ctx, now, before))
		return ErrHeaderSent
	}
	if m.opts.OnRenewed != nil {
		m.opts.OnRenewed(ctx, m.info(now.key, &now.entry))
	}
	return nil
}

// unrenew gives the session now, whose new token no client got, the one it had before. Its data too, unless another
// request has changed that since.
func (m *Manager[T]) unrenew(ctx context.Context, now *current[T], before Record) error {
	ctx, cancel := undoing(ctx)
	defer cancel()
	_, err := m.store.UpdateEntry(ctx, now.key, now.entry, func(r Record) (Record, error) {
		if r.Kind != live || !sameHash(now.token.hash(), r.Token) {
			return r, errUnchanged
		}
		if bytes.Equal(r.Data, now.entry.Value.Data) {
			r.Data = before.Data
		}
		r.Token, r.Former, r.ChangedAt = before.Token, before.Former, before.ChangedAt
		return r, nil
	})
	if err == errUnchanged || errors.Is(err, slidingttl.ErrNotFound) {
		return nil
	}
	return err
}

// renewalDue reports whether Options.RenewEvery wants a new token for e.
func (m *Manager[T]) renewalDue(e *driver.Entry[Record]) bool {
	made := max(e.CreatedAt, e.Value.ChangedAt)
	return m.opts.RenewEvery > 0 && driver.Floor(m.store.Now()) >= made.Add(m.opts.RenewEvery)
}
