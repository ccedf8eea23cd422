package hot

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver: no trip if the record is held, else one. See the package's
// comment for how old the answer may be.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	if err := ctx.Err(); err != nil {
		return driver.Entry[T]{}, err
	}
	if driver.MayUndo(ctx) { // a transaction sees what others must not
		return d.inner.Get(ctx, key)
	}
	r := d.hit(key)
	switch {
	case r == nil:
		return d.load(ctx, key)
	case r.absent:
		return driver.Entry[T]{}, driver.ErrNotFound
	}
	return r.Entry, nil
}

// hit returns the held live record or absence of key; nil if neither is held. It counts.
func (d *Driver[T]) hit(key string) *record[T] {
	r := d.tier.get(key)
	if r != nil && r.Alive(driver.Floor(d.now())) {
		d.reads.RecordHits(1)
		return r
	}
	d.reads.RecordMisses(1)
	return nil
}

// Latest implements driver.Latest: it always reads the store.
func (d *Driver[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	if driver.MayUndo(ctx) {
		return driver.GetLatest(ctx, d.inner, key)
	}
	return d.latest(ctx, key, d.tier.mark())
}

// GetMulti implements driver.BatchGetter: one call of the wrapped driver for the keys not
// held.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if driver.MayUndo(ctx) {
		return driver.GetMulti(ctx, d.inner, keys)
	}
	found := make(map[string]driver.Entry[T], len(keys))
	var missing []string
	var places []int // indexes of missing within keys
	for i, key := range driver.Distinct(keys) {
		if r := d.hit(key); r != nil {
			if !r.absent {
				found[key] = r.Entry
			}
			continue
		}
		missing, places = append(missing, key), append(places, i)
	}
	if len(missing) == 0 {
		return found, nil
	}
	since := d.tier.mark()
	read, err := driver.GetMulti(ctx, d.inner, missing)
	for _, key := range missing {
		e, ok := read[key]
		if ok {
			found[key] = e
		}
		switch {
		case d.stale:
		case ok:
			d.tier.read(key, e, since)
		case err == nil && ctx.Err() == nil: // what a driver leaves out after that need not be absent
			d.tier.absent(key, since)
		}
	}
	return found, placed(err, places)
}

// placed translates the indexes in err to those of the caller's keys.
func placed(err error, places []int) error {
	var failed driver.KeyErrors
	if !errors.As(err, &failed) {
		return err
	}
	moved := make(driver.KeyErrors, len(failed))
	for i, one := range failed {
		moved[i] = &driver.KeyError{Index: places[one.Index], Err: one.Err}
	}
	return moved.Err()
}

// ReadTouch implements driver.ReadToucher. It always makes a trip, because a due touch needs one.
func (d *Driver[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	since := d.tier.mark()
	e, touched, err := below[driver.ReadToucher[T]](d).ReadTouch(ctx, key, known, a, now)
	switch {
	case driver.MayUndo(ctx):
		d.tier.forget(key)
	case err == nil && touched:
		d.tier.wrote(key, e, since)
	case err == nil && !d.stale:
		d.tier.read(key, e, since)
	case errors.Is(err, driver.ErrNotFound):
		d.tier.absent(key, since)
	}
	return e, touched, err
}
