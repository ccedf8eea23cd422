package slidingotel

import (
	"context"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.34.0"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Wrapped implements driver.Wrapper. All capabilities but the clock, which is not measured,
// go through the wrapper.
func (d *traced[T]) Wrapped(capability any) (any, driver.Way) {
	if _, is := capability.(*driver.Clock); is {
		return d.inner, driver.Past
	}
	return d.inner, driver.Through
}

// below is the capability C of the wrapped driver. It has it: otherwise driver.As would not
// have returned a method of d that asks.
func below[C, T any](d *traced[T]) C {
	c, _ := driver.As[C](d.inner)
	return c
}

// Upsert implements driver.Upserter.
func (d *traced[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (_ driver.Meta, err error) {
	c := d.calls.begin(ctx, "upsert")
	defer c.end(&err)
	return below[driver.Upserter[T]](d).Upsert(c.ctx, key, v, known, plan, now)
}

// Overwrite implements driver.Overwriter.
func (d *traced[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (_ driver.Meta, err error) {
	c := d.calls.begin(ctx, "overwrite")
	defer c.end(&err)
	return below[driver.Overwriter[T]](d).Overwrite(c.ctx, key, v, newLife, a, now)
}

// GetMulti implements driver.BatchGetter.
func (d *traced[T]) GetMulti(ctx context.Context, keys []string) (_ map[string]driver.Entry[T], err error) {
	op, size := "get", []attribute.KeyValue(nil)
	if len(keys) > 1 { // fewer are no batch
		op, size = "BATCH get", []attribute.KeyValue{semconv.DBOperationBatchSize(len(keys))}
	}
	c := d.calls.begin(ctx, op, size...)
	defer c.end(&err)
	return below[driver.BatchGetter[T]](d).GetMulti(c.ctx, keys)
}

// ReadTouch implements driver.ReadToucher.
func (d *traced[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (_ driver.Entry[T], _ bool, err error) {
	c := d.calls.begin(ctx, "read_touch")
	defer c.end(&err)
	return below[driver.ReadToucher[T]](d).ReadTouch(c.ctx, key, known, a, now)
}

// Latest implements driver.Latest.
func (d *traced[T]) Latest(ctx context.Context, key string) (_ driver.Entry[T], err error) {
	c := d.calls.begin(ctx, "latest")
	defer c.end(&err)
	return below[driver.Latest[T]](d).Latest(c.ctx, key)
}

// Remove implements driver.Remover.
func (d *traced[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) (err error) {
	c := d.calls.begin(ctx, "remove")
	defer c.end(&err)
	return below[driver.Remover](d).Remove(c.ctx, key, was, now)
}

// Load implements driver.Local.
func (d *traced[T]) Load(key string) (*T, driver.Meta, *atomic.Int64, error) {
	return d.local.Load(key)
}

// Next implements driver.Slider.
func (d *traced[T]) Next() driver.Instant { return d.slider.Next() }

// Slide implements driver.Slider.
func (d *traced[T]) Slide(ctx context.Context, key string, at *atomic.Int64, was, to driver.Instant) bool {
	return d.slider.Slide(ctx, key, at, was, to)
}

// Check implements driver.Checker.
func (d *traced[T]) Check(ctx context.Context, longest time.Duration) (err error) {
	c := d.calls.begin(ctx, "check")
	defer c.end(&err)
	return below[driver.Checker](d).Check(c.ctx, longest)
}

// Segments implements driver.Scanner.
func (d *traced[T]) Segments(ctx context.Context, n int) (_ []driver.Cursor, err error) {
	c := d.calls.begin(ctx, "segments")
	defer c.end(&err)
	return below[driver.Scanner](d).Segments(c.ctx, n)
}

// Scan implements driver.Scanner.
func (d *traced[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (_ driver.Page, err error) {
	c := d.calls.begin(ctx, "scan")
	defer c.end(&err)
	return below[driver.Scanner](d).Scan(c.ctx, from, limit)
}

// Dying implements driver.Dying.
func (d *traced[T]) Dying(ctx context.Context, now, until driver.Instant, limit int) (_ []driver.Scanned, err error) {
	c := d.calls.begin(ctx, "dying")
	defer c.end(&err)
	return below[driver.Dying](d).Dying(c.ctx, now, until, limit)
}

// Raw implements driver.RawReader.
func (d *traced[T]) Raw(ctx context.Context, key string) (_ driver.Raw, err error) {
	c := d.calls.begin(ctx, "raw")
	defer c.end(&err)
	return below[driver.RawReader](d).Raw(c.ctx, key)
}

// Mend implements driver.Mender.
func (d *traced[T]) Mend(ctx context.Context, key string, apply bool) (_ string, err error) {
	c := d.calls.begin(ctx, "mend")
	defer c.end(&err)
	return below[driver.Mender](d).Mend(c.ctx, key, apply)
}

// Whole implements driver.Eraser. Its calls are not traced.
func (d *traced[T]) Whole(what driver.Erasure) driver.Scanner {
	return below[driver.Eraser](d).Whole(what)
}

// EraseEnded implements driver.Eraser.
func (d *traced[T]) EraseEnded(ctx context.Context, what driver.Erasure, apply bool) (_, _ int64, err error) {
	c := d.calls.begin(ctx, "erase_ended")
	defer c.end(&err)
	return below[driver.Eraser](d).EraseEnded(c.ctx, what, apply)
}

// Scrub implements driver.Eraser. What the store could not scrub is no error of the call.
func (d *traced[T]) Scrub(ctx context.Context, what driver.Erasure) (_ []string, err error) {
	c := d.calls.begin(ctx, "scrub")
	defer c.end(&err)
	return below[driver.Eraser](d).Scrub(c.ctx, what)
}
