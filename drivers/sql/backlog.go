package sql

import (
	"context"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Backlog counts the rows that are still there longer than Options.Retain after their expiry. It goes
// by the database's time, and returns when the first of them expired; zero: there is none. It reads
// all of them, and the rows that no sweeper has taken yet, and those whose retention ends within a day.
func (t *table) Backlog(ctx context.Context) (dead int64, oldest driver.Instant, err error) {
	expires := t.expiresMillis()
	query := fmt.Sprintf("SELECT COUNT(*), COALESCE(MIN(%s), 0) FROM %s WHERE (%s <= %s OR %[3]s %[6]s) AND %[1]s <> 0 AND %[1]s <= %[5]s",
		expires, t.quoted(), t.dialect.quote(t.sweep), t.before(0), t.before(t.retain), parkedBy(t.before(t.retain-skipFor)))
	var first number // of SQLite's rows one may have another
	_, err = t.first(ctx, t.pool, query, nil, []any{&dead, &first})
	return dead, driver.Instant(first.n), err
}
