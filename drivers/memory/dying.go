package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Dying implements driver.Dying, by the wheel. With Options.Retain it passes the retained dead by, one by
// one.
func (d *Driver[T]) Dying(_ context.Context, now, until driver.Instant, limit int) ([]driver.Scanned, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return nil, err
	}
	if d.closed.Load() {
		return nil, ErrClosed
	}
	var found []driver.Scanned
	d.wheel.upTo(until, func(r *record[T]) {
		if s := d.scanned(r); s.ExpiresAt > now && s.ExpiresAt <= until {
			found = append(found, s)
		}
	})
	slices.SortFunc(found, func(a, b driver.Scanned) int { return cmp.Compare(a.ExpiresAt, b.ExpiresAt) })
	return slices.Clip(found[:min(limit, len(found))]), nil
}
