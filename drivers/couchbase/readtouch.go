package couchbase

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// patience is how long ReadTouch waits for its touch after the lookup, and a write that has landed for
// its lookup: a store's default TouchWait.
const patience = 100 * time.Millisecond

// ReadTouch implements driver.ReadToucher. It sends the touch planned from known and the lookup
// together: one wait for both. The touch carries the CAS of known, so it lands only on that record;
// if it lands, known was right, and the lookup's CAS shows which of the two ran first. A touch that
// the server refuses temporarily is not retried here. A slow touch, as with Options.Durability, is
// given up soon after the lookup has returned.
//
// gocb's get-and-touch takes no CAS and returns no old expiry: with a stale known it would move the
// expiry of another generation.
func (d *Driver[T]) ReadTouch(ctx context.Context, key string, known *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	if known == nil || known.Version == 0 || !known.Alive(now) {
		e, err := d.Get(ctx, key)
		return e, false, err
	}
	life, due := a.Touch(known.Life)
	if !due {
		e, err := d.Get(ctx, key)
		return e, false, err
	}
	p, terr := d.beginTouch(ctx, key, *known, life, now, never{})
	e, err := d.Get(ctx, key)
	if terr != nil {
		return e, false, err
	}
	wait, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left, terr := p.wait(wait)
	if err != nil || terr != nil {
		return e, false, err
	}
	var touched bool
	e.Meta, touched = combine(e.Meta, known.Version, driver.Meta{Life: life, Version: driver.Version(left)})
	return e, touched, nil
}

// combine combines the lookup's read with the touch, which turned version was into touched. It
// returns the stored Meta, and whether it is the touch's. gocb lets the server answer in any order,
// so the lookup may run first.
func combine(read driver.Meta, was driver.Version, touched driver.Meta) (driver.Meta, bool) {
	switch read.Version {
	case touched.Version:
		return read, true
	case was:
		return touched, true
	}
	return read, false // another writer changed it after the touch
}
