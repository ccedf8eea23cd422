package session

import (
	"errors"
	"fmt"
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

	// ErrInsecure says that InsecureLocalhost refuses a request from or for another host,
	// or by a proxy.
	ErrInsecure = errors.New("session: InsecureLocalhost serves requests from and for localhost only")
)

// DataError says that the data of a session does not encode or decode as T.
type DataError struct {
	Op  string // "encode" or "decode"
	Err error
}

// Error implements error.
func (e *DataError) Error() string { return fmt.Sprintf("session: %s data: %v", e.Op, e.Err) }

// Unwrap returns encoding/json's error.
func (e *DataError) Unwrap() error { return e.Err }
