package driver

import "context"

// Dying is a driver with an index by which it finds records that expire soon. For other drivers,
// scan all records; see [Scanner].
type Dying interface {
	// Dying returns at most limit records whose expiry is after now and no later than until,
	// earliest expiry first. It may miss a record that is written meanwhile. A limit below one is
	// an *InvalidError.
	Dying(ctx context.Context, now, until Instant, limit int) ([]Scanned, error)
}
