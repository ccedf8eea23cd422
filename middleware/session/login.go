package session

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Login describes the session to begin.
type Login struct {
	// User identifies the user to List, Revoke and RevokeAll. Required, in UTF-8: write an ID of
	// other bytes as text.
	User string

	// Label tells the user's sessions apart for the user: a device, a browser.
	// What is beyond 200 bytes is cut off.
	Label string

	// Remember asks for Options.Remember and a cookie that outlives the browser.
	Remember bool

	// Policy is how long this session lives, in place of Options.Policy or Options.Remember: a
	// shorter idle time on a shared computer, or one that the user or an administrator chose.
	// IdleGrace must be at least Options.RenewGrace. With Remember the rules of Options.Remember
	// hold. Manager.Check does not know it. Zero: that of the Options.
	Policy slidingttl.Policy
}

// validate returns the policy of the session to begin; nil: that of o.
func (l *Login) validate(o *Options) (*slidingttl.Policy, error) {
	switch {
	case l.User == "":
		return nil, &slidingttl.InvalidError{Field: "Login.User", Value: "empty", Rule: "is required"}
	case !utf8.ValidString(l.User):
		return nil, &slidingttl.InvalidError{Field: "Login.User", Value: "other bytes", Rule: "must be UTF-8"}
	}
	if l.Policy == (slidingttl.Policy{}) {
		return nil, nil
	}
	with := *o
	with.Policy, with.MaxRequest = l.Policy, 0
	if l.Remember {
		with.Policy, with.Remember = o.Policy, l.Policy
	}
	if _, err := with.validate(); err != nil {
		if e, ok := errors.AsType[*slidingttl.InvalidError](err); ok {
			return nil, &slidingttl.InvalidError{Field: "Login.Policy", Value: l.Policy.String(), Rule: e.Field + " " + e.Rule}
		}
		return nil, err
	}
	return &l.Policy, nil
}

// Login starts a session for a user who has just proved their identity. It has a new token,
// and its absolute timeout counts from now. Login ends the session that the request had. It
// keeps that session's data if it was anonymous or the same user's, and then changes the
// data by f, with the rules of Update; f may be nil.
//
// Over Options.MaxPerUser the user's session that was begun first is ended.
//
// A login submitted twice with one cookie is one: the second joins the session that
// the first began, whichever answer the browser keeps. If another request has renewed that
// session's token meanwhile, the second begins a session of its own with a copy of the data. A
// renewal later, but before the second answer, makes the token in that answer a former one.
// Visitors without a cookie cannot be told apart, and get a session each.
//
// If Login fails there is no new session, unless a second submission has joined it; the former
// one may have ended.
func (m *Manager[T]) Login(ctx context.Context, login Login, f func(*T) error) (err error) {
	defer mark(&err)
	f = theirs(f)
	policy, err := login.validate(&m.opts)
	if err != nil {
		return err
	}
	login.Label = strings.ToValidUTF8(login.Label[:min(len(login.Label), maxLabel)], "")
	q, err := m.of(ctx)
	if err != nil {
		return err
	}
	if err := q.headerSent(); err != nil {
		return err
	}
	o, err := m.open(ctx, q, Record{User: login.User, Label: login.Label, Remember: login.Remember, Policy: policy}, f)
	if err != nil {
		return err
	}
	if err = m.enlist(ctx, o.now, o.replaces); err == nil && !q.replace(nil, o.now, m.give(o.now)) {
		err = ErrHeaderSent
	}
	switch {
	case o.joined:
	case err != nil:
		m.discard(ctx, o.now)
	case m.opts.OnCreated != nil:
		m.opts.OnCreated(ctx, m.info(o.now.key, &o.now.entry))
	}
	return err
}

// opened is the session that a login began or joined.
type opened[T any] struct {
	now      *current[T]
	replaces string // the ID of the one whose place it took, if that was the same user's
	joined   bool   // another submission of the login has begun it
}

// open starts the session r in place of the request's. If a login of the same user replaced
// the request's session meanwhile, it joins that login's session.
func (m *Manager[T]) open(ctx context.Context, q *request[T], r Record, f func(*T) error) (o opened[T], err error) {
	for {
		was, bad, err := q.ending(ctx)
		if err != nil {
			return o, err
		}
		if was == nil {
			var copied json.RawMessage
			if o.now, copied, err = m.join(ctx, q, r.User, f); o.now != nil || err != nil {
				o.joined = true
				return o, err
			}
			o.now, err = m.start(ctx, r, copied, f)
			return o, err
		}
		if o.now, err = m.takeOver(ctx, q, was, bad, r, f); err == ErrEnded || err == errChanged {
			q.forget(was) // another request was faster
			continue
		}
		if was.entry.Value.User == r.User {
			o.replaces = idOf(was.key)
		}
		return o, err
	}
}

// join returns the session of user that replaced the request's, changed by f; nil if there
// is none, or only its client has its token by now: then copied is its data.
func (m *Manager[T]) join(ctx context.Context, q *request[T], user string, f func(*T) error) (now *current[T], copied json.RawMessage, err error) {
	next := q.successor()
	if next == nil {
		return nil, nil, nil
	}
	// Another user's session is not even touched.
	e, err := m.store.Peek(ctx, next.key(m.opts.KeyPrefix))
	if err != nil || e.Value.User != user {
		if errors.Is(err, slidingttl.ErrNotFound) {
			err = nil
		}
		return nil, nil, err
	}
	found, _, err := q.fetch(ctx, *next, false)
	if err != nil || found.now == nil || found.now.entry.Value.User != user {
		return nil, nil, err
	}
	switch now, err = m.changed(ctx, found.now, f, true); err {
	case ErrEnded:
		return nil, nil, nil
	case errRenewed:
		return nil, found.now.entry.Value.Data, nil
	}
	return now, nil, err
}

// start writes r as a new session with what f makes of data.
func (m *Manager[T]) start(ctx context.Context, r Record, data json.RawMessage, f func(*T) error) (now *current[T], err error) {
	now = &current[T]{}
	if now.data, r.Data, err = m.apply(data, f); err != nil && err != errUnchanged {
		return nil, err
	}
	return m.insert(ctx, r, now.data)
}

// takeOver starts the session r and ends the session was. It keeps was's data unless that
// does not decode or is another user's. ErrEnded, errChanged: was has ended already, or its data has
// changed, and nothing was done.
func (m *Manager[T]) takeOver(ctx context.Context, q *request[T], was *current[T], bad bool, r Record, f func(*T) error) (*current[T], error) {
	of := was.entry.Value.User
	var data json.RawMessage
	if !bad && (of == "" || of == r.User) {
		data = was.entry.Value.Data
	}
	now, err := m.start(ctx, r, data, f)
	if err != nil {
		return nil, err
	}
	mask := q.mask(was)
	next := mask.veil(now.token[:])
	_, err = m.bury(ctx, was.key, &was.entry, next[:], ReasonLogin)
	if err != nil {
		m.remove(ctx, now) // no index lists it
		return nil, err
	}
	if of != "" && of != r.User {
		m.survived(ctx, m.delist(ctx, of, idOf(was.key)))
	}
	return now, nil
}
