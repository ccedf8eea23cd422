package couchbase

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Upsert implements driver.Upserter. Over a known record it is one round trip. Otherwise it sends
// an insert and a lookup together: a new document costs one wait, a live one two, and each upsert a
// small lookup. In sequence, a live one would cost three waits.
func (d *Driver[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	doc, err := d.prepare(key, v)
	if err != nil {
		return driver.Meta{}, err
	}
	over := known // the record to replace, as far as known; nil: none
	if over != nil && over.Version == 0 {
		over = nil // a write without a CAS would land on any record
	}
	var found driver.Meta
	for range attempts {
		shown := over
		if over != nil && !over.Alive(now) {
			shown = nil
		}
		life, err := plan(shown)
		if err != nil {
			return driver.Meta{}, err
		}
		p, err := d.begin(ctx, key, doc, over, life, now)
		if err != nil {
			return driver.Meta{}, err
		}
		var merr error
		if over == nil {
			found, merr = d.metaBeside(ctx, key, p)
		}
		left, err := d.finish(ctx, key, p, doc, over, life)
		if err == nil {
			if over != nil && shown == nil {
				driver.Replaced(ctx, *over)
			}
			return driver.Meta{Life: life, Version: left}, nil
		}
		vanished := over != nil && errors.Is(err, driver.ErrNotFound)
		if !moved(err) && !vanished {
			return driver.Meta{}, err
		}
		if over != nil && !vanished {
			found, merr = d.meta(ctx, key)
		}
		switch {
		case vanished || errors.Is(merr, driver.ErrNotFound):
			over = nil
		case merr != nil:
			return driver.Meta{}, merr
		default:
			over = &found
		}
	}
	return driver.Meta{}, &driver.ConflictError{Found: found}
}
