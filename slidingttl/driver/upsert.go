package driver

import (
	"context"
	"errors"
)

// Plan decides what an upsert writes over the record it finds, nil if there is none.
//
// It is pure and may be called several times, the first time perhaps with a guess: nil although
// there is a record, or one that is out of date. It must not call the driver, which may hold a
// lock. The upsert returns its error unchanged.
type Plan func(found *Meta) (Life, error)

// Upserter is a driver that upserts in fewer trips than Insert, then Replace.
type Upserter[T any] interface {
	Driver[T]

	// Upsert writes v under key with the life that plan gives, and returns what was written.
	//
	// plan gets the stored record: nil for an absent one or one dead at now. The write is atomic:
	// it lands on the record that plan got, else plan is called again. known is what the caller
	// remembers of the record, or nil; it may be out of date. After too many conflicts: a
	// *ConflictError.
	Upsert(ctx context.Context, key string, v T, known *Meta, plan Plan, now Instant) (Meta, error)
}

// upsertAttempts is the number of conflicts after which an upsert returns ErrConflict, without those with touches.
const upsertAttempts = 16

// Upsert writes v under key in d with the life that plan gives; see [Upserter].
//
// If d is no Upserter, it replaces known or inserts, and tries the other if the condition fails:
// one trip, or two after a wrong guess.
func Upsert[T any](ctx context.Context, d Driver[T], key string, v T, known *Meta, plan Plan, now Instant) (Meta, error) {
	if u, ok := As[Upserter[T]](d); ok {
		return u.Upsert(ctx, key, v, known, plan, now)
	}
	if known != nil && !known.Alive(now) {
		known = nil
	}
	var err error
	for attempt := 0; attempt < upsertAttempts; attempt++ {
		var life Life
		if life, err = plan(known); err != nil {
			return Meta{}, err
		}
		var version Version
		if known == nil {
			version, err = d.Insert(ctx, key, v, life, now)
		} else {
			version, err = d.Replace(ctx, key, v, *known, life, now)
		}
		var conflict *ConflictError
		switch {
		case err == nil:
			return Meta{Life: life, Version: version}, nil
		case errors.As(err, &conflict):
			found := &conflict.Found
			if known != nil && *known != *found && known.CreatedAt != 0 && known.CreatedAt == found.CreatedAt && known.Version == found.Version {
				attempt--
			}
			known = found
		case known != nil && errors.Is(err, ErrNotFound):
			known = nil
		case known == nil && errors.Is(err, ErrLate) && !errors.Is(err, ErrAmbiguous):
		default:
			return Meta{}, err
		}
	}
	if !errors.Is(err, ErrConflict) {
		err = ErrConflict // deleted and inserted, again and again
	}
	return Meta{}, err
}
