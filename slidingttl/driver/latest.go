package driver

import "context"

// Latest is a driver whose Get may be stale.
//
// It may show a record as it was some moments ago, though a write that has been answered
// since changed it. A driver without this capability never does that.
type Latest[T any] interface {
	Driver[T]

	// Latest is Get, and shows every write that was answered before it was called.
	Latest(ctx context.Context, key string) (Entry[T], error)
}

// GetLatest reads the record under key from d as it is now, by Get unless d is a [Latest].
func GetLatest[T any](ctx context.Context, d Driver[T], key string) (Entry[T], error) {
	if l, ok := As[Latest[T]](d); ok {
		return l.Latest(ctx, key)
	}
	return d.Get(ctx, key)
}
