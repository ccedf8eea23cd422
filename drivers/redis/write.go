package redis

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Insert implements driver.Driver: one trip.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.put(ctx, key, v, "", life, now)
}

// Replace implements driver.Driver: one trip.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	version, err := d.put(ctx, key, v, metaText(was), life, now, judged(ctx, was.Life, life)...)
	return version, replanned(err, was)
}

// judged returns the argument by which a script judges a life that does not only move the expiry
// forward: the server's clock may have been set since the life was planned.
func judged(ctx context.Context, was, life driver.Life) []string {
	if forward := was.ExpiresAt != 0 && was.ExpiresAt <= life.ExpiresAt; forward || life.ExpiresAt == 0 || driver.OtherClock(ctx) {
		return nil
	}
	return []string{decimal(life.ExpiresAt)}
}

// replanned returns a conflict with the unchanged record was if err says that the life to write over
// it is to be planned again.
func replanned(err error, was driver.Meta) error {
	if err == driver.ErrLate {
		return &driver.ConflictError{Found: was}
	}
	return err
}

// put replaces the record whose meta is over; if over is empty, it inserts.
func (d *Driver[T]) put(ctx context.Context, key string, v T, over string, life driver.Life, now driver.Instant, more ...string) (driver.Version, error) {
	version := kit.NewVersion(math.MaxUint64)
	record, err := d.record(v, driver.Meta{Life: life, Version: version})
	if err != nil {
		return 0, err
	}
	by := decimal(now)
	if over == "" {
		by = newLifeBy(ctx, now)
	}
	args := append([]string{by, over, record, decimal(d.opts.gone(life.ExpiresAt))}, more...)
	if _, err := d.write(ctx, key, putScript, args...); err != nil {
		return 0, err
	}
	return version, nil
}

// newLifeBy returns the caller's time for a write that may begin a life. It does not count unless
// it is by another clock: the record that it would end must be dead by the server's.
func newLifeBy(ctx context.Context, now driver.Instant) string {
	if driver.OtherClock(ctx) {
		return decimal(now)
	}
	return "0"
}

// Overwrite implements driver.Overwriter: one trip.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	version := kit.NewVersion(math.MaxUint64)
	record, err := d.record(v, driver.Meta{Life: newLife, Version: version})
	if err != nil {
		return driver.Meta{}, err
	}
	keep, to := until(a)
	return d.write(ctx, key, overwriteScript, newLifeBy(ctx, now), keep, to, decimal(a.Most), record, d.opts.retain())
}

// Touch implements driver.Driver: one trip. It keeps the version, and gives one to a record that it
// adopts. A touch that undoes an adoption removes the header. One that ends another program's record
// gives it a header if dead records are retained.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := life.Check(lastInstant); err != nil {
		return 0, err
	}
	touched := driver.Meta{Life: life, Version: was.Version}
	if was.CreatedAt == 0 {
		touched.Version = kit.NewVersion(math.MaxUint64)
	}
	header, gone := metaText(touched), d.opts.gone(life.ExpiresAt)
	ended := was.CreatedAt == 0 && d.opts.Retain > 0 && !life.Alive(now)
	if life.CreatedAt == 0 && !ended { // back to another program's record: no header, no retention
		touched.Version, header, gone = 0, "", life.ExpiresAt
	}
	args := append([]string{decimal(now), metaText(was), header, decimal(gone)}, judged(ctx, was.Life, life)...)
	if _, err := d.write(ctx, key, touchScript, args...); err != nil {
		return 0, replanned(err, was)
	}
	return touched.Version, nil
}

// Remove implements driver.Remover: one trip.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	past := ""
	if was.Alive(now) && driver.Floor(d.Now())-now > longPast {
		past = "1"
	}
	_, err := d.write(ctx, key, removeScript, decimal(now), metaText(was), past)
	return err
}

// longPast is how far behind the server's time, in milliseconds, a caller's time must be to mean a
// past moment at which the record was alive. Callers that remove dead records pass such a time.
const longPast = 500

// Delete implements driver.Driver: one trip. Its only condition is that the key holds a string.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	_, err := d.write(ctx, key, removeScript, "0", "", "")
	return err
}

// write runs a script that writes. It returns the meta that is then stored.
func (d *Driver[T]) write(ctx context.Context, key string, s *script, args ...string) (driver.Meta, error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Meta{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Meta{}, err // never sent
	}
	sent := time.Now()
	return d.outcome(ctx, sent, d.eval(ctx, s, k, args...))
}

func decimal(i driver.Instant) string { return strconv.FormatInt(int64(i), 10) }
