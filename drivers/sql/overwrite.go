package sql

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/internal/client"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Overwrite implements driver.Overwriter, with one INSERT that updates an existing row and
// returns it. MySQL has no such statement: there Overwrite makes an Insert and, if a record
// exists, a Replace.
func (d *Driver[T]) Overwrite(ctx context.Context, key string, v T, newLife driver.Life, a driver.Access, now driver.Instant) (driver.Meta, error) {
	if d.sql.overwrite == "" {
		simple := struct{ driver.Driver[T] }{d}
		plan := a.Overwrite(newLife, now)
		return driver.Upsert(ctx, driver.Driver[T](simple), key, v, nil, func(found *driver.Meta) (driver.Life, error) {
			if found == nil && d.judge(ctx, now).late(ctx, newLife.ExpiresAt, nil) {
				return driver.Life{}, driver.ErrLate // it is the caller who plans newLife
			}
			return plan(found)
		}, now)
	}
	k, values, err := d.record(key, v)
	if err != nil {
		return driver.Meta{}, err
	}
	keep, to, room, most := until(a)
	inserted := append(k.with(instant(newLife.CreatedAt), instant(newLife.ExpiresAt), sweepAt(newLife.ExpiresAt), int64(kit.NewVersion(math.MaxInt64))), values...)
	j := d.judge(ctx, now)
	inserted = append(inserted, j.born(newLife.ExpiresAt)...)
	for range tries(ctx) {
		now = max(now, j.now())
		dead := []any{int64(now), int64(now - a.Most)} // bounds for death by idleness, by age
		args := append(slices.Concat(inserted, dead, dead), keep, room, most, to, room, most)
		args = append(append(args, dead...), int64(now), j.by, int64(now))
		var l life
		var found bool
		err := d.send(ctx, k, func(on client.Runner) (err error) {
			var millis int64
			sent := time.Now()
			if found, err = firstRow(ctx, on, d.sql.overwrite, args, append([]any{&millis}, l.dest()...)); found && err == nil {
				d.observe(sent, millis)
			}
			return err
		})
		switch {
		case err != nil:
			return driver.Meta{}, err
		case found:
			return l.meta(), nil
		}
		m, err := d.meta(ctx, k)
		switch {
		case (err == nil || errors.Is(err, driver.ErrNotFound)) && j.late(ctx, newLife.ExpiresAt, err):
			return driver.Meta{}, driver.ErrLate
		case err == nil && m.Alive(now) && (m.CreatedAt == 0 || m.ExpiresAt == 0):
			return driver.Meta{}, &driver.ConflictError{Found: m}
		case err != nil && !errors.Is(err, driver.ErrNotFound):
			return driver.Meta{}, err
		} // else it changed or died meanwhile
	}
	return driver.Meta{}, driver.ErrConflict
}
