package driver

import "context"

// Mender is a driver that can put right what another program wrote of a record's life.
//
// That is what the driver does not read or the store does not act on: milliseconds where it
// counts seconds, a number as text.
type Mender interface {
	// Mend returns what is wrong with what the store keeps of the life of the record under key.
	//
	// The fault is in the same words for all records that have it, and empty for none. If
	// there is one and apply is set, Mend writes the life anew as the driver would, on
	// condition that it is still what was read.
	//
	// Errors: ErrNotFound; ErrConflict if the record was written meanwhile; an
	// *InvalidError if what was meant is in doubt. In all three nothing is changed.
	Mend(ctx context.Context, key string, apply bool) (fault string, err error)
}
