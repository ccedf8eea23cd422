package sql

import (
	"context"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Backlog is the work left for a table's sweepers.
type Backlog struct {
	Dead   int64          // rows that expired longer than Options.Retain ago and are still there
	Oldest driver.Instant // when the first of them expired; zero: there is none
}

// Backlog counts the dead rows that are not retained, by the database's time, and finds
// the oldest. It reads all of them, and the rows that no sweeper has taken yet.
func (t *table) Backlog(ctx context.Context) (Backlog, error) {
	expires := t.expiresMillis()
	query := fmt.Sprintf("SELECT COUNT(*), COALESCE(MIN(%s), 0) FROM %s WHERE (%s <= %s OR %[3]s %[6]s) AND %[1]s <> 0 AND %[1]s <= %[5]s",
		expires, t.quoted(), t.dialect.quote(t.sweep), t.before(0), t.before(t.retain), parkedBy(t.before(t.retain)))
	var b Backlog
	_, err := firstRow(ctx, t.pool, query, nil, []any{&b.Dead, &b.Oldest})
	return b, err
}
