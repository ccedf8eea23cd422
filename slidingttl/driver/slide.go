package driver

import (
	"context"
	"sync/atomic"
)

// Slider is a Local that moves the expiry of a record that it has just returned.
//
// It does not look for the record again.
type Slider[T any] interface {
	Local[T]

	// Next is the Now of the driver, which is a Clock, rounded up to a millisecond. It costs less.
	Next() Instant

	// Slide is a Touch of the record that Load returned for key with expiry was, and with at, and
	// which was alive then: it moves the expiry forward to to, and keeps the version. It reports
	// false, and does nothing, if the record is no longer stored, has another expiry, never
	// expires, is being written, or is one that Get has returned dead. The caller may then Touch.
	//
	// An at that Load did not return for key gives an undefined result.
	Slide(ctx context.Context, key string, at *atomic.Int64, was, to Instant) bool
}
