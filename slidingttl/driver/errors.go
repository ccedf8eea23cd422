package driver

import (
	"errors"
	"fmt"
)

// ErrNotFound says that a key is absent, or that its record is dead.
var ErrNotFound = errors.New("not found")

// ErrConflict says that the record is not the one a write was planned for.
//
// It comes as a *ConflictError.
var ErrConflict = errors.New("conflict")

// ErrAmbiguous says that a write's answer was lost: it may have landed or not.
//
// It comes wrapped together with the store's own error, and with the context's error if that ended.
// A write that is sure not to have landed never matches it.
var ErrAmbiguous = errors.New("the write may have landed")

// ErrLocked says that another client has locked the record, which can be read and not written.
//
// Nothing was written. A touch that meets it is put off to a later access.
var ErrLocked = errors.New("locked by another client")

// ErrRefused says that the store refuses this and every later call, whatever the record.
//
// The credentials are wrong or lack a permission, or a table, container or bucket does not exist.
// It comes wrapped together with the store's own error. Nothing was written.
var ErrRefused = errors.New("the store refuses the call")

// ErrFull says that an in-memory store has reached its bound on records.
var ErrFull = errors.New("store is full")

// ErrInvalid says that an input or a stored record breaks a rule: an *InvalidError.
var ErrInvalid = errors.New("invalid")

// ConflictError has the Meta of the record that prevented a write. It matches ErrConflict.
type ConflictError struct {
	// Found is that record's life and version.
	Found Meta
	// Err is the store's own error, nil if there is none.
	Err error
}

// Error implements error.
func (e *ConflictError) Error() string {
	if e.Err == nil {
		return ErrConflict.Error()
	}
	return fmt.Sprintf("%v: %v", ErrConflict, e.Err)
}

// Is reports whether target is ErrConflict.
func (e *ConflictError) Is(target error) bool { return target == ErrConflict }

// Unwrap returns the store's own error.
func (e *ConflictError) Unwrap() error { return e.Err }

// InvalidError names a field, the value it had and the rule that value breaks.
//
// It matches ErrInvalid. A value that may be secret, a key above all, is described (its
// length, its type) and never quoted.
type InvalidError struct {
	Field string // "key", "Policy.IdleGrace", "attribute ttl"
	Value string // "300 bytes", "-1s", "string"
	Rule  string // "must be at most 250 bytes"
	Err   error  // the cause, nil if there is none
}

// Error implements error.
func (e *InvalidError) Error() string {
	s := fmt.Sprintf("%s is %s: %s", e.Field, e.Value, e.Rule)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Is reports whether target is ErrInvalid.
func (e *InvalidError) Is(target error) bool { return target == ErrInvalid }

// Unwrap returns the cause.
func (e *InvalidError) Unwrap() error { return e.Err }

// CheckKey returns an *InvalidError if key is empty or longer than most bytes. Zero: no limit.
func CheckKey(key string, most int) error {
	switch {
	case key == "":
		return &InvalidError{Field: "key", Value: "empty", Rule: "must have at least one byte"}
	case most > 0 && len(key) > most:
		return &InvalidError{
			Field: "key",
			Value: fmt.Sprintf("%d bytes", len(key)),
			Rule:  fmt.Sprintf("must be at most %d bytes", most),
		}
	}
	return nil
}
