package session

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Reason is why a session ended.
type Reason string

const (
	ReasonLogout  Reason = "logout"  // Destroy
	ReasonLogin   Reason = "login"   // a Login began another in its place
	ReasonRevoked Reason = "revoked" // Revoke or RevokeAll
	ReasonEvicted Reason = "evicted" // a Login beyond Options.MaxPerUser
)

// Destroy ends the session and has the client forget its token, unless the
// response has begun: logout. Without a session it only does the latter. An Update
// after it begins an anonymous session.
func (m *Manager[T]) Destroy(ctx context.Context) error {
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

// end ends the session e, if it lives, and takes it off its user's index. An index
// that cannot be written is no failure: what it lists is looked up.
func (m *Manager[T]) end(ctx context.Context, key string, e *driver.Entry[Record], why Reason) error {
	if _, err := m.bury(ctx, key, e, nil, why); err != nil && err != ErrEnded {
		return err
	}
	if user := e.Value.User; user != "" {
		m.survived(ctx, m.delist(ctx, user, idOf(key)))
	}
	return nil
}

// bury puts a tombstone in the place of the session e and returns what was there.
// ErrEnded: it lives no more.
func (m *Manager[T]) bury(ctx context.Context, key string, e *driver.Entry[Record], heir []byte, why Reason) (was Record, err error) {
	_, err = m.store.UpdateEntry(ctx, key, *e, func(r Record) (Record, error) {
		if was = r; r.Kind != live {
			return r, ErrEnded
		}
		return Record{Kind: ended, ChangedAt: driver.Floor(m.store.Now()), Heir: heir}, nil
	})
	if errors.Is(err, slidingttl.ErrNotFound) {
		err = ErrEnded
	}
	if err == nil && m.opts.OnEnded != nil {
		m.opts.OnEnded(ctx, m.info(key, &driver.Entry[Record]{Value: was, Meta: e.Meta}), why)
	}
	return was, err
}

// discard takes back a session whose token nobody was given.
func (m *Manager[T]) discard(ctx context.Context, now *current[T]) {
	m.survived(ctx, m.store.Delete(ctx, now.key))
	if user := now.entry.Value.User; user != "" {
		m.survived(ctx, m.delist(ctx, user, idOf(now.key)))
	}
}
