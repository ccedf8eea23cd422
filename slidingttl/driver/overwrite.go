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
	// A record without created_at, or without an expiry, that is not dead is left as
	// it is: a *ConflictError that carries it.
	Overwrite(ctx context.Context, key string, v T, fresh Life, a Access, now Instant) (Meta, error)
}

// Overwrite is the plan of an [Upserter] that does what an [Overwriter] would.
func (a Access) Overwrite(fresh Life, now Instant) Plan {
	return func(found *Meta) (Life, error) {
		switch {
		case found == nil:
			return fresh, nil
		case found.CreatedAt == 0 || found.ExpiresAt == 0:
			return Life{}, &ConflictError{Found: *found}
		case sum(found.CreatedAt, a.Most) <= now:
			return fresh, nil
		}
		life, _ := a.Touch(found.Life)
		return life, nil
	}
}
