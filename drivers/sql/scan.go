package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const maxPage = 10000

// Scan implements driver.Scanner, with one SELECT for a page in the order of the key. A
// cursor holds keys. What the driver has no key for has a Problem. Sizes are those of the value's columns.
func (t *table) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	limit = min(limit, maxPage)
	var r span
	if err := json.Unmarshal([]byte(from), &r); err != nil {
		return driver.Page{}, driver.BadCursor(from)
	}
	where, args, err := t.where(r)
	if err != nil {
		return driver.Page{}, err
	}
	names := t.keyColumns()
	sizes := make([]string, len(t.values))
	for i, v := range t.values {
		sizes[i] = "COALESCE(" + t.dialect.size(t.dialect.quote(v)) + ", 0)"
	}
	size := "0"
	if len(sizes) > 0 {
		size = strings.Join(sizes, " + ")
	}
	columns := append(t.keyColumns(), t.createdMillis(), t.expiresMillis(), t.dialect.quote(t.version), size)
	query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %s LIMIT %d", // a limit that the planner knows
		strings.Join(columns, ", "), t.quoted(), where, strings.Join(names, ", "), limit)
	rows, err := t.db.QueryContext(ctx, t.dialect.bind(query), args...)
	if err != nil {
		return driver.Page{}, t.failed(ctx, err, rowKey{columns: args})
	}
	defer func() { _ = rows.Close() }()
	var last scannedKey
	page := driver.Page{Records: make([]driver.Scanned, 0, limit)}
	for rows.Next() {
		key := newScannedKey(len(names))
		var l life
		var s driver.Scanned
		if err := rows.Scan(append(append(key.dest(), l.dest()...), &s.Size)...); err != nil {
			return driver.Page{}, misshapen[driver.Scanned](err)
		}
		last = key
		s.Key, s.Meta, s.Problem = t.key.Join(key.texts), l.meta(), t.odd(&l)
		if _, err := t.key.row(s.Key, 0); err != nil {
			s.Problem = err
		}
		if t.retain > 0 && s.ExpiresAt != 0 {
			s.HeldUntil = s.ExpiresAt.Add(t.retain)
		}
		page.Records = append(page.Records, s)
	}
	if err := rows.Err(); err != nil {
		return driver.Page{}, t.failed(ctx, err, rowKey{columns: args})
	}
	if n := len(page.Records); n == limit {
		r.After = newBound(last.args)
		page.Next = r.cursor()
	}
	return page, nil
}
