package driver

import (
	"context"
	"errors"
)

// BatchGetter is a driver that reads many records in fewer trips than keys.
type BatchGetter[T any] interface {
	Driver[T]

	// GetMulti returns the records under keys as they are stored, alive or not;
	// absent keys are left out, duplicates asked for once. With an error it
	// returns what it has read so far.
	GetMulti(ctx context.Context, keys []string) (map[string]Entry[T], error)
}

// GetMulti reads keys from d, one after the other unless d is a [BatchGetter].
func GetMulti[T any](ctx context.Context, d Driver[T], keys []string) (map[string]Entry[T], error) {
	if b, ok := d.(BatchGetter[T]); ok {
		return b.GetMulti(ctx, keys)
	}
	found := make(map[string]Entry[T], len(keys))
	for _, k := range keys {
		if _, ok := found[k]; ok {
			continue
		}
		e, err := d.Get(ctx, k)
		switch {
		case errors.Is(err, ErrNotFound):
		case err != nil:
			return found, err
		default:
			found[k] = e
		}
	}
	return found, nil
}
