package driver

import (
	"cmp"
	"context"
	"errors"
)

// BatchGetter is a driver that reads many records in fewer trips than keys.
type BatchGetter[T any] interface {
	Driver[T]

	// GetMulti returns the records under keys as they are stored, alive or not.
	//
	// Absent keys are left out, duplicates are read once. Keys that the store cannot take, and keys
	// whose records do not decode, are in a [KeyErrors] with their first index in keys; all others
	// are read. Any other error comes with the entries that could be read: where a part of the store
	// does not answer, those of the others.
	GetMulti(ctx context.Context, keys []string) (map[string]Entry[T], error)
}

// mostFailures in a row show that a store does not answer, and not a part of it only.
const mostFailures = 8

// GetMulti reads keys from d, one after the other unless d is a [BatchGetter].
//
// One after the other, it reads on beyond keys that fail, but ends after eight in a row: each may take as long as a call
// may.
func GetMulti[T any](ctx context.Context, d Driver[T], keys []string) (map[string]Entry[T], error) {
	if b, ok := As[BatchGetter[T]](d); ok {
		return b.GetMulti(ctx, keys)
	}
	found := make(map[string]Entry[T], len(keys))
	var invalid KeyErrors
	var failed error // the first
	inRow := 0
	for i, k := range Distinct(keys) {
		e, err := d.Get(ctx, k)
		inRow++
		switch {
		case err == nil:
			found[k], inRow = e, 0
		case errors.Is(err, ErrInvalid):
			invalid, inRow = append(invalid, &KeyError{Index: i, Err: err}), 0
		case errors.Is(err, ErrNotFound):
			inRow = 0
		default:
			failed = cmp.Or(failed, err)
		}
		if failed != nil && (inRow == mostFailures || ctx.Err() != nil) {
			break
		}
	}
	if failed != nil {
		return found, failed
	}
	return found, invalid.Err()
}
