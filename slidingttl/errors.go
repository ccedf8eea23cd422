package slidingttl

import (
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// Errors of a Store's calls, for errors.Is. After any but ErrAmbiguous the record is as it was.
var (
	ErrNotFound  = driver.ErrNotFound                     // absent, or dead of idleness or at its cap
	ErrExists    = errors.New("exists already")           // Insert found a live record
	ErrAlive     = errors.New("record is alive")          // History found a live record
	ErrConflict  = driver.ErrConflict                     // the write lost too many races for its record
	ErrForeign   = errors.New("record has no created_at") // and Options.Foreign is not Adopt
	ErrAmbiguous = driver.ErrAmbiguous                    // the answer did not come: the write may have landed or not
	ErrLocked    = driver.ErrLocked                       // another client has locked the record; reads work, a touch is left to a later access
	ErrRefused   = driver.ErrRefused                      // the store refuses every call: wrong credentials, no right, no such table
	ErrShed      = touches.ErrShed                        // a touch was given up: too many waited, or its record died first; for Options.OnTouchError and reads of a Strict store
	ErrFull      = driver.ErrFull                         // an in-memory store has reached its bound on records
	ErrInvalid   = driver.ErrInvalid                      // an argument, an option or a stored record breaks a rule: an *InvalidError
	ErrClosed    = touches.ErrClosed                      // the store has been closed
)

// KeyErrors are the failed keys of a call for many. All other keys got their answer.
type KeyErrors = driver.KeyErrors

// KeyError is the error of one key of a call for many.
type KeyError = driver.KeyError

// InvalidError names a field, the value it had and the rule that value breaks.
type InvalidError = driver.InvalidError

// Error is what the methods of a Store return, around the backing store's own error.
//
// A context's error, and what a caller's own function returns, pass unchanged.
type Error struct {
	Op  string // the method: "get", "upsert"
	Err error
}

// Error implements error. The text never holds a key.
func (e *Error) Error() string { return "slidingttl: " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the error inside.
func (e *Error) Unwrap() error { return e.Err }

// DrainError says how much Close gave up, and why.
//
// The records keep their stored expiries.
type DrainError struct {
	Abandoned int   // touches that waited or were under way and were not done
	Calls     int   // calls that had not returned: touches that they find due fail
	Hooks     int   // 1 if a hook had not returned
	Err       error // the context's error, or that of the store, which refused touches
}

// Error implements error.
func (e *DrainError) Error() string {
	return fmt.Sprintf("%d touches given up, %d calls and %d hooks still under way: %v", e.Abandoned, e.Calls, e.Hooks, e.Err)
}

// Unwrap returns why they were given up.
func (e *DrainError) Unwrap() error { return e.Err }

// PanicError says that hooks panicked. The store continued; Close returns the first panic.
//
// A call in which PolicyOf or PolicyFor panics returns an *InvalidError around a PanicError.
type PanicError = driver.PanicError
