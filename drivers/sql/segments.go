package sql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const maxSegments = 1000

// Segments implements driver.Scanner, with up to 1,000 segments of equal size. For more than one it
// counts the rows and walks the key's index once.
func (t *table) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return t.segments(ctx, n, span{})
}

// segments splits r.
func (t *table) segments(ctx context.Context, n int, r span) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	n = min(n, maxSegments)
	var rows int
	if n > 1 {
		where, args, err := t.where(r)
		if err != nil {
			return nil, err
		}
		if _, err := t.first(ctx, t.pool, t.dialect.bind("SELECT COUNT(*) FROM "+t.quoted()+where), args, []any{&rows}); err != nil {
			return nil, t.failed(ctx, err)
		}
	}
	var cursors []driver.Cursor
	columns := strings.Join(t.keyColumns(), ", ")
	n = min(n, rows)
	for i := range n - 1 {
		where, args, err := t.where(r)
		if err != nil {
			return nil, err
		}
		query := fmt.Sprintf("SELECT %s FROM %s%s ORDER BY %[1]s LIMIT 1 OFFSET %[4]d", columns, t.quoted(), where, rows*(i+1)/n-rows*i/n-1)
		key := newScannedKey(len(t.key.Columns))
		found, err := t.first(ctx, t.pool, t.dialect.bind(query), args, key.dest())
		if err != nil {
			return nil, t.failed(ctx, err, rowKey{columns: args})
		}
		if !found {
			break // rows were deleted meanwhile
		}
		r.To = newBound(key.args)
		cursors = append(cursors, driver.EncodeCursor(r))
		r.After, r.To = r.To, nil
	}
	return append(cursors, driver.EncodeCursor(r)), ctx.Err()
}

// bound is a key's columns: each a letter for the type, then the text.
type bound [][]byte

func newBound(columns []any) bound {
	b := make(bound, len(columns))
	for i, c := range columns {
		switch c := c.(type) {
		case int64:
			b[i] = strconv.AppendInt([]byte{'i'}, c, 10)
		case []byte:
			b[i] = append([]byte{'b'}, c...)
		case time.Time:
			b[i] = c.AppendFormat([]byte{'t'}, time.RFC3339Nano)
		default:
			b[i] = fmt.Append([]byte{'s'}, c)
		}
	}
	return b
}

// columns is the reverse of newBound.
func (b bound) columns(n int) (columns []any, ok bool) {
	for _, c := range b {
		if len(c) == 0 {
			return nil, false
		}
		var column any
		var err error
		switch text := c[1:]; c[0] {
		case 'i':
			column, err = strconv.ParseInt(string(text), 10, 64)
		case 'b':
			column = text
		case 't':
			column, err = time.Parse(time.RFC3339Nano, string(text))
		case 's':
			column = string(text)
		default:
			return nil, false
		}
		if err != nil {
			return nil, false
		}
		columns = append(columns, column)
	}
	return columns, len(columns) == n
}

// span is a cursor's range of keys, which excludes After and includes To.
type span struct {
	After bound `json:"after,omitempty"` // nil: from the start
	To    bound `json:"to,omitempty"`    // nil: to the end

	Prefix string `json:"prefix,omitempty"` // of all its keys
}

// where leaves out keys that are NULL, which have no place in an order.
func (t *table) where(r span) (where string, args []any, err error) {
	where = " WHERE " + strings.Join(t.keyColumns(), " IS NOT NULL AND ") + " IS NOT NULL"
	if r.Prefix != "" {
		text, arg := t.beginsWith(r.Prefix)
		where, args = where+" AND "+text, []any{arg}
	}
	for _, end := range []struct {
		key  bound
		sign string
		last string
	}{{r.After, ">", ">"}, {r.To, "<", "<="}} {
		if end.key == nil {
			continue
		}
		columns, ok := end.key.columns(len(t.key.Columns))
		if !ok {
			return "", nil, driver.BadCursor(driver.EncodeCursor(r))
		}
		text, more := t.beyond(t.keyArgs(columns), end.sign, end.last)
		where, args = where+" AND "+text, append(args, more...)
	}
	return where, args, nil
}

// beyond returns the condition for keys on one side of key; last is the comparison of the last
// column. MySQL would read the whole index to compare two tuples.
func (t *table) beyond(key []any, sign, last string) (where string, args []any) {
	names := t.keyColumns()
	end := len(names) - 1
	where, args = names[end]+" "+last+" ?", []any{key[end]}
	for i := end - 1; i >= 0; i-- {
		where = fmt.Sprintf("%s %s= ? AND (%s %s ? OR %s)", names[i], sign, names[i], sign, where)
		args = append([]any{key[i], key[i]}, args...)
	}
	return where, args
}
