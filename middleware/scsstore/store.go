// Package scsstore keeps the sessions of github.com/alexedwards/scs/v2 in a
// slidingttl store, and lets that do the idle timeout: an application moves over by
// two lines and keeps its code.
//
//	records, err := slidingttl.New(d, slidingttl.Policy{
//		IdleGrace: 30 * time.Minute, MaxLifetime: 24 * time.Hour, Slack: 3 * time.Minute,
//	}, &slidingttl.Options[scsstore.Record]{Latest: true})
//	...
//	sessions.Store = scsstore.New(records)
//	sessions.IdleTimeout = 0
//
// With an IdleTimeout of its own scs commits every session that a request loads,
// changed or not: a write for each read, which also brings back what another request
// has changed or destroyed meanwhile. With zero it commits what was changed. A read
// then costs a touch, and only when that is due.
//
// A session ends with the idle grace of the store's policy, or at the nearer of that
// policy's cap, counted from when its token was first committed, and the deadline
// that scs gave it (Lifetime, SetDeadline). As with any store of scs, RenewToken
// begins a new record, and a change that is committed after a Destroy brings the
// session back; package middleware/session does neither.
//
// The store's keys are hashes of the tokens, also without scs's HashTokenInStore.
// Iterate is not offered, for it would need the tokens.
package scsstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Record is what a Store keeps of a session.
type Record struct {
	Data  []byte         `json:"data" dynamodbav:"data"`   // scs's own, encoded
	Until driver.Instant `json:"until" dynamodbav:"until"` // the deadline that scs gave it
}

// Store is an scs.Store and an scs.CtxStore. It is safe for concurrent use.
type Store struct{ records *slidingttl.Store[Record] }

// New returns a Store over records, which the caller closes.
func New(records *slidingttl.Store[Record]) *Store { return &Store{records} }

// Find implements scs.Store.
func (s *Store) Find(token string) (b []byte, found bool, err error) {
	return s.FindCtx(context.Background(), token)
}

// FindCtx implements scs.CtxStore. The session is touched if that is due.
func (s *Store) FindCtx(ctx context.Context, token string) (b []byte, found bool, err error) {
	e, err := s.records.Peek(ctx, key(token))
	if errors.Is(err, slidingttl.ErrNotFound) || err == nil && driver.Floor(s.records.Now()) >= e.Value.Until {
		return nil, false, nil
	}
	if err == nil {
		e, err = s.records.TouchEntry(ctx, key(token), e)
	}
	return e.Value.Data, err == nil, err
}

// Commit implements scs.Store.
func (s *Store) Commit(token string, b []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, b, expiry)
}

// CommitCtx implements scs.CtxStore.
func (s *Store) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	return s.records.Upsert(ctx, key(token), Record{Data: b, Until: driver.Ceil(expiry)})
}

// Delete implements scs.Store.
func (s *Store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// DeleteCtx implements scs.CtxStore.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	return s.records.Delete(ctx, key(token))
}

// key is where the session of token is.
func key(token string) string {
	h := sha256.Sum256([]byte(token))
	return "scs:" + base64.RawURLEncoding.EncodeToString(h[:])
}
