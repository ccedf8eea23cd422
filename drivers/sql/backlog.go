package sql

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Backlog is what a table's sweepers have before them.
type Backlog struct {
	Dead   int64          // rows that expired longer than Options.Retain ago and are still there
	Oldest driver.Instant // when the first of them expired; zero: there is none
}

// Backlog counts the dead rows that are not retained, by the database's time, and finds
// the oldest. It reads all of them.
func (t *table) Backlog(ctx context.Context) (Backlog, error) {
	if err := t.ask(ctx); err != nil {
		return Backlog{}, err
	}
	expires := t.expiresMillis()
	query := "SELECT COUNT(*), COALESCE(MIN(" + expires + "), 0) FROM " + t.quoted() +
		" WHERE " + t.dialect.quote(t.sweep) + " <= ? AND " + expires + " <> 0 AND " + expires + " <= ?"
	now := int64(driver.Floor(t.Now()).Add(-t.retain))
	var b Backlog
	_, shape, err := firstRow(ctx, t.db, t.dialect.bind(query), []any{now, now}, []any{&b.Dead, &b.Oldest})
	if err == nil && shape != nil {
		err = misshapen[Backlog](shape)
	}
	return b, err
}
