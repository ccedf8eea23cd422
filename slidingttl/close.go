package slidingttl

import (
	"context"
	"errors"
)

// Flush makes the waiting touches, and returns when these and those under way have ended.
//
// It makes the touches of records nearest to death first, and ignores the budget. The store stays
// open: Flush is for a process that is about to be frozen or stopped. If ctx ends first, or the
// store fails and refuses one more touch, the error says how many are left. They keep waiting.
func (s *Store[T]) Flush(ctx context.Context) error {
	return s.call(ctx, opFlush, func() error { return s.touches.Flush(ctx) })
}

// Close makes further calls fail with ErrClosed and waits for calls and touches.
//
// It waits for the calls under way, in all their parts, and for touches that wait, run, or are
// found due by those calls. Touches of records nearest to death go first, and the budget is
// ignored. If ctx ends first, or the store fails and refuses one more touch, Close gives up the
// rest and returns a *[DrainError] with the numbers. The touches under way have then returned. The
// driver stays open. Closing again is no error.
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
