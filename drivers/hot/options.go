package hot

import (
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Bounds are what a Driver may hold, and for how long. Both are required: how old an answer
// may be is for the application to say.
type Bounds struct {
	// Records is how many records are held, at least 1. Those read most stay. For
	// moments there may be a few hundred more.
	Records int

	// Staleness is how long after a record was read from the store it may be answered from
	// memory. It must be positive.
	Staleness time.Duration
}

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options struct {
	// LateDeletes says that a record which another process deletes or overwrites may be
	// answered here for up to Bounds.Staleness longer. Without it Check fails, for sessions
	// must not be kept so.
	LateDeletes bool

	// Now is the time by which a record that is held has expired. Nil: that of the wrapped
	// driver if it is a driver.Clock, else time.Now. Where slidingttl.Options.Now is set,
	// this should be the same. Staleness goes by the monotonic clock in any case.
	Now func() time.Time
}

func (b Bounds) validate() error {
	switch {
	case b.Records < 1:
		return &driver.InvalidError{Field: "Bounds.Records", Value: strconv.Itoa(b.Records), Rule: "must be at least 1"}
	case b.Staleness <= 0:
		return &driver.InvalidError{Field: "Bounds.Staleness", Value: b.Staleness.String(), Rule: "must be positive"}
	}
	return nil
}
