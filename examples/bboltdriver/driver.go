// Package bboltdriver keeps records in a bucket of a bbolt file. It is the example of
// docs/writing-a-driver.md.
package bboltdriver

import (
	"bytes"
	"context"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// DB is the part of a *bolt.DB that a driver uses.
type DB interface {
	View(func(*bolt.Tx) error) error
	Update(func(*bolt.Tx) error) error
}

// Options configures a Driver.
type Options struct {
	Bucket string           // required; nobody else writes to it
	Now    func() time.Time // the time by which records die; nil: time.Now
}

// Driver keeps values of type T as JSON. Its methods are safe for concurrent use. bbolt
// deletes nothing by itself: see upkeep.Reap.
type Driver[T any] struct{ *store }

// store is what does not depend on T.
type store struct {
	db     DB
	bucket []byte
	now    func() time.Time
}

// New returns a driver over db, and creates the bucket if there is none.
func New[T any](db DB, o Options) (*Driver[T], error) {
	if o.Bucket == "" {
		return nil, &driver.InvalidError{Field: "Options.Bucket", Value: "empty", Rule: "must be named"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Driver[T]{&store{db: db, bucket: []byte(o.Bucket), now: o.Now}}
	return d, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(d.bucket)
		return err
	})
}

// Resolution implements driver.Driver: a millisecond.
func (d *store) Resolution() time.Duration { return time.Millisecond }

// Now implements driver.Clock.
func (d *store) Now() time.Time { return d.now() }

// Bounds implements driver.Clock.
func (d *store) Bounds() (earliest, latest driver.Instant) {
	now := d.now()
	return driver.Floor(now), driver.Ceil(now)
}

// Get implements driver.Driver.
func (d *Driver[T]) Get(ctx context.Context, key string) (e driver.Entry[T], err error) {
	if err := driver.CheckKey(key, bolt.MaxKeySize); err != nil {
		return e, err
	}
	// What bbolt hands out is good for the transaction only.
	record, err := call(ctx, d.store, reading, func(b *bolt.Bucket) ([]byte, error) { return bytes.Clone(b.Get([]byte(key))), nil })
	if err != nil {
		return e, err
	}
	m, value, err := split(record)
	if err != nil {
		return e, err
	}
	e.Value, err = decode[T](value)
	e.Meta = m
	return e, err
}

// Insert implements driver.Driver.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	value, err := encode(v)
	if err != nil {
		return 0, err
	}
	return d.change(ctx, key, now, func(b *bolt.Bucket, found *driver.Meta, _ []byte) (driver.Meta, []byte, error) {
		if found != nil {
			return driver.Meta{}, nil, &driver.ConflictError{Found: *found}
		}
		version, err := b.NextSequence()
		return driver.Meta{Life: life, Version: driver.Version(version)}, value, err
	})
}

// Replace implements driver.Driver.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	value, err := encode(v)
	if err != nil {
		return 0, err
	}
	return d.change(ctx, key, now, func(b *bolt.Bucket, found *driver.Meta, _ []byte) (driver.Meta, []byte, error) {
		if err := match(found, was); err != nil {
			return driver.Meta{}, nil, err
		}
		version, err := b.NextSequence()
		return driver.Meta{Life: life, Version: driver.Version(version)}, value, err
	})
}

// Touch implements driver.Driver. It leaves the version as it is.
func (d *store) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.change(ctx, key, now, func(_ *bolt.Bucket, found *driver.Meta, value []byte) (driver.Meta, []byte, error) {
		return driver.Meta{Life: life, Version: was.Version}, value, match(found, was)
	})
}

// Delete implements driver.Driver.
func (d *store) Delete(ctx context.Context, key string) error {
	if err := driver.CheckKey(key, bolt.MaxKeySize); err != nil {
		return err
	}
	_, err := call(ctx, d, writing, func(b *bolt.Bucket) (struct{}, error) { return struct{}{}, b.Delete([]byte(key)) })
	return err
}

// change has next put another record in the place of the one under key. next is shown what
// alive returns.
func (d *store) change(ctx context.Context, key string, now driver.Instant, next func(b *bolt.Bucket, found *driver.Meta, value []byte) (driver.Meta, []byte, error)) (driver.Version, error) {
	if err := driver.CheckKey(key, bolt.MaxKeySize); err != nil {
		return 0, err
	}
	return call(ctx, d, writing, func(b *bolt.Bucket) (driver.Version, error) {
		// The record may have died while this write waited for its turn, or the clock was set.
		at := driver.Floor(d.now())
		found, value, err := alive(b, key, max(now, at))
		if err != nil {
			return 0, err
		}
		m, value, err := next(b, found, value)
		switch {
		case err != nil:
			return 0, err
		case found != nil && m.Alive(now) != m.Alive(at): // its caller plans it again
			return 0, &driver.ConflictError{Found: *found}
		}
		return m.Version, b.Put([]byte(key), join(m, value))
	})
}

// alive returns the record under key and its value; nil if there is none, or it is dead at now.
func alive(b *bolt.Bucket, key string, now driver.Instant) (found *driver.Meta, value []byte, err error) {
	m, value, err := split(b.Get([]byte(key)))
	switch {
	case err == driver.ErrNotFound || err == nil && !m.Alive(now):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	return &m, value, nil
}

// match says what keeps a write that was planned for was from the record found.
func match(found *driver.Meta, was driver.Meta) error {
	switch {
	case found == nil:
		return driver.ErrNotFound
	case *found != was:
		return &driver.ConflictError{Found: *found}
	}
	return nil
}
