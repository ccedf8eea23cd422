package metrics

import (
	"context"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// classes are the errors that package slidingttl names. The first that matches counts:
// a context's error says more than that a write may have landed.
var classes = []struct {
	err  error
	name string
}{
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
	{slidingttl.ErrClosed, "closed"},
	{slidingttl.ErrShed, "shed"},
	{slidingttl.ErrLocked, "locked"},
	{slidingttl.ErrFull, "full"},
	{slidingttl.ErrForeign, "foreign"},
	{slidingttl.ErrExists, "exists"},
	{slidingttl.ErrAlive, "alive"},
	{slidingttl.ErrConflict, "conflict"},
	{slidingttl.ErrNotFound, "not_found"},
	{slidingttl.ErrInvalid, "invalid"},
	{slidingttl.ErrRefused, "refused"},
	{slidingttl.ErrAmbiguous, "ambiguous"},
}

// otherType is OpenTelemetry's word for what has no class.
const otherType = "_OTHER"

// ErrorType is the class of an error, one of few. It is a word for an error of package
// slidingttl ("timeout", "shed", "ambiguous"), else the Go type of the store's own error
// inside ("*rueidis.RedisError"), else "_OTHER". It is empty for nil.
func ErrorType(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	switch t := fmt.Sprintf("%T", innermost(err)); t {
	case "*errors.errorString", "*fmt.wrapError", "*fmt.wrapErrors", "*errors.joinError":
		return otherType
	default:
		return t
	}
}

// innermost is the error inside all wrappers; of several joined errors the last, which is
// the store's own.
func innermost(err error) error {
	for {
		var inner error
		switch w := err.(type) {
		case interface{ Unwrap() error }:
			inner = w.Unwrap()
		case interface{ Unwrap() []error }:
			if all := w.Unwrap(); len(all) > 0 {
				inner = all[len(all)-1]
			}
		}
		if inner == nil {
			return err
		}
		err = inner
	}
}
