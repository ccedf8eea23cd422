package driver

import "context"

// Overwriter is a driver whose server decides what an upsert writes over a record that
// nobody remembers.
type Overwriter[T any] interface {
	Driver[T]

	// Overwrite writes v under key, in one trip: with the life fresh where there is
	// no record, or one that is dead at now or as old as a.Most; over any other with
	// its created_at, and the expiry that a.Touch gives it. It returns what it wrote.
	//
	// A live record without created_at, or without an expiry, is left as it is: a
	// *ConflictError that carries it.
	Overwrite(ctx context.Context, key string, v T, fresh Life, a Access, now Instant) (Meta, error)
}
