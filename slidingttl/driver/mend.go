package driver

import "context"

// Mender is a driver that can put right what another program wrote of a record's life in
// a form that the driver does not read or the store does not act on: milliseconds where
// it counts seconds, a number as text.
type Mender interface {
	// Mend reads what the store keeps of the life of the record under key and, if
	// apply is set, writes it anew as the driver would, on condition that it is still
	// what was read. It returns what was wrong, in the same words for all records
	// with that fault; empty if nothing was, and then nothing is written.
	//
	// Errors: ErrNotFound; ErrConflict if the record was written meanwhile; an
	// *InvalidError if what was meant is in doubt. In all three nothing is changed.
	Mend(ctx context.Context, key string, apply bool) (fault string, err error)
}
