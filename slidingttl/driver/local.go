package driver

// Local is a driver whose store is this process's memory.
//
// Its calls do not block, and fail only by their arguments or the store's bounds. So touches
// are made in place, with nothing to share, detach or queue.
type Local[T any] interface {
	Driver[T]

	// Load is Get without a copy of the value: it returns the one that is stored.
	// Neither side writes to it; a write of the key puts another in its place.
	Load(key string) (*T, Meta, error)
}
