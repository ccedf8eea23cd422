package slidingttl

import (
	"context"
	"errors"
)

// Flush makes the waiting touches once, and returns when these and those under way have ended.
//
// It makes the touches of records nearest to death first, and ignores the budget. The store stays
// open: Flush is for a process that is about to be frozen or stopped. If touches fail, ctx ends first,
// or the store is failing and refuses one more, the error says how many are left. They keep waiting.
func (s *Store[T]) Flush(ctx context.Context) error {
	return s.call(ctx, opFlush, func() error { return s.touches.Flush(ctx) })
}

// Close makes further calls fail with ErrClosed and waits for calls and touches.
//
// It waits for the calls under way, in all their parts, for touches that wait, run, or are found due
// by those calls, and for hooks. Touches of records nearest to death go first, and the budget is
// ignored. If ctx ends first, Close gives up the rest and returns a *[DrainError] with the numbers,
// whatever drivers and hooks do; the touches under way are cancelled, and all that was given up ends
// with ErrClosed soon after. Close also gives up what waits if the store fails and refuses one more
// touch. A touch that was made and failed is not among these: OnTouchError and Stats have it.
//
// A hook that calls Close has to give it a context that ends. The driver stays open. Closing again is
// no error.
func (s *Store[T]) Close(ctx context.Context) error {
	s.gate.close()
	abandoned, hooks, calls, why := s.touches.Close(ctx, s.gate.empty, s.gate.left)
	err := s.hooks.Err()
	if abandoned+calls+hooks > 0 {
		err = errors.Join(&DrainError{Abandoned: abandoned, Calls: calls, Hooks: hooks, Err: why}, err)
	}
	return wrap(ctx, opClose, err)
}
