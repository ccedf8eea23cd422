package driver

import (
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

// GetMulti reads keys from d, one after the other unless d is a [BatchGetter].
func GetMulti[T any](ctx context.Context, d Driver[T], keys []string) (map[string]Entry[T], error) {
	if b, ok := As[BatchGetter[T]](d); ok {
		return b.GetMulti(ctx, keys)
	}
	found := make(map[string]Entry[T], len(keys))
	var invalid KeyErrors
	var failed error // the first
	for i, k := range Distinct(keys) {
		e, err := d.Get(ctx, k)
		switch {
		case err == nil:
			found[k] = e
		case errors.Is(err, ErrInvalid):
			invalid = append(invalid, &KeyError{Index: i, Err: err})
		case !errors.Is(err, ErrNotFound) && failed == nil:
			failed = err
		}
		if failed != nil && ctx.Err() != nil {
			break
		}
	}
	if failed != nil {
		return found, failed
	}
	return found, invalid.Err()
}
