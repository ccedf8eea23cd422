package driver

import (
	"context"
	"time"
)

// Remover is a driver that can delete one particular record.
type Remover interface {
	// Remove deletes the record if its Meta is still was and it is alive at now.
	//
	// If it is gone or dead: ErrNotFound. If it is another: a *ConflictError with its Meta. Either
	// way nothing is changed.
	Remove(ctx context.Context, key string, was Meta, now Instant) error
}

// Remove deletes the record was from d. If d is no [Remover], it writes an expiry long past: every
// reader then finds the record dead, and the store deletes it later.
func Remove(ctx context.Context, d interface {
	Touch(ctx context.Context, key string, was Meta, life Life, now Instant) (Version, error)
	Resolution() time.Duration
}, key string, was Meta, now Instant) error {
	if r, ok := As[Remover](d); ok {
		return r.Remove(ctx, key, was, now)
	}
	past := Instant(0).Add(d.Resolution())
	_, err := d.Touch(ctx, key, was, Life{CreatedAt: was.CreatedAt, ExpiresAt: past}, now)
	return err
}
