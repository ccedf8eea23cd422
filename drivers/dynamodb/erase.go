package dynamodb

import (
	"context"
	"fmt"
)

// EraseEnded implements driver.Eraser. A DynamoDB table keeps no lives for an archive.
func (d *Driver[T]) EraseEnded(context.Context, func(string) bool, bool) (int64, error) {
	return 0, nil
}

// Scrub implements driver.Eraser. It names Options.LifeTable, whose items outlast their records: a
// touch under way needs to find there that the record was deleted.
func (d *Driver[T]) Scrub(context.Context, []string) []string {
	if d.opts.LifeTable == "" {
		return nil
	}
	return []string{fmt.Sprintf("the life table %q, which has keys and expiries until its ttl, %v days after the record's expiry or Options.Hold", d.opts.LifeTable, d.lifeLasts.Hours()/24)}
}
