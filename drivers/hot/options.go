package hot

import (
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Bounds limit what a Driver may hold, and for how long. Records and Staleness are required: only
// the application knows how old an answer may be.
type Bounds struct {
	// Records is how many records are held, at least 1. The most-read records stay. A few hundred
	// more may be held for moments.
	Records int

	// Bytes also limits the total size of keys, and of values as counted by Options.SizeOf. A
	// single record larger than Bytes is not held. Zero: Records is the only bound.
	Bytes int

	// Staleness is how long after a record was read from the store it may be answered from
	// memory. It must be positive.
	Staleness time.Duration

	// Absence is how long after a read of the store found nothing under a key that result may be
	// answered from memory. For this long, a record that another process creates may not be seen
	// here. Zero: each read of an absent key goes to the store.
	Absence time.Duration
}

// Options adjusts a Driver. The zero value, and a nil pointer, mean the defaults.
type Options[T any] struct {
	// LateDeletes says that a record which another process deletes or overwrites may be answered
	// here for up to Bounds.Staleness longer. Without it Check fails, because a revoked session
	// must not stay valid.
	LateDeletes bool

	// SizeOf returns how many bytes a value takes. It is required with Bounds.Bytes, and called for
	// each record that is added to memory, while all other writes wait.
	SizeOf func(v T) int

	// Now is the clock that decides whether a held record has expired. Nil: that of the wrapped
	// driver if it is a driver.Clock, else time.Now. Where slidingttl.Options.Now is set, this
	// should be the same. Staleness goes by the monotonic clock in any case.
	Now func() time.Time
}

func (b Bounds) validate(sized bool) error {
	invalid := func(field, value, rule string) error {
		return &driver.InvalidError{Field: field, Value: value, Rule: rule}
	}
	switch {
	case b.Records < 1:
		return invalid("Bounds.Records", strconv.Itoa(b.Records), "must be at least 1")
	case b.Bytes < 0:
		return invalid("Bounds.Bytes", strconv.Itoa(b.Bytes), "must not be negative")
	case b.Staleness <= 0:
		return invalid("Bounds.Staleness", b.Staleness.String(), "must be positive")
	case b.Absence < 0:
		return invalid("Bounds.Absence", b.Absence.String(), "must not be negative")
	case b.Bytes > 0 != sized:
		return invalid("Bounds.Bytes", strconv.Itoa(b.Bytes), "must be set with Options.SizeOf, and not without")
	}
	return nil
}
