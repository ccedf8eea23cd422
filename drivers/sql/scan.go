package sql

import (
	"context"
	"fmt"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A cursor is the key after which a page begins, behind a sign that makes none empty.
const (
	fromStart = "^"
	fromAfter = ">"
)

// Segments implements driver.Scanner. It returns one: pages in the order of the key
// come as fast as the database reads its table, and to split it evenly it would have to
// be read first.
func (t *table) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	return []driver.Cursor{fromStart}, ctx.Err()
}

const maxPage = 10000

// Scan implements driver.Scanner, with one SELECT for a page in the order of the key. A
// cursor holds a key. Sizes are those of the value's columns.
func (t *table) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	if err := driver.CheckScan("limit", limit); err != nil {
		return driver.Page{}, err
	}
	limit = min(limit, maxPage)
	where, args, err := t.after(from)
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
	page := driver.Page{Records: make([]driver.Scanned, 0, limit)}
	for rows.Next() {
		key := newJoined(len(names))
		var l life
		var r driver.Scanned
		if err := rows.Scan(append(append(key.dest(), l.dest()...), &r.Size)...); err != nil {
			return driver.Page{}, misshapen[driver.Scanned](err)
		}
		r.Key, r.Meta, r.Problem = t.key.Join(key), l.meta(), t.odd(&l)
		if t.retain > 0 && r.ExpiresAt != 0 {
			r.HeldUntil = r.ExpiresAt.Add(t.retain)
		}
		page.Records = append(page.Records, r)
	}
	if err := rows.Err(); err != nil {
		return driver.Page{}, t.failed(ctx, err, rowKey{columns: args})
	}
	if n := len(page.Records); n == limit {
		page.Next = fromAfter + driver.Cursor(page.Records[n-1].Key)
	}
	return page, nil
}

// after is the condition for keys behind a cursor. Two tuples compared would say the
// same, and MySQL would read the whole index for it.
func (t *table) after(from driver.Cursor) (where string, args []any, err error) {
	if from == fromStart {
		return "", nil, nil
	}
	key, ok := strings.CutPrefix(string(from), fromAfter)
	if !ok {
		return "", nil, &driver.InvalidError{Field: "cursor", Value: "of another driver", Rule: "must be one that Segments or Scan of this driver returned"}
	}
	k, err := t.key.row(key, 0)
	if err != nil {
		return "", nil, &driver.InvalidError{Field: "cursor", Value: "of another driver", Rule: "must hold a key of this driver", Err: err}
	}
	names := t.keyColumns()
	last := len(names) - 1
	where, args = names[last]+" > ?", []any{k.columns[last]}
	for i := last - 1; i >= 0; i-- {
		where = names[i] + " >= ? AND (" + names[i] + " > ? OR " + where + ")"
		args = append([]any{k.columns[i], k.columns[i]}, args...)
	}
	return " WHERE " + where, args, nil
}
