package session

import (
	"bytes"
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"time"
)

// Reason is why a session ended.
type Reason string

const (
	ReasonLogout  Reason = "logout"  // Destroy
	ReasonLogin   Reason = "login"   // a Login began another in its place
	ReasonRevoked Reason = "revoked" // Revoke or RevokeAll
	ReasonEvicted Reason = "evicted" // a Login beyond Options.MaxPerUser
)

// Destroy logs out: it ends the session. The client forgets its token, unless the response
// has begun. Without a session it only does the latter. A later Update begins an anonymous
// session.
func (m *Manager[T]) Destroy(ctx context.Context) (err error) {
	defer mark(&err)
	q, err := m.of(ctx)
	if err != nil {
		return err
	}
	was, _, err := q.ending(ctx)
	if err != nil {
		return err
	}
	if was != nil {
		if err := m.end(ctx, was.key, &was.entry, ReasonLogout); err != nil {
			return err
		}
	}
	q.drop(was != nil)
	return nil
}

// elsewhere returns the session of q's token that this manager's policies have ended, and that
// lives by those of another release; nil if there is none.
func (m *Manager[T]) elsewhere(ctx context.Context, q *request[T]) (*current[T], error) {
	text, _ := q.transport.Token(q.r)
	t, ok := parseToken(text)
	if !ok {
		return nil, nil
	}
	key := t.key(m.opts.KeyPrefix)
	e, err := m.stored.Peek(ctx, key)
	if errors.Is(err, slidingttl.ErrNotFound) || err == nil && (e.Value.Kind != live || !e.Value.accepts(&t, q.arrived)) {
		return nil, nil
	}
	return &current[T]{key: key, token: t, entry: e}, err
}

// end ends the session e, if it is alive, and removes it from its user's index. A failed
// write of the index is no failure: readers look up what it lists.
func (m *Manager[T]) end(ctx context.Context, key string, e *driver.Entry[Record], why Reason) error {
	if _, err := m.bury(ctx, key, e, nil, why); err != nil && err != ErrEnded {
		return err
	}
	if user := e.Value.User; user != "" {
		m.survived(ctx, m.delist(ctx, user, idOf(key)))
	}
	return nil
}

// errChanged says that another request has changed the data of a session that a login replaces.
var errChanged = errors.New("changed")

// bury replaces the session e by a mark of its end and returns the former record. ErrEnded:
// it had ended already. errChanged, only with replacedBy: it has other data than e.
func (m *Manager[T]) bury(ctx context.Context, key string, e *driver.Entry[Record], replacedBy []byte, why Reason) (was Record, err error) {
	mark := func() Record {
		return Record{Kind: ended, ChangedAt: driver.Floor(m.store.Now()), ReplacedBy: replacedBy}
	}
	_, err = m.store.UpdateEntry(ctx, key, *e, func(r Record) (Record, error) {
		if was = r; r.Kind != live {
			return r, ErrEnded
		}
		if replacedBy != nil && !bytes.Equal(r.Data, e.Value.Data) {
			return r, errChanged // the mark lets others into the new session, whose data must be whole by then
		}
		return mark(), nil
	})
	if errors.Is(err, slidingttl.ErrNotFound) {
		// It is dead here, and may live for another server, which has requests of it under way.
		there, failed := m.stored.Peek(ctx, key)
		if failed == nil && there.Value.Kind == live {
			was, failed = there.Value, m.store.Insert(ctx, key, mark())
		} else if failed == nil {
			failed = ErrEnded
		}
		if err = failed; errors.Is(err, slidingttl.ErrNotFound) || errors.Is(err, slidingttl.ErrExists) {
			err = ErrEnded
		}
	}
	if err == nil && m.opts.OnEnded != nil {
		m.opts.OnEnded(ctx, m.info(key, &driver.Entry[Record]{Value: was, Meta: e.Meta}), why)
	}
	return was, err
}

// undoing returns a context for taking back what was written, or learning whether it was. It outlasts
// the request, whose end is often the reason.
func undoing(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// discard is remove, for a session that its user's index may list.
func (m *Manager[T]) discard(ctx context.Context, now *current[T]) {
	ctx, cancel := undoing(ctx)
	defer cancel()
	if user := now.entry.Value.User; m.remove(ctx, now) && user != "" {
		m.survived(ctx, m.delist(ctx, user, idOf(now.key)))
	}
}

// remove removes a session whose token this request does not give to its client. It lives on if
// another submission of the login has joined it: that has written the record. False: it may live.
func (m *Manager[T]) remove(ctx context.Context, now *current[T]) bool {
	ctx, cancel := undoing(ctx)
	defer cancel()
	err := m.store.DeleteEntry(ctx, now.key, now.entry)
	switch {
	case errors.Is(err, slidingttl.ErrNotFound):
		return true
	case !errors.Is(err, slidingttl.ErrConflict):
		m.survived(ctx, err)
	case m.opts.OnCreated != nil:
		m.opts.OnCreated(ctx, m.info(now.key, &now.entry))
	}
	return err == nil
}
