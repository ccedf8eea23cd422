package driver

import "context"

// Dying is a driver that finds by an index what dies soon. Whoever needs to know of another
// driver's records goes through all of them; see [Scanner].
type Dying interface {
	// Dying returns the records whose expiry comes after now and no later than until, the
	// first to die first, limit of them at most. One that is written meanwhile may be
	// missing. A limit below one is an *InvalidError.
	Dying(ctx context.Context, now, until Instant, limit int) ([]Scanned, error)
}
