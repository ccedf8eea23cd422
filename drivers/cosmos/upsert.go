package cosmos

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// plain hides Upsert, so that driver.Upsert inserts and replaces in sequence.
type plain[T any] struct{ driver.Driver[T] }

// Upsert implements driver.Upserter. It replaces a known record. Otherwise it sends a create and a
// read together: an upsert over a record then costs two waits, not three.
func (d *Driver[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if known != nil && known.Alive(now) {
		return driver.Upsert(ctx, plain[T]{d}, key, v, known, plan, now)
	}
	life, err := plan(nil)
	if err != nil {
		return driver.Meta{}, err
	}
	written, err := d.insert(ctx, key, v, life, now, true, true)
	var conflict *driver.ConflictError
	if errors.As(err, &conflict) {
		return driver.Upsert(ctx, plain[T]{d}, key, v, &conflict.Found, plan, now)
	}
	return written, err
}
