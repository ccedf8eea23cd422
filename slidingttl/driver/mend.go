package driver

import "context"

// Mender is a driver that can correct a life that another program wrote wrongly.
//
// Wrong means that the driver cannot read it or the store does not act on it: milliseconds instead
// of seconds, a number as text.
type Mender interface {
	// Mend returns what is wrong with the stored life of the record under key.
	//
	// The fault has the same text for all records that have it, and is empty for none. If there is
	// a fault and apply is set, Mend writes the life in the driver's form, if the record is still
	// as it was read.
	//
	// Errors: ErrNotFound; ErrConflict if the record was written meanwhile; an
	// *InvalidError if what was meant is in doubt. In all three nothing is changed.
	Mend(ctx context.Context, key string, apply bool) (fault string, err error)
}
