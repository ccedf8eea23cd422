package session

import (
	"context"
	"errors"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Login says whose session it is to be.
type Login struct {
	// User identifies the user to List, Revoke and RevokeAll. Required.
	User string

	// Label tells the user's sessions apart for the user: a device, a browser.
	// What is beyond 200 bytes is cut off.
	Label string

	// Remember asks for Options.Remember and a cookie that outlives the browser.
	Remember bool
}

// Login starts a session for a user who has just proved who they are, with a new
// token and the absolute timeout counting from now, and ends the session the
// request had. Its data is taken along if it was anonymous or the same user's, and
// then changed by f, to which the rules of Update apply; f may be nil.
//
// Over Options.MaxPerUser the user's session that was begun first is ended.
//
// If Login fails there is no new session; the former one may have ended.
func (m *Manager[T]) Login(ctx context.Context, login Login, f func(*T) error) error {
	if login.User == "" {
		return &slidingttl.InvalidError{Field: "Login.User", Value: "empty", Rule: "is required"}
	}
	if len(login.Label) > maxLabel {
		login.Label = login.Label[:maxLabel]
	}
	login.Label = strings.ToValidUTF8(login.Label, "")
	q, former, err := m.visit(ctx)
	if err != nil {
		return err
	}
	if err := q.headerSent(); err != nil {
		return err
	}
	r := Record{User: login.User, Label: login.Label, Remember: login.Remember}
	var data T
	switch {
	case former == nil:
		data, r.Data, err = m.apply(nil, f)
	case former.entry.Value.User == "" || former.entry.Value.User == login.User:
		data, r.Data, err = m.handOver(ctx, former, f)
	default:
		if data, r.Data, err = m.apply(nil, f); err == nil || err == errUnchanged {
			err = m.end(ctx, former.key, &former.entry)
		}
	}
	if err != nil && err != errUnchanged {
		return err
	}
	now, err := m.insert(ctx, r, data)
	if err != nil {
		return err
	}
	replaces := ""
	if former != nil && former.entry.Value.User == login.User {
		replaces = idOf(former.key)
	}
	if err = m.enlist(ctx, now, replaces); err == nil && !q.replace(now, m.cookie(&now.token, &now.entry)) {
		err = ErrHeaderSent
	}
	if err != nil {
		m.survived(ctx, m.end(ctx, now.key, &now.entry))
	}
	return err
}

// handOver ends the session former and returns what f makes of its data: both at
// once, so that no other request's change is lost between.
func (m *Manager[T]) handOver(ctx context.Context, former *current[T], f func(*T) error) (data T, encoded []byte, err error) {
	_, err = m.store.UpdateEntry(ctx, former.key, former.entry, func(r Record) (Record, error) {
		if r.Kind != live {
			return r, ErrEnded
		}
		var err error
		if data, encoded, err = m.apply(r.Data, f); err != nil && err != errUnchanged {
			return r, err
		}
		return m.tombstone(), nil
	})
	if err == ErrEnded || errors.Is(err, slidingttl.ErrNotFound) {
		return m.apply(nil, f)
	}
	return data, encoded, err
}
