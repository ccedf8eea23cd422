package redis

import (
	"context"
	"errors"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Insert implements driver.Driver: one trip.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.put(ctx, key, v, "", life, now)
}

// Replace implements driver.Driver: one trip.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.put(ctx, key, v, metaText(was), life, now)
}

// put writes v over the record with the meta over, or over none if that is empty.
func (d *Driver[T]) put(ctx context.Context, key string, v T, over string, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.key(key)
	if err != nil {
		return 0, err
	}
	version := newVersion()
	record, err := d.record(v, driver.Meta{Life: life, Version: version})
	if err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err // it has not been sent
	}
	err = outcome(ctx, d.eval(ctx, putScript, k, decimal(now), over, record, decimal(d.opts.gone(life.ExpiresAt))))
	var conflict *driver.ConflictError
	if errors.As(err, &conflict) && conflict.Found.Version == version {
		err = nil // a client that sends it again, as with ClientOption.ConnLifetime, has met its own write
	}
	if err != nil {
		return 0, err
	}
	return version, nil
}

// Overwrite implements driver.Overwriter: one trip. A client with ConnLifetime may send it
// again; it then lands on what was written meanwhile, as an Overwrite that came later does.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, fresh driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Meta{}, err
	}
	version := newVersion()
	record, err := d.record(v, driver.Meta{Life: fresh, Version: version})
	if err != nil {
		return driver.Meta{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Meta{}, err // it has not been sent
	}
	keep, to := until(a)
	err = outcome(ctx, d.eval(ctx, overwriteScript, k, decimal(now), keep, to, decimal(a.Most), record, d.opts.retain()))
	var stored *driver.ConflictError
	if errors.As(err, &stored) && stored.Found.Version == version {
		return stored.Found, nil
	}
	return driver.Meta{}, err
}

// Touch implements driver.Driver: one trip. It leaves the version as it is, and gives one
// to a record that it adopts.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.key(key)
	if err != nil {
		return 0, err
	}
	if err := checkLife(life); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err // it has not been sent
	}
	touched := driver.Meta{Life: life, Version: was.Version}
	if was.CreatedAt == 0 {
		touched.Version = newVersion()
	}
	if err := outcome(ctx, d.eval(ctx, touchScript, k, decimal(now), metaText(was), metaText(touched), decimal(d.opts.gone(life.ExpiresAt)))); err != nil {
		return 0, err
	}
	return touched.Version, nil
}

// Remove implements driver.Remover: one trip.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := d.key(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // it has not been sent
	}
	return outcome(ctx, d.eval(ctx, removeScript, k, decimal(now), metaText(was)))
}

// Delete implements driver.Driver: one DEL, on no condition.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.key(key)
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err // it has not been sent
	}
	if err := d.send(ctx, d.client.B().Del().Key(k).Build()).Error(); err != nil {
		return unsure(ctx, err)
	}
	return nil
}

func decimal(i driver.Instant) string { return strconv.FormatInt(int64(i), 10) }
