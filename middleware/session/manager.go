package session

import (
	"context"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Manager manages the sessions of an application, whose data is of type T. Its
// methods are safe for concurrent use.
//
// Those that take the context of a request want one that passed Middleware, else
// they fail with ErrNoMiddleware. Errors of the store are [*slidingttl.Error]s; a
// context's error passes unchanged.
type Manager[T any] struct {
	opts     Options
	store    *slidingttl.Store[Record]
	policies policies
	cookies  cookies
	reported atomic.Int64 // when something was last logged
}

// New returns a manager that keeps its records in d. opts may be nil; it is
// copied. New does no I/O. The caller keeps d, and closes it after the manager.
//
// An option that breaks its rule, and a T of which JSON would keep nothing, is a
// *slidingttl.InvalidError that names it.
func New[T any](d driver.Driver[Record], opts *Options) (*Manager[T], error) {
	m := &Manager[T]{}
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
	m.store, err = slidingttl.New(d, m.policies.index, &slidingttl.Options[Record]{
		PolicyOf:     m.policies.of,
		Touches:      m.opts.Touches,
		Now:          m.opts.Now,
		OnTouchError: func(ctx context.Context, _ string, err error) { m.survived(ctx, err) },
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// Check asks the driver, at start-up, whether its store is configured to keep what
// the policies promise. See [slidingttl.Store.Check].
func (m *Manager[T]) Check(ctx context.Context) error { return m.store.Check(ctx) }

// Stats returns what the store under the manager has done so far.
func (m *Manager[T]) Stats() slidingttl.Stats { return m.store.Stats() }

// Close makes further calls fail and waits for touches under way. See
// [slidingttl.Store.Close].
func (m *Manager[T]) Close(ctx context.Context) error { return m.store.Close(ctx) }

// info describes the session e, stored under key.
func (m *Manager[T]) info(key string, e *driver.Entry[Record]) Info {
	return m.policies.info(idOf(key), e, driver.Floor(m.store.Now()))
}

func (m *Manager[T]) key(id string) string { return m.opts.KeyPrefix + sessionKey + id }
