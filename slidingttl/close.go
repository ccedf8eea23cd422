package slidingttl

import (
	"context"
	"errors"
)

// Flush carries out the touches that wait, and returns when these and those under way have ended.
//
// They go nearest death first, whatever the budget. The store stays open: Flush is for a
// process that is about to be frozen or stopped. If ctx ends first, or the store fails and
// refuses one more touch, the error says how many are left. They wait on.
func (s *Store[T]) Flush(ctx context.Context) error {
	return s.call(ctx, opFlush, func() error { return s.touches.Flush(ctx) })
}

// Close makes further calls fail with ErrClosed and waits for calls and touches.
//
// It waits for the calls under way, in all their parts, and for the touches that wait, that
// run or that those calls find due, nearest death first and whatever the budget. If ctx ends
// first, or the store fails and refuses one more touch, Close gives up the rest and says how
// much in a *[DrainError]. The touches under way have then returned. The driver stays open.
// Closing again is no error.
func (s *Store[T]) Close(ctx context.Context) error {
	s.gate.close()
	abandoned, why := s.touches.Close(ctx, s.gate.empty)
	calls := s.gate.under()
	err := s.hooks.Err()
	if abandoned+calls > 0 {
		err = errors.Join(&DrainError{Abandoned: abandoned, Calls: calls, Err: why}, err)
	}
	return wrap(ctx, opClose, err)
}
