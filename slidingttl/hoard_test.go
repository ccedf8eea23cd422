package slidingttl_test

import (
	"context"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hoard is the simplest driver: a map behind a mutex that follows the rules of package driver. It
// never deletes expired records, like a store that deletes days late. The zero value, with Step
// set, is ready for use.
type hoard[T any] struct {
	Step time.Duration // its resolution

	mu      sync.Mutex // guards the rest
	records map[string]driver.Entry[T]
	version driver.Version
}

// Resolution returns d.Step.
func (d *hoard[T]) Resolution() time.Duration { return d.Step }

// Get returns the record under key, dead or alive.
func (d *hoard[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	if err := checkCall(ctx, key); err != nil {
		return driver.Entry[T]{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.records[key]
	if !ok {
		return e, driver.ErrNotFound
	}
	return e, nil
}

// Insert creates key or replaces a record that is dead at now.
func (d *hoard[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := checkCall(ctx, key); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e, ok := d.records[key]; ok && e.Alive(now) {
		return 0, &driver.ConflictError{Found: e.Meta}
	}
	return d.put(key, v, life), nil
}

// Replace overwrites the record was.
func (d *hoard[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := checkCall(ctx, key); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch e, ok := d.records[key]; {
	case !ok || !e.Alive(now):
		return 0, driver.ErrNotFound
	case e.Meta != was:
		return 0, &driver.ConflictError{Found: e.Meta}
	}
	return d.put(key, v, life), nil
}

// Touch writes life over that of was.
func (d *hoard[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := checkCall(ctx, key); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e, ok := d.records[key]
	switch {
	case !ok || !e.Alive(now):
		return 0, driver.ErrNotFound
	case e.Meta != was:
		return 0, &driver.ConflictError{Found: e.Meta}
	}
	e.Life = life
	d.records[key] = e
	return e.Version, nil
}

// Delete removes key.
func (d *hoard[T]) Delete(ctx context.Context, key string) error {
	if err := checkCall(ctx, key); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.records, key)
	return nil
}

// Plant stores a record as another program would: with any life, over anything.
func (d *hoard[T]) Plant(key string, v T, life driver.Life) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.put(key, v, life)
}

func (d *hoard[T]) put(key string, v T, life driver.Life) driver.Version {
	if d.records == nil {
		d.records = make(map[string]driver.Entry[T])
	}
	d.version++
	d.records[key] = driver.Entry[T]{Value: v, Meta: driver.Meta{Life: life, Version: d.version}}
	return d.version
}

func checkCall(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return driver.CheckKey(key, 0)
}
