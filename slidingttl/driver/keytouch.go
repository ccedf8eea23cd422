package driver

import "context"

// KeyTouch is a touch of a record that was not read.
type KeyTouch struct {
	Now    Instant // a record whose expiry is at or before it is dead
	Born   Instant // it is for records created at or after this: no cap binds them
	Due    Instant // it is for records that expire before this
	Expiry Instant // what it writes
}

// KeyToucher is a driver that can move the expiry of a record it has not read,
// in one trip, where the idle limit binds and not the cap.
type KeyToucher interface {
	// TouchKey writes t.Expiry, if the record under key is alive at t.Now, was
	// created at or after t.Born and expires before t.Due. It returns what is
	// then stored. A live record that is not so, one without created_at or
	// expiry included, comes back unchanged in a *ConflictError. Gone or dead:
	// ErrNotFound.
	TouchKey(ctx context.Context, key string, t KeyTouch) (Meta, error)
}
