package driver

import "context"

// Latest is a driver whose Get may be stale.
//
// It may return a record's state of some moments ago, before a write that has been answered since.
// A driver without this capability never does that.
type Latest[T any] interface {
	Driver[T]

	// Latest is Get that sees every write answered before the call.
	Latest(ctx context.Context, key string) (Entry[T], error)
}

// GetLatest reads the latest state of key from d, by Get unless d is a [Latest].
func GetLatest[T any](ctx context.Context, d Driver[T], key string) (Entry[T], error) {
	if l, ok := As[Latest[T]](d); ok {
		return l.Latest(ctx, key)
	}
	return d.Get(ctx, key)
}
