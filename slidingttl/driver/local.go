package driver

// Local is a driver whose store is this process's memory.
//
// Its calls do not block, and fail only for their arguments or the store's limits. So touches run
// within the read, and are not shared, detached or queued.
type Local[T any] interface {
	Driver[T]

	// Load is Get without a copy of the value: it returns the one that is stored. Neither side
	// modifies it; a write of the key stores another.
	Load(key string) (*T, Meta, error)
}
