package sql

import (
	"context"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const maxPage = 10000

// Scan implements driver.Scanner, with one SELECT for a page in the order of the key. A cursor
// holds keys. A row whose key the driver would reject has a Problem; one
// whose key is NULL is passed over, and counted with the first page once Check has found that there may be such. Sizes are those of the value's
// columns.
func (t *table) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	limit = min(limit, maxPage)
	var r span
	if err := driver.DecodeCursor(from, &r); err != nil {
		return driver.Page{}, err
	}
	where, args, err := t.where(r)
	if err != nil {
		return driver.Page{}, err
	}
	records, last, err := t.scan(ctx, where, args, strings.Join(t.keyColumns(), ", "), limit)
	if err != nil {
		return driver.Page{}, err
	}
	page := driver.Page{Records: records}
	if unkeyed := t.unkeyed.Load(); unkeyed != nil && *unkeyed != "" && r.After == nil && r.Prefix == "" {
		if _, err := t.first(ctx, t.pool, "SELECT COUNT(*) FROM "+t.quoted()+" WHERE "+*unkeyed, nil, []any{&page.Passed}); err != nil {
			return driver.Page{}, t.failed(ctx, err)
		}
	}
	if len(records) == limit {
		r.After = newBound(last.args)
		page.Next = driver.EncodeCursor(r)
	}
	return page, nil
}

// Dying implements driver.Dying. It reads by the index on sweep_at, which is never later than the expiry
// of a live row. Of the dead that Options.Retain keeps it reads those that no Sweeper has seen yet.
func (t *table) Dying(ctx context.Context, now, until driver.Instant, limit int) ([]driver.Scanned, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return nil, err
	}
	where, args := t.dying(now, until)
	records, _, err := t.scan(ctx, where, args, t.expiresMillis(), limit)
	return records, err
}

// dying returns the condition for rows that expire after now and no later than until.
func (t *table) dying(now, until driver.Instant) (where string, args []any) {
	return fmt.Sprintf(" WHERE %s <= %s AND %s > %[2]s AND %[3]s <= %[2]s", t.dialect.quote(t.sweep), t.dialect.integer(), t.expiresMillis()),
		[]any{int64(until), int64(now), int64(until)}
}

// scan returns the first limit rows in an order, and the key of the last.
func (t *table) scan(ctx context.Context, where string, args []any, order string, limit int) (records []driver.Scanned, last scannedKey, err error) {
	for range attempts {
		if records, last, err = t.scanOnce(ctx, where, args, order, limit); !t.readLost(ctx, err) {
			break
		}
	}
	return records, last, err
}

func (t *table) scanOnce(ctx context.Context, where string, args []any, order string, limit int) (records []driver.Scanned, last scannedKey, err error) {
	size := "0"
	for _, v := range t.values {
		size += " + COALESCE(" + t.dialect.size(t.dialect.quote(v)) + ", 0)"
	}
	columns := append(t.keyColumns(), t.createdMillis(), t.expiresMillis(), t.dialect.quote(t.version), size)
	query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d", // inlined, so that the planner knows it
		strings.Join(columns, ", "), t.quoted(), where, order, limit)
	rows, err := t.pool.Query(ctx, t.dialect.bind(query), args...)
	if err != nil {
		return nil, last, t.failed(ctx, err, rowKey{columns: args})
	}
	defer func() { _ = rows.Close() }()
	records = make([]driver.Scanned, 0, min(limit, maxPage))
	for rows.Next() {
		key := newScannedKey(len(t.key.Columns))
		var l life
		var s driver.Scanned
		if err := rows.Scan(append(append(key.dest(), l.dest()...), &s.Size)...); err != nil {
			return nil, last, misshapen(err)
		}
		last = key
		s.Key, s.Meta, s.Problem = t.key.Join(key.texts), l.meta(), t.odd(&l)
		if _, err := t.rowOf(s.Key, t.maxKey); err != nil {
			s.Problem = err
		}
		if t.retain > 0 && s.ExpiresAt != 0 {
			s.HeldUntil = s.ExpiresAt.Add(t.retain)
		}
		records = append(records, s)
	}
	if err := rows.Err(); err != nil {
		return nil, last, t.failed(ctx, err, rowKey{columns: args})
	}
	return records, last, nil
}
