package hot

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Insert implements driver.Driver.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	defer d.tier.forget(key) // also on a conflict, which shows that the held record is stale
	return d.inner.Insert(ctx, key, v, life, now)
}

// Replace implements driver.Driver.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	defer d.tier.forget(key)
	return d.inner.Replace(ctx, key, v, was, life, now)
}

// Touch implements driver.Driver. The held record stays, with its new life.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (version driver.Version, err error) {
	since := d.tier.mark()
	defer func() {
		if err == nil && !driver.MayUndo(ctx) {
			d.tier.touched(key, was, driver.Meta{Life: life, Version: version}, since)
		} else {
			d.tier.forget(key)
		}
	}()
	return d.inner.Touch(ctx, key, was, life, now)
}

// Delete implements driver.Driver.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	defer d.tier.forget(key)
	return d.inner.Delete(ctx, key)
}

// Upsert implements driver.Upserter.
func (d *Driver[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	defer d.tier.forget(key)
	return driver.Upsert(ctx, d.inner, key, v, known, plan, now)
}

// Overwrite implements driver.Overwriter.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	defer d.tier.forget(key)
	return below[driver.Overwriter[T]](d).Overwrite(ctx, key, v, newLife, a, now)
}

// Remove implements driver.Remover.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	defer d.tier.forget(key)
	return driver.Remove(ctx, d.inner, key, was, now)
}

// Mend implements driver.Mender.
func (d *Driver[T]) Mend(ctx context.Context, key string, apply bool) (string, error) {
	defer d.tier.forget(key)
	return below[driver.Mender](d).Mend(ctx, key, apply)
}
