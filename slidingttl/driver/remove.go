package driver

import "context"

// Remover is a driver that can delete one particular record.
type Remover[T any] interface {
	Driver[T]

	// Remove deletes the record was, by created_at, expiry and version, if it is alive at now.
	//
	// If it is gone or dead: ErrNotFound. If it is another: a *ConflictError that carries
	// it. Either way nothing is changed.
	Remove(ctx context.Context, key string, was Meta, now Instant) error
}

// Remove deletes the record was from d. Without that capability it touches the record to
// death: every reader finds it dead, and the store deletes it in its own time.
func Remove[T any](ctx context.Context, d Driver[T], key string, was Meta, now Instant) error {
	if r, ok := As[Remover[T]](d); ok {
		return r.Remove(ctx, key, was, now)
	}
	past := Instant(0).Add(d.Resolution())
	_, err := d.Touch(ctx, key, was, Life{CreatedAt: was.CreatedAt, ExpiresAt: past}, now)
	return err
}
