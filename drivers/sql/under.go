package sql

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Under returns a Scanner of the rows whose keys begin with prefix. It may return others too: package
// upkeep leaves them out. A key of several columns, or with a Split, is not searched by its beginning.
func (t *table) Under(prefix string) driver.Scanner {
	for i, r := range prefix {
		if r == 0 || r == utf8.RuneError { // PostgreSQL has no such text, and SQLite's GLOB ends at a NUL
			prefix = prefix[:i]
			break
		}
	}
	if t.key.Split != nil || prefix == "" {
		return t
	}
	return under{t, prefix}
}

type under struct {
	*table
	prefix string
}

// Segments implements driver.Scanner. Cursors have the prefix, so Scan is the table's.
func (u under) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	return u.segments(ctx, n, span{Prefix: u.prefix})
}

// beginsWith returns the condition for keys that begin with prefix. Indexes serve it: in PostgreSQL that
// of the key if its collation is C.
func (t *table) beginsWith(prefix string) (where string, arg any) {
	key := t.keyColumns()[0]
	if _, is := t.dialect.(sqlite); is { // where LIKE would ignore case, and a BLOB in place of a text comes after all text
		return "(" + key + " GLOB ? OR " + key + " >= x'')", strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(prefix) + "*"
	}
	if _, is := t.dialect.(postgres); is {
		key = t.dialect.text(key)
	}
	return key + " LIKE ? ESCAPE '!'", strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(prefix) + "%"
}
