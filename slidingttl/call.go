package slidingttl

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	opGet         = "get"
	opPeek        = "peek"
	opHistory     = "history"
	opGetMulti    = "get multi"
	opUpsert      = "upsert"
	opUpsertMulti = "upsert multi"
	opInsert      = "insert"
	opGetOrInsert = "get or insert"
	opUpdate      = "update"
	opTouch       = "touch"
	opDelete      = "delete"
	opRetire      = "retire"
	opFlush       = "flush"
	opCheck       = "check"
	opClose       = "close"
)

// call makes f a call of the store, which Close waits for. Its error becomes an *Error of op.
func (s *Store[T]) call(ctx context.Context, op string, f func() error) error {
	under, err := s.begin(ctx, op)
	if err != nil {
		return err
	}
	defer s.gate.leave(under)
	return wrap(ctx, op, f())
}

// callKey is call for a call that is given a key.
func (s *Store[T]) callKey(ctx context.Context, op, key string, f func() error) error {
	if key == "" {
		return wrap(ctx, op, driver.CheckKey(key, 0))
	}
	return s.call(ctx, op, f)
}

// begin lets a call in, which ends with s.gate.leave.
func (s *Store[T]) begin(ctx context.Context, op string) (*stripe, error) {
	if err := ctx.Err(); err != nil && !s.gate.closed.Load() {
		return nil, err
	}
	under := s.gate.enter()
	if under == nil {
		return nil, wrap(ctx, op, ErrClosed)
	}
	return under, nil
}

// own is an error of a caller's function, which passes unchanged.
type own struct{ error }

// wrap makes an *Error of err, unless it is one, the context's or a caller's own.
func wrap(ctx context.Context, op string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *Error:
		return err
	case own:
		return e.error
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return err
	}
	return &Error{Op: op, Err: err}
}
