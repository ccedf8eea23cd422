package driver

import "context"

// Overwriter is a driver whose server decides which life an upsert writes.
type Overwriter[T any] interface {
	Driver[T]

	// Overwrite writes v under key, in one trip, and returns what it wrote.
	//
	// The life is newLife if there is no record, or it is dead at now or past a.Most. Otherwise the
	// record's created_at stays and a.Touch gives the expiry. A live record without created_at or
	// expiry is not changed: the error is a *ConflictError with its Meta.
	Overwrite(ctx context.Context, key string, v T, newLife Life, a Access, now Instant) (Meta, error)
}

// Overwrite returns a Plan with which an [Upserter] does the same as an [Overwriter].
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
