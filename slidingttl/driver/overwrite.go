package driver

import "context"

// Overwriter is a driver whose server decides what an upsert writes over an unknown record.
type Overwriter[T any] interface {
	Driver[T]

	// Overwrite writes v under key, in one trip, and returns what it wrote.
	//
	// Its life is newLife where there is no record, or one that is dead at now or as old as
	// a.Most; over any other it has its created_at, and the expiry that a.Touch gives it. A
	// record without created_at, or without an expiry, that is not dead is left as it is: a
	// *ConflictError that carries it.
	Overwrite(ctx context.Context, key string, v T, newLife Life, a Access, now Instant) (Meta, error)
}

// Overwrite is the plan of an [Upserter] that does what an [Overwriter] would.
func (a Access) Overwrite(newLife Life, now Instant) Plan {
	return func(found *Meta) (Life, error) {
		switch {
		case found == nil:
			return newLife, nil
		case found.CreatedAt == 0 || found.ExpiresAt == 0:
			return Life{}, &ConflictError{Found: *found}
		case found.CreatedAt.Plus(a.Most) <= now:
			return newLife, nil
		}
		life, _ := a.Touch(found.Life)
		return life, nil
	}
}
