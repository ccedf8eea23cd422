package driver

import (
	"context"
	"errors"
)

// Plan decides what an upsert writes over the record it finds, nil if there is none.
//
// It is pure and may be called several times, first perhaps with a guess: nil although there
// is a record, or one that is out of date. It must not call the driver, which may hold a
// lock. An error ends the upsert and is returned as it is.
type Plan func(found *Meta) (Life, error)

// Upserter is a driver with a shorter way to an upsert than Insert, then Replace.
type Upserter[T any] interface {
	Driver[T]

	// Upsert writes v under key with the life that plan gives, and returns what was written.
	//
	// plan is shown what is stored: nil for an absent record or one dead at now. The write is
	// atomic: it lands on what plan was shown, else plan is asked again. known, if not nil,
	// is what the caller remembers of the record; it may be out of date. A race lost too
	// often: a *ConflictError.
	Upsert(ctx context.Context, key string, v T, known *Meta, plan Plan, now Instant) (Meta, error)
}

// upsertAttempts bounds the races that one upsert may lose before it is an ErrConflict.
const upsertAttempts = 16

// Upsert writes v under key in d with the life that plan gives; see [Upserter].
//
// Without that capability it replaces what is known or inserts, and turns to the other when
// the store's condition says so: one trip, or two where it guessed wrong.
func Upsert[T any](ctx context.Context, d Driver[T], key string, v T, known *Meta, plan Plan, now Instant) (Meta, error) {
	if u, ok := As[Upserter[T]](d); ok {
		return u.Upsert(ctx, key, v, known, plan, now)
	}
	if known != nil && !known.Alive(now) {
		known = nil
	}
	var err error
	for range upsertAttempts {
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
			known = &conflict.Found
		case known != nil && errors.Is(err, ErrNotFound):
			known = nil
		default:
			return Meta{}, err
		}
	}
	if !errors.Is(err, ErrConflict) {
		err = ErrConflict // deleted and inserted, again and again
	}
	return Meta{}, err
}
