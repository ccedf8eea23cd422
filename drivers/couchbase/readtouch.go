package couchbase

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// patience is how long ReadTouch waits for its touch once it has read the record: as
// long as a store by default lets a read wait for its touch.
const patience = 100 * time.Millisecond

// ReadTouch implements driver.ReadToucher. The touch that known calls for is sent, and
// the lookup behind it without waiting: one wait for both. The touch carries the CAS of
// known, so that it lands on that record alone; that it landed proves known right, and
// the lookup's CAS tells on which side of it the lookup came. A touch that the server
// refuses for now is not tried again here, and one that is slow, as with
// Options.Durability, is given up soon after the lookup is there.
//
// gocb has a get-and-touch, in one operation. It takes no CAS and returns no old expiry:
// planned from what is out of date, it would move the expiry of another generation.
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
	e.Meta, touched = settle(e.Meta, known.Version, driver.Meta{Life: life, Version: driver.Version(left)})
	return e, touched, nil
}

// settle returns what is stored of a record that was read as read while a touch made
// touched of its version was, and whether that is the touch's work. gocb asks the
// server to answer in any order, so that the lookup may be carried out first.
func settle(read driver.Meta, was driver.Version, touched driver.Meta) (driver.Meta, bool) {
	switch read.Version {
	case touched.Version:
		return read, true
	case was:
		return touched, true
	}
	return read, false // changed again by another writer since
}
