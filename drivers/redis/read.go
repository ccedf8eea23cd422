package redis

import (
	"context"
	"errors"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one GET, and a second trip for another program's
// record.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	e, _, err := d.entry(ctx, d.send(ctx, get.With(k)))
	if err == errForeign {
		e, _, err = d.entry(ctx, d.eval(ctx, readScript, k))
	}
	return e, err
}

var get = wire.Command{Words: []string{"GET"}}

// errForeign means that a string without a header was read without its expiry.
var errForeign = errors.New("no header")

// entry returns the record in the answer of a GET or a reading script, and whether the script
// touched it.
func (d *Driver[T]) entry(ctx context.Context, a wire.Answer) (e driver.Entry[T], touched bool, err error) {
	b, expiry, err := reply(ctx, a)
	if err != nil {
		return e, false, err
	}
	var value []byte
	var own bool
	if e.Meta, value, own, err = split(b); err != nil {
		return e, false, err
	}
	switch {
	case own && expiry != nil && expiry.Kind != wire.Nil:
		err = want(*expiry, wire.String)
		n, _ := number(expiry.String, 10)
		e.ExpiresAt, touched = driver.Instant(n), true
	case !own && expiry != nil:
		err = want(*expiry, wire.Integer)
		e.ExpiresAt = driver.Instant(max(expiry.Integer, 0))
	case !own:
		err = errForeign
	}
	if err != nil {
		return e, false, err
	}
	return e, touched, d.decode(value, &e.Value)
}

// reply returns the string in an answer, and the expiry if the answer has one.
func reply(ctx context.Context, a wire.Answer) (b []byte, expiry *wire.Answer, err error) {
	switch {
	case a.Kind == wire.Nil:
		return nil, nil, driver.ErrNotFound
	case a.Kind == wire.String:
		return a.String, nil, nil
	case a.Kind == wire.Array && len(a.Array) == 2:
		b, _, err := reply(ctx, a.Array[0])
		return b, &a.Array[1], err
	}
	return nil, nil, failed(ctx, a)
}
