package slidingttl

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

var (
	// ErrNotFound says that a key is absent, or that its record has died of
	// idleness or at its cap.
	ErrNotFound = driver.ErrNotFound

	// ErrExists says that Insert found a live record.
	ErrExists = errors.New("exists already")

	// ErrAlive says that History found a live record.
	ErrAlive = errors.New("record is alive")

	// ErrConflict says that a write lost too many races for its record. Nothing
	// was written.
	ErrConflict = driver.ErrConflict

	// ErrForeign says that a record without created_at, written by another
	// program, was met by a store told not to adopt such records.
	ErrForeign = errors.New("record has no created_at")

	// ErrAmbiguous says that the answer to a write did not come, so that it may
	// have landed or not. It comes with the store's own error.
	ErrAmbiguous = driver.ErrAmbiguous

	// ErrLocked says that another client of the backing store has locked the
	// record. Reads go on; a touch that meets it is put off to a later access.
	ErrLocked = driver.ErrLocked

	// ErrRefused says that the backing store refuses calls for reasons that no
	// other attempt changes: wrong credentials, no right, no such table. It comes
	// with the store's own error. Nothing was written.
	ErrRefused = driver.ErrRefused

	// ErrShed says that a touch was given up because too many waited, and its
	// record was farthest from death. It is handed to Options.OnTouchError.
	ErrShed = touches.ErrShed

	// ErrFull says that an in-memory store has reached its bound on records.
	ErrFull = driver.ErrFull

	// ErrInvalid says that an argument, an option or a stored record breaks a
	// rule. It comes as an *InvalidError. Nothing was written.
	ErrInvalid = driver.ErrInvalid

	// ErrClosed says that the store has been closed.
	ErrClosed = touches.ErrClosed
)

// KeyErrors are the keys of a call for many that failed, each a *[KeyError] with
// its place in the call. All other keys got their answer.
type KeyErrors = driver.KeyErrors

// KeyError is what went wrong with one key of a call for many.
type KeyError = driver.KeyError

// InvalidError names a field, the value it had and the rule that value breaks.
type InvalidError = driver.InvalidError

// Error is what the methods of a Store return, but for a context's error and what
// a caller's own function returns, which pass unchanged. The store's own error is
// reachable with errors.As.
type Error struct {
	Op  string // the method: "get", "upsert"
	Err error
}

// Error implements error. The text never holds a key.
func (e *Error) Error() string { return "slidingttl: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the error inside.
func (e *Error) Unwrap() error { return e.Err }

// DrainError says that Close gave up touches because its context ended, or because the
// breaker was open and the store refused the first of those that waited. The records
// stay as they are: each is as much alive as its stored expiry says.
type DrainError struct {
	Abandoned int   // touches that were queued or under way and were not done
	Calls     int   // calls of the store that had not returned: a touch that one of them finds due fails
	Err       error // the context's error, or the store's
}

// Error implements error.
func (e *DrainError) Error() string {
	return fmt.Sprintf("%d touches given up, %d calls still under way: %v", e.Abandoned, e.Calls, e.Err)
}

// Unwrap returns why they were given up.
func (e *DrainError) Unwrap() error { return e.Err }

// PanicError says that hooks panicked. The store recovered and went on; Close
// returns the first. A panic of PolicyOf or PolicyFor is an *InvalidError of the call
// around one.
type PanicError = driver.PanicError

// misses are shared, since a store may be asked for absent keys at any rate.
var misses = map[string]*Error{}

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

func init() {
	for _, op := range []string{opGet, opPeek, opHistory, opUpdate, opTouch} {
		misses[op] = &Error{Op: op, Err: ErrNotFound}
	}
}

// wrap gives err the portable form. A context's error passes as it is, and so
// does an error that a Store has wrapped before.
func wrap(ctx context.Context, op string, err error) error {
	switch {
	case err == nil:
		return nil
	case err == ErrNotFound && misses[op] != nil:
		return misses[op]
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return err
	}
	return &Error{Op: op, Err: err}
}
