package driver

import "context"

// KeyToucher is a driver that can move the expiry of a record it has not read,
// in one trip, where the idle limit binds and not the cap.
type KeyToucher interface {
	// TouchKey sets the expiry of the record under key to expiry, if the record
	// is alive at now, was created at or after born, and expires before expiry.
	// It returns what is then stored. A record on which one of the last two
	// conditions fails comes back unchanged in a *ConflictError, one without a
	// created_at or an expiry too. Gone or dead: ErrNotFound.
	TouchKey(ctx context.Context, key string, expiry, born, now Instant) (Meta, error)
}
