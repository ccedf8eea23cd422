package session

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Manager manages sessions whose data is a T, for one application. Its methods are safe for
// concurrent use.
//
// Methods that take a request's context fail with ErrNoMiddleware if the request did not
// pass Middleware. Errors of the store are [*Error]s around [*slidingttl.Error]s; a context's error
// passes unchanged, and so does one of a caller's function.
type Manager[T any] struct {
	opts               Options
	store              store
	stored             store                  // knows all sessions that may live for another server: its policies may be longer, and its clock behind. It only reads and deletes
	own                *memory.Driver[Record] // nil: the caller's driver is used
	policies           policies
	cookies            cookies
	refused, continued atomic.Int64 // when a failure was last logged that ended a request, or did not
	listings           listings
}

// New returns a manager that keeps its records in d. opts may be nil; it is
// copied. New does no I/O. The caller keeps d, and closes it after the manager.
//
// If d is nil, sessions are kept in this process's memory, and a log line says so. They end
// with the process, and other servers do not know them.
//
// An option that breaks its rule, and a T of which JSON would keep nothing, or not a part (map[string]big.Int:
// only *big.Int encodes itself, and nothing in a map has an address), is a *slidingttl.InvalidError that names it.
func New[T any](d driver.Driver[Record], opts *Options) (*Manager[T], error) {
	m := &Manager[T]{listings: newListings()}
	if opts != nil {
		m.opts = *opts
	}
	var err error
	if m.opts, err = m.opts.validate(); err != nil {
		return nil, err
	}
	if err := checkData[T](); err != nil {
		return nil, err
	}
	if m.opts.ErrorHandler == nil {
		m.opts.ErrorHandler = m.unavailable
	}
	m.policies, m.cookies = newPolicies(&m.opts), newCookies(&m.opts)
	if d == nil {
		if m.own, err = memory.New[Record](nil); err != nil {
			return nil, err
		}
		d = m.own
	}
	m.store.Store, err = slidingttl.New(d, m.policies.index(0), &slidingttl.Options[Record]{
		PolicyOf:     m.policies.of,
		Latest:       true, // a session that was logged out must not read
		Touches:      m.opts.Touches,
		Now:          m.opts.Now,
		OnTouchError: func(ctx context.Context, _ string, err error) { m.survived(ctx, err) },
	})
	if err != nil {
		return nil, errors.Join(err, m.closeOwn())
	}
	m.stored.Store, err = slidingttl.New(d, slidingttl.Policy{IdleGrace: slidingttl.NoCap, MaxLifetime: slidingttl.NoCap}, &slidingttl.Options[Record]{
		Latest: true,
		Now:    func() time.Time { return m.store.Now().Add(-clocksApart) },
	})
	if err != nil {
		return nil, errors.Join(err, m.closeOwn())
	}
	if m.own != nil {
		m.logger().Warn("session: no driver given: sessions are kept in memory, end with this process, and are unknown to other servers")
	}
	return m, nil
}

// Check asks the driver whether its store is configured to keep the policies. Call it at
// start-up. See [slidingttl.Store.Check].
func (m *Manager[T]) Check(ctx context.Context) error { return m.store.Check(ctx) }

// Stats returns what the store under the manager has done so far.
func (m *Manager[T]) Stats() slidingttl.Stats { return m.store.Stats() }

// Close makes further calls fail and waits for touches under way. See
// [slidingttl.Store.Close].
func (m *Manager[T]) Close(ctx context.Context) error {
	return errors.Join(m.store.Close(ctx), m.stored.Close(ctx), m.closeOwn())
}

// closeOwn closes the driver if it is the manager's own.
func (m *Manager[T]) closeOwn() error {
	if m.own == nil {
		return nil
	}
	return m.own.Close()
}

// info describes the session e, stored under key.
func (m *Manager[T]) info(key string, e *driver.Entry[Record]) Info {
	return m.policies.info(idOf(key), e, driver.Floor(m.store.Now()))
}

func (m *Manager[T]) key(id string) string { return m.opts.KeyPrefix + sessionKey + id }
