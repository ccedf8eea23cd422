package driver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Attempts counts the attempts that a store's client makes of one write, by the client's hooks.
//
// An attempt without an answer may have landed, and what a later one meets may be its doing.
// The zero value is ready to use. All methods are safe for concurrent use.
type Attempts struct {
	// Named says that the write's condition names the record, so that it lands once at most.
	// Any other may undo what others wrote between two attempts.
	Named bool

	unanswered atomic.Int32
}

// Sent says that an attempt may have left.
func (a *Attempts) Sent() { a.unanswered.Add(1) }

// Answered says that an attempt that may have left had not, or has an answer.
func (a *Attempts) Answered() { a.unanswered.Add(-1) }

// Unsure reports whether an attempt may have landed without an answer.
func (a *Attempts) Unsure() bool { return a.unanswered.Load() > 0 }

// Succeeded is the error of a write whose last attempt was carried out. It is
// [ErrAmbiguous] if the write is not named and may have landed before, because others may
// have written or deleted the record in between; else nil.
func (a *Attempts) Succeeded() error {
	if a.Unsure() && !a.Named {
		return ErrAmbiguous
	}
	return nil
}

// Verdict is what becomes of a write that the store refused for what it met.
type Verdict int

// The verdicts.
const (
	InTheWay   Verdict = iota // the record is another than the write is for
	Gone                      // there is none, or it is dead
	Unreadable                // it may be the one, and the write must not guess
	Meant                     // it is the one: send the write again for just that
	Landed                    // it is what the write was to store: an answer was lost
)

// Still tells whether found is the live record was.
func Still(found, was Meta, now Instant) Verdict {
	switch {
	case !found.Alive(now):
		return Gone
	case found != was:
		return InTheWay
	}
	return Meant
}

// Refused is the error of a write that met found, and is not sent again.
//
// problem says what of found cannot be read. refusal is the store's error, nil if the write was
// not sent.
func (a *Attempts) Refused(ctx context.Context, v Verdict, found Meta, problem, refusal error) error {
	switch {
	case v == Landed:
		return nil
	case a.Unsure():
		return a.Failed(ctx, refusal) // it may have landed, and what was found come after it
	case v == Gone && refusal == nil:
		return ErrNotFound
	case v == Gone:
		return fmt.Errorf("%w: %w", ErrNotFound, refusal)
	case v == Unreadable:
		return problem
	}
	return &ConflictError{Found: found, Err: refusal}
}

// Failed adds to err [ErrAmbiguous] if the write may have landed, [ErrLate] if ctx ended for that.
func (a *Attempts) Failed(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), ErrLate) {
		err = fmt.Errorf("%w: %w", ErrLate, err)
	}
	if a.Unsure() {
		err = fmt.Errorf("%w: %w", ErrAmbiguous, err)
	}
	return err
}

// ErrLate says that the record's life ended before the store answered a write over it.
var ErrLate = errors.New("the record's life ended before the store answered")

// WithLife bounds a write over the record was by that record's life, or by skew if that is
// longer. A write that lands later would revive a record that others have found dead.
func WithLife(ctx context.Context, was Meta, now Instant, skew time.Duration) (context.Context, context.CancelFunc) {
	if was.ExpiresAt == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(was.ExpiresAt.Sub(now), skew), ErrLate)
}
