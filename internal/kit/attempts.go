package kit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Attempts counts the attempts that a store's client makes of one write, by the client's hooks.
//
// An attempt without an answer may have landed, so a later attempt may find the result of an
// earlier one. The zero value is ready to use. All methods are safe for concurrent use.
type Attempts struct {
	// Named says that the write's condition names the record's version, so that the write lands at
	// most once. Any other write may undo what others wrote between two attempts.
	Named bool

	unanswered atomic.Int32
}

// Sent notes that an attempt may have been sent.
func (a *Attempts) Sent() { a.unanswered.Add(1) }

// Answered notes that an attempt was answered, or was not sent after all.
func (a *Attempts) Answered() { a.unanswered.Add(-1) }

// Unsure reports whether an attempt may have landed without an answer.
func (a *Attempts) Unsure() bool { return a.unanswered.Load() > 0 }

// Stored reports whether found, which prevented a write of meant, is what an earlier attempt stored. Unless its version
// is the write's own, another writer may have done the same: of those that end a record's life, one is to be told so.
func (a *Attempts) Stored(found, meant driver.Meta, own bool, now driver.Instant) bool {
	return a.Unsure() && found == meant && (own || meant.Alive(now))
}

// Succeeded returns the error of a write whose last attempt succeeded. It is [driver.ErrAmbiguous] if the
// write is not named and may have landed before, because others may have written or deleted the
// record in between; else nil.
func (a *Attempts) Succeeded() error {
	if a.Unsure() && !a.Named {
		return driver.ErrAmbiguous
	}
	return nil
}

// Verdict compares a write that the store refused with the record that it found.
type Verdict int

// The verdicts.
const (
	InTheWay   Verdict = iota // the record is not the one that the write was planned for
	Gone                      // there is no record, or it is dead
	Unreadable                // the record cannot be compared
	Meant                     // it is the planned record in another form: send the write again for exactly that
	Landed                    // it is what the write was to store: an earlier attempt landed
)

// Still returns Meant if found is the live record was, else InTheWay or Gone.
func Still(found, was driver.Meta, now driver.Instant) Verdict {
	switch {
	case !found.Alive(now):
		return Gone
	case found != was:
		return InTheWay
	}
	return Meant
}

// Refused returns the error of a write that found prevented, and that is not sent again.
//
// problem is the error of reading found. refusal is the store's error, nil if the write was not
// sent.
func (a *Attempts) Refused(ctx context.Context, v Verdict, found driver.Meta, problem, refusal error) error {
	switch {
	case v == Landed:
		return nil
	case a.Unsure():
		return a.Failed(ctx, refusal) // it may have landed before found was written
	case v == Gone && refusal == nil:
		return driver.ErrNotFound
	case v == Gone:
		return fmt.Errorf("%w: %w", driver.ErrNotFound, refusal)
	case v == Unreadable:
		return problem
	}
	return &driver.ConflictError{Found: found, Err: refusal}
}

// Failed wraps err in [driver.ErrAmbiguous] if the write may have landed, and in [driver.ErrLate] if that ended
// ctx.
func (a *Attempts) Failed(ctx context.Context, err error) error {
	if errors.Is(context.Cause(ctx), driver.ErrLate) {
		err = fmt.Errorf("%w: %w", driver.ErrLate, err)
	}
	if a.Unsure() {
		err = fmt.Errorf("%w: %w", driver.ErrAmbiguous, err)
	}
	return err
}

// WithLife ends the context of a write over was with that life, or after skew if that is longer. A
// write that lands later would revive a record that others have found dead.
func WithLife(ctx context.Context, was driver.Meta, now driver.Instant, skew time.Duration) (context.Context, context.CancelFunc) {
	if was.ExpiresAt == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(was.ExpiresAt.Sub(now), skew), driver.ErrLate)
}
