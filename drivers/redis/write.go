package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Insert implements driver.Driver: one trip.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.put(ctx, key, v, "", life, now)
}

// Replace implements driver.Driver: one trip.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	return d.put(ctx, key, v, metaText(was), life, now)
}

// put replaces the record whose meta is over; if over is empty, it inserts.
func (d *Driver[T]) put(ctx context.Context, key string, v T, over string, life driver.Life, now driver.Instant) (driver.Version, error) {
	version := driver.NewVersion(math.MaxUint64)
	record, err := d.record(v, driver.Meta{Life: life, Version: version})
	if err != nil {
		return 0, err
	}
	found, err := d.write(ctx, key, driver.Meta{Version: version}, putScript, decimal(now), over, record, decimal(d.opts.gone(life.ExpiresAt)))
	if over == "" && errors.Is(err, driver.ErrAmbiguous) && found.CreatedAt != 0 && found.CreatedAt < life.CreatedAt-longBefore {
		return 0, &driver.ConflictError{Found: found} // no attempt can have landed
	}
	if err != nil {
		return 0, err
	}
	return version, nil
}

// longBefore is the age difference in milliseconds that proves that a found record is not this
// insert's own, however far the clocks differ.
const longBefore = 10_000

// Overwrite implements driver.Overwriter: one trip. A client with ConnLifetime may send it again;
// it then overwrites what was written meanwhile, as a later Overwrite would.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	version := driver.NewVersion(math.MaxUint64)
	record, err := d.record(v, driver.Meta{Life: newLife, Version: version})
	if err != nil {
		return driver.Meta{}, err
	}
	keep, to := until(a)
	return d.write(ctx, key, driver.Meta{Version: version}, overwriteScript, decimal(now), keep, to, decimal(a.Most), record, d.opts.retain())
}

// Touch implements driver.Driver: one trip. It keeps the version, and gives one to a record that it
// adopts. A touch that undoes an adoption removes the header.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if err := life.Check(lastInstant); err != nil {
		return 0, err
	}
	touched := driver.Meta{Life: life, Version: was.Version}
	if was.CreatedAt == 0 {
		touched.Version = driver.NewVersion(math.MaxUint64)
	}
	header, gone := metaText(touched), d.opts.gone(life.ExpiresAt)
	if life.CreatedAt == 0 { // back to another program's record: no header, no retention
		touched.Version, header, gone = 0, "", life.ExpiresAt
	}
	if _, err := d.write(ctx, key, touched, touchScript, decimal(now), metaText(was), header, decimal(gone)); err != nil {
		return 0, err
	}
	return touched.Version, nil
}

// Remove implements driver.Remover: one trip.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	past := ""
	if !was.Alive(now) {
		return driver.ErrNotFound
	} else if driver.Floor(d.Now())-now > longPast {
		past = "1"
	}
	_, err := d.write(ctx, key, driver.Meta{}, removeScript, decimal(now), metaText(was), past)
	return err
}

// longPast is how far behind the server's time, in milliseconds, a caller's time must be to mean a
// past moment at which the record was alive. Callers that remove dead records pass such a time.
const longPast = 500

// Delete implements driver.Driver: one trip. Its only condition is that the key holds a string.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	_, err := d.write(ctx, key, driver.Meta{}, removeScript, "0", "", "")
	return err
}

// write runs a script that writes mine: a new version, or the whole meta of a touch. It returns the
// meta that is then stored. If an attempt without an answer is found to have landed, the write
// succeeded; if one may have landed and the record does not show it, the error is ambiguous.
func (d *Driver[T]) write(ctx context.Context, key string, mine driver.Meta, s *script, args ...string) (driver.Meta, error) {
	k, err := d.key(key)
	if err != nil {
		return driver.Meta{}, err
	}
	if err := ctx.Err(); err != nil {
		return driver.Meta{}, err // never sent
	}
	a := &attempts{Context: ctx}
	res := d.eval(a, s, k, args...)
	resent := a.sent.Load() > 1
	found, err := outcome(ctx, res, resent)
	var conflict *driver.ConflictError
	switch {
	case errors.As(err, &conflict) && found.Version == mine.Version && mine.Version != 0 && (mine.CreatedAt == 0 || resent && found == mine):
		return found, nil
	case resent && (conflict != nil || err == driver.ErrNotFound):
		return found, fmt.Errorf("%w: the command was sent again, and the second answer was: %v", driver.ErrAmbiguous, err)
	}
	return found, err
}

func decimal(i driver.Instant) string { return strconv.FormatInt(int64(i), 10) }
