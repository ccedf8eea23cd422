package slidingotel

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// traced is a driver whose calls are traced and measured. It has the optional
// capabilities of the one it wraps, and no others: see [driver.As].
type traced[T any] struct {
	inner driver.Driver[T]
	calls *calls
	// Of inner, nil if it has none: to ask each time would cost what a read does.
	local  driver.Local[T]
	slider driver.Slider[T]
}

// Wrap returns d with its calls traced and measured by t. db describes the database behind
// d. Close d as before. If db has no System, the error is a *slidingttl.InvalidError.
func Wrap[T any](t *Telemetry, d driver.Driver[T], db Database) (driver.Driver[T], error) {
	switch {
	case t == nil:
		return nil, &driver.InvalidError{Field: "telemetry", Value: "nil", Rule: "is required"}
	case d == nil:
		return nil, &driver.InvalidError{Field: "driver", Value: "nil", Rule: "is required"}
	}
	if err := db.validate(); err != nil {
		return nil, err
	}
	w := &traced[T]{inner: d, calls: callsTo(t, db)}
	w.local, _ = driver.As[driver.Local[T]](d)
	w.slider, _ = driver.As[driver.Slider[T]](d)
	return w, nil
}

// Get implements driver.Driver.
func (d *traced[T]) Get(ctx context.Context, key string) (_ driver.Entry[T], err error) {
	c := d.calls.begin(ctx, "get")
	defer c.end(&err)
	return d.inner.Get(c.ctx, key)
}

// Insert implements driver.Driver.
func (d *traced[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (_ driver.Version, err error) {
	c := d.calls.begin(ctx, "insert")
	defer c.end(&err)
	return d.inner.Insert(c.ctx, key, v, life, now)
}

// Replace implements driver.Driver.
func (d *traced[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (_ driver.Version, err error) {
	c := d.calls.begin(ctx, "replace")
	defer c.end(&err)
	return d.inner.Replace(c.ctx, key, v, was, life, now)
}

// Touch implements driver.Driver.
func (d *traced[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (_ driver.Version, err error) {
	c := d.calls.begin(ctx, "touch")
	defer c.end(&err)
	return d.inner.Touch(c.ctx, key, was, life, now)
}

// Delete implements driver.Driver.
func (d *traced[T]) Delete(ctx context.Context, key string) (err error) {
	c := d.calls.begin(ctx, "delete")
	defer c.end(&err)
	return d.inner.Delete(c.ctx, key)
}

// Resolution implements driver.Driver.
func (d *traced[T]) Resolution() time.Duration { return d.inner.Resolution() }
