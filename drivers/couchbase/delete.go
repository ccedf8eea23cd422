package couchbase

import (
	"context"
	"errors"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Delete implements driver.Driver: one round trip.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	if err := driver.CheckKey(key, d.maxKey); err != nil {
		return err
	}
	if err := d.remove(ctx, key, 0); !errors.Is(err, driver.ErrNotFound) {
		return err
	}
	return nil
}

// Remove implements driver.Remover: one round trip, or two if the record is not was.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	if err := driver.CheckKey(key, d.maxKey); err != nil {
		return err
	}
	_, err := d.over(ctx, key, was, now, func() (driver.Version, error) { return 0, d.remove(ctx, key, gocb.Cas(was.Version)) })
	return err
}

// remove removes the document with that CAS; zero: any.
func (d *Driver[T]) remove(ctx context.Context, key string, cas gocb.Cas) error {
	if err := ctx.Err(); err != nil {
		return err // gocb may still send the request
	}
	_, err := d.collection.Remove(key, &gocb.RemoveOptions{
		Cas:             cas,
		DurabilityLevel: d.opts.Durability,
		Timeout:         d.opts.Timeout,
		RetryStrategy:   before(ctx, time.Now().Add(d.opts.Timeout), d.writeRetry),
		ParentSpan:      d.span(ctx),
		Context:         ctx,
	})
	return written(ctx, err)
}
