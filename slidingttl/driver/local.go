package driver

import "sync/atomic"

// Local is a driver whose store is this process's memory.
//
// Its calls do not block, and fail only for their arguments or the store's limits. So touches run
// within the read, and are not shared, detached or queued.
//
// A record that Get returned when it was dead by the driver's time stays dead, also for a write that
// was held up and is given an earlier time.
type Local[T any] interface {
	Driver[T]

	// Load is Get without a copy of the value: it returns the one that is stored. Neither side
	// modifies it; a write of the key stores another. With an error v is nil. at is for a [Slider]'s Slide, in the form of
	// that driver; any other driver returns nil.
	Load(key string) (v *T, m Meta, at *atomic.Int64, err error)
}
