package session

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl"
)

var (
	// ErrNoMiddleware says that the context is not of a request that passed this
	// manager's Middleware.
	ErrNoMiddleware = errors.New("session: request did not pass the middleware")

	// ErrEnded says that the session of the request has ended since the request arrived. It
	// was destroyed or revoked, it expired, or a login replaced it. Nothing was written.
	ErrEnded = errors.New("session: ended")

	// ErrHeaderSent says that the response has begun, which is too late for what was asked.
	// A cookie can no longer be set, and nothing was written; or the session was first read
	// too late for the header to say that the answer is one visitor's own.
	ErrHeaderSent = errors.New("session: the response has begun")

	// ErrData says that the data of a session does not encode or decode as T. The error wraps
	// encoding/json's too.
	ErrData = errors.New("session: data of another form")

	// ErrInsecure says that InsecureLocalhost refuses a request from or for another host,
	// or by a proxy.
	ErrInsecure = errors.New("session: InsecureLocalhost serves requests from and for localhost only")
)

// Error is a failure of a Manager's call that no other error here names.
//
// The store failed, the data is too large, or the user has no such session. Its text is Err's. So an adapter can tell it from an error
// of the application's own stores.
type Error struct{ Err error }

// Error implements error.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns Err, which matches an error of package slidingttl.
func (e *Error) Unwrap() error { return e.Err }

// foreign is an error of a caller's function.
type foreign struct{ error }

// mark makes *err an *Error if it is the store's, and gives the caller's function its error back.
func mark(err *error) {
	switch e := (*err).(type) {
	case foreign:
		*err = e.error
	case *slidingttl.Error, *slidingttl.InvalidError:
		*err = &Error{e}
	default:
		if e == slidingttl.ErrNotFound {
			*err = &Error{e}
		}
	}
}

// theirs is f with its errors marked as the caller's.
func theirs[T any](f func(*T) error) func(*T) error {
	if f == nil {
		return nil
	}
	return func(data *T) error {
		if err := f(data); err != nil {
			return foreign{err}
		}
		return nil
	}
}

// dataError is an ErrData.
type dataError struct {
	op  string // "encode" or "decode"
	err error
}

// Error has nothing of the data, which the text of err may have.
func (e *dataError) Error() string {
	why := fmt.Sprintf("%T", e.err)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](e.err); ok {
		why = fmt.Sprintf("field %q is no %v", wrong.Field, wrong.Type)
	} else if wrong, ok := errors.AsType[*json.UnsupportedTypeError](e.err); ok {
		why = wrong.Error()
	} else if wrong, ok := errors.AsType[*json.SyntaxError](e.err); ok {
		why = fmt.Sprintf("no JSON at byte %d", wrong.Offset)
	}
	return fmt.Sprintf("session: %s data: %s", e.op, why)
}

func (e *dataError) Unwrap() []error { return []error{ErrData, e.err} }
