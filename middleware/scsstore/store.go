// Package scsstore keeps the sessions of alexedwards/scs in a slidingttl store. That store
// does the idle timeout. An application that moves changes the lines that make its scs
// store and keeps all other code. Before:
//
//	sessions.Store = redisstore.New(pool)
//	sessions.IdleTimeout = 30 * time.Minute
//
// and after:
//
//	d, err := redis.New[scsstore.Record](client, nil) // or another driver
//	if err != nil {
//		return err
//	}
//	store, err := scsstore.New(d, slidingttl.Policy{
//		IdleGrace: 30 * time.Minute, MaxLifetime: 24 * time.Hour, Slack: 3 * time.Minute,
//	}, &scsstore.Options{Former: redisstore.New(pool)})
//	if err != nil {
//		return err
//	}
//	defer store.Records().Close(context.Background())
//	sessions.Store = store
//	sessions.IdleTimeout = 0
//
// If its own IdleTimeout is set, scs commits every session that a request loads, changed or
// not. That is a write for each read, and it undoes what another request has changed or
// destroyed meanwhile. With IdleTimeout zero, scs commits only changes. A read then costs
// at most a touch, when that is due.
//
// # Timeouts
//
// A session ends with the idle grace of the store's policy, or at the nearer of that
// policy's cap, counted from when its token was first committed, and the deadline
// that scs gave it (Lifetime, SetDeadline). A request under way cannot bring back a session that has ended since
// it read it, by a timeout, a Destroy or a RenewToken: its Commit fails, and the error matches slidingttl.ErrNotFound. So
// does one within Iterate. The store knows a request by its context, which must be one of a net/http server. As with any store of scs, RenewToken
// begins a new record; package middleware/session does not.
//
// # Sessions from before the move
//
// With Options.Former, users stay logged in: a session that is not in this store yet is
// read from the former one, and moved here. It keeps its token, its data and its
// deadline. Its idle time and the policy's cap count from the move. The move takes three
// writes here, and two reads and one delete there, once for each session; if one of them fails, the
// next request continues. Until you drop the option, a Commit costs one read more here, and one there
// for a new session. Switch all
// processes over at once: one that still uses the former store no longer finds the
// sessions that have moved. When Lifetime has passed since then, drop the option.
//
// While scs did the idle timeout, its cookies lasted only that long, unless Cookie.Persist
// was off. A browser drops such a cookie of a moved session at that time, unless a change
// to the session renews it.
//
// # Iterate
//
// Iterate visits all live sessions by a scan of the driver, and loads them all into memory,
// as scs requires. It includes those in Options.Former. Destroy and Commit work in its
// function, on this Store. The store's keys are hashes of the tokens, so Token returns the key there,
// or the sealed token of a session that has not moved: neither opens a session. A session that cannot be read, and so
// opens to nobody, is left out, and Options.Records.Logger is told. One whose values scs does not decode ends Iterate, as
// on any store of scs. Leave HashTokenInStore off: with it, on any
// store of scs, the token in Iterate is hashed again, and Destroy there ends nothing.
package scsstore

import (
	"cmp"
	"context"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"log/slog"
	"time"

	"github.com/alexedwards/scs/v2"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Record is what a Store keeps of a session.
type Record struct {
	Data   []byte         `json:"data" dynamodbav:"data"`                         // scs's own, encoded
	Until  driver.Instant `json:"until" dynamodbav:"until"`                       // the deadline that scs gave it
	Moving moving         `json:"moving,omitempty" dynamodbav:"moving,omitempty"` // of a session from Options.Former
}

// Options adjusts a Store. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// Records adjusts the slidingttl.Store below. Its Latest is always on: a session
	// that was destroyed must not be read again. Without a Logger, Iterate uses slog.Default.
	Records slidingttl.Options[Record]

	// Former is the store that the application used until now. Sessions that it has
	// and this store has not are moved here when they are next used. Its methods that
	// take a context are used if it has them. Nil: there is none.
	Former Former

	// Codec reads the deadlines of sessions in Former. Set it where the SessionManager
	// has one of its own. Nil: scs.GobCodec, the default there.
	Codec scs.Codec
}

// Store is an scs.CtxStore, an scs.IterableStore and an scs.IterableCtxStore. It is safe
// for concurrent use.
type Store struct {
	records *slidingttl.Store[Record]
	scanner driver.Scanner
	former  Former
	codec   scs.Codec
	under   requests
	seal    cipher.AEAD // of tokens that All returns
	logger  *slog.Logger
}

// New returns a Store that keeps its records in d under policy p. opts may be nil; it is
// copied. New does no I/O. The caller closes first what Records returns, then d.
//
// A policy or option that breaks its rule, and a driver that cannot list its records, as
// Iterate needs, are a *slidingttl.InvalidError.
func New(d driver.Driver[Record], p slidingttl.Policy, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Codec == nil {
		o.Codec = scs.GobCodec{}
	}
	s := &Store{former: o.Former, codec: o.Codec, logger: cmp.Or(o.Records.Logger, slog.Default())}
	o.Records.Latest = true
	var err error
	if s.seal, err = newSeal(); err != nil {
		return nil, err
	}
	if s.records, err = slidingttl.New(d, p, &o.Records); err != nil {
		return nil, err
	}
	var lists bool
	if s.scanner, lists = driver.As[driver.Scanner](d); !lists {
		err = &slidingttl.InvalidError{Field: "driver", Value: "no driver.Scanner", Rule: "must list its records, for Iterate"}
		return nil, errors.Join(err, s.records.Close(context.Background()))
	}
	return s, nil
}

// Records returns the slidingttl.Store below, for its Check, Stats, SetPolicy and Close.
func (s *Store) Records() *slidingttl.Store[Record] { return s.records }

// Find implements scs.Store.
func (s *Store) Find(token string) (b []byte, found bool, err error) {
	return s.FindCtx(context.Background(), token)
}

// FindCtx implements scs.CtxStore. The session is touched if that is due.
func (s *Store) FindCtx(ctx context.Context, token string) (b []byte, found bool, err error) {
	e, err := s.peek(ctx, token)
	if errors.Is(err, slidingttl.ErrNotFound) || err == nil && !s.before(&e) {
		return nil, false, nil
	}
	if err == nil {
		e, err = s.records.TouchEntry(ctx, key(token), e)
	}
	if err == nil {
		s.under.begin(ctx, key(token))
	}
	return e.Value.Data, err == nil, err
}

// peek reads the session of token, once it has moved here.
func (s *Store) peek(ctx context.Context, token string) (driver.Entry[Record], error) {
	e, err := s.records.Peek(ctx, key(token))
	if s.former == nil {
		return e, err
	}
	if errors.Is(err, slidingttl.ErrNotFound) {
		e, err = s.copyFormer(ctx, token)
	}
	for err == nil && e.Value.Moving != moved {
		e, err = s.moveOn(ctx, token, e)
	}
	return e, err
}

// before reports whether the deadline that scs gave the session is still to come.
func (s *Store) before(e *driver.Entry[Record]) bool {
	return driver.Floor(s.records.Now()) < e.Value.Until
}

// Commit implements scs.Store.
func (s *Store) Commit(token string, b []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, b, expiry)
}

// CommitCtx implements scs.CtxStore.
func (s *Store) CommitCtx(ctx context.Context, token string, b []byte, expiry time.Time) error {
	r := Record{Data: b, Until: driver.Ceil(expiry)}
	at, err := s.named(token)
	if err != nil {
		return err
	}
	if s.former != nil && at.token != "" {
		if _, err := s.peek(ctx, at.token); err != nil && !errors.Is(err, slidingttl.ErrNotFound) {
			return err
		}
	}
	if !at.listed && !s.under.way(at.key) {
		err := s.records.Upsert(ctx, at.key, r)
		if err == nil {
			s.under.begin(ctx, at.key)
		}
		return err
	}
	_, err = s.records.Update(ctx, at.key, func(was Record) (Record, error) {
		if driver.Floor(s.records.Now()) >= was.Until {
			return was, slidingttl.ErrNotFound
		}
		r.Moving = was.Moving // of a key of All it may be about to move
		return r, nil
	})
	return err
}

// Delete implements scs.Store.
func (s *Store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// DeleteCtx implements scs.CtxStore.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	at, err := s.named(token)
	if err != nil {
		return err
	}
	if s.former != nil && at.token != "" {
		// First, for moveOn to see it.
		if err := s.deleteFormer(ctx, at.token); err != nil {
			return err
		}
	}
	return s.records.Delete(ctx, at.key)
}

const prefix = "scs:"

// key is where the session of token is.
func key(token string) string {
	h := sha256.Sum256([]byte(token))
	return prefix + base64.RawURLEncoding.EncodeToString(h[:])
}
