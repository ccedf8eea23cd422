package fakestore

import (
	"context"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver is a driver each of whose calls is answered by Handle.
//
// It has the methods of several capabilities. Which of them it has is listed in Has; a type that
// embeds it and adds the methods of another capability lists that too.
type Driver[T any] struct {
	Handle func(c *Call[T])
	Step   time.Duration // the resolution
	Has    []any         // as driver.Wrapper names capabilities: (*driver.Latest[T])(nil)
}

// Wrapped implements driver.Wrapper.
func (d *Driver[T]) Wrapped(capability any) (any, driver.Way) {
	if slices.Contains(d.Has, capability) {
		return nil, driver.Always
	}
	return nil, driver.Past
}

// do answers c. Beside an error there is no other result.
func (d *Driver[T]) do(c *Call[T]) (driver.Entry[T], error) {
	d.Handle(c)
	if c.Err != nil {
		return driver.Entry[T]{}, c.Err
	}
	return c.Entry, nil
}

// Resolution implements driver.Driver.
func (d *Driver[T]) Resolution() time.Duration { return d.Step }

// Get implements driver.Driver.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.do(&Call[T]{Ctx: ctx, Op: Get, Key: key})
}

// Latest implements driver.Latest.
func (d *Driver[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.do(&Call[T]{Ctx: ctx, Op: Latest, Key: key})
}

// GetMulti implements driver.BatchGetter.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	c := &Call[T]{Ctx: ctx, Op: GetMulti, Keys: keys}
	d.Handle(c)
	return c.Entries, c.Err
}

// Insert implements driver.Driver.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	e, err := d.do(&Call[T]{Ctx: ctx, Op: Insert, Key: key, Value: v, Life: life, Now: now})
	return e.Version, err
}

// Replace implements driver.Driver.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	e, err := d.do(&Call[T]{Ctx: ctx, Op: Replace, Key: key, Value: v, Was: was, Life: life, Now: now})
	return e.Version, err
}

// Touch implements driver.Driver.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	e, err := d.do(&Call[T]{Ctx: ctx, Op: Touch, Key: key, Was: was, Life: life, Now: now})
	return e.Version, err
}

// Delete implements driver.Driver.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	_, err := d.do(&Call[T]{Ctx: ctx, Op: Delete, Key: key})
	return err
}

// Remove implements driver.Remover.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	_, err := d.do(&Call[T]{Ctx: ctx, Op: Remove, Key: key, Was: was, Now: now})
	return err
}

// Upsert implements driver.Upserter.
func (d *Driver[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	e, err := d.do(&Call[T]{Ctx: ctx, Op: Upsert, Key: key, Value: v, Known: known, Plan: plan, Now: now})
	return e.Meta, err
}

// Overwrite implements driver.Overwriter.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	e, err := d.do(&Call[T]{Ctx: ctx, Op: Overwrite, Key: key, Value: v, Life: newLife, Access: a, Now: now})
	return e.Meta, err
}

// ReadTouch implements driver.ReadToucher.
func (d *Driver[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	c := &Call[T]{Ctx: ctx, Op: ReadTouch, Key: key, Known: known, Access: a, Now: now}
	e, err := d.do(c)
	return e, c.Touched && err == nil, err
}
