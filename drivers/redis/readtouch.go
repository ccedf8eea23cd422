package redis

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ReadTouch implements driver.ReadToucher, with one trip. The server reads the record and
// decides whether a touch is due. ReadTouch does not use what the caller remembers. A
// script costs the server several times as much as a GET, so it is for reads that are
// likely to be due. If the script fails, the record is read without a touch.
func (d *Driver[T]) ReadTouch(ctx context.Context, key string, _ *driver.Meta, a driver.Access, now driver.Instant) (driver.Entry[T], bool, error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Entry[T]{}, false, err
	}
	if !d.clock.Known() { // the touch may have been planned by another clock
		e, err := d.Get(ctx, key)
		return e, false, err
	}
	keep, to := until(a)
	tell := ""
	if d.clock.Due() {
		tell = "1"
	}
	sent := time.Now()
	answer := d.eval(ctx, readTouchScript, k, decimal(now), keep, to, decimal(a.Most), d.opts.retain(), tell)
	if n := len(answer.Array); n == 4 {
		_, _ = d.observe(sent, wire.Answer{Kind: wire.Array, Array: answer.Array[2:]})
		answer.Array = answer.Array[:2]
	}
	if answer.Err != nil && answer.Kind != wire.Refused && ctx.Err() != nil {
		return driver.Entry[T]{}, false, failed(ctx, answer)
	}
	e, touched, err := d.entry(ctx, answer)
	if answer.Err != nil {
		e, err = d.Get(ctx, key)
	}
	return e, touched, err
}

// until returns how far an access keeps a record, and the expiry it writes before the cap applies,
// both in the header's form.
func until(a driver.Access) (keep, to string) {
	k, stored := a.Until()
	return padded(k), padded(stored)
}

func padded(i driver.Instant) string {
	return string(appendInstant(make([]byte, 0, instantLen), min(max(i, 0), lastInstant)))
}
