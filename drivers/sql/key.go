package sql

import (
	"bytes"
	stdsql "database/sql"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Key is a table's primary key, or another unique key.
type Key struct {
	// Columns are its columns, in the order of its index. Empty: "id".
	Columns []string

	// Split computes the columns from a record's key. Different keys must give different rows. An
	// error means that there is no such key; it must not quote the key. Nil, for one column: the
	// key itself, which must be valid UTF-8 without NUL.
	Split func(key string) ([]any, error)

	// Join computes a record's key from its columns, as text. It is the reverse of Split. Nil, for
	// one column: the text itself.
	Join func(columns []string) string
}

func (k Key) validate() (Key, error) {
	if len(k.Columns) == 0 {
		k.Columns = []string{"id"}
	}
	switch {
	case len(k.Columns) > 1 && k.Split == nil:
		return k, invalidOption("Key.Split", "nil", "is required for a key of several columns")
	case len(k.Columns) > 1 && k.Join == nil:
		return k, invalidOption("Key.Join", "nil", "is required for a key of several columns")
	}
	if k.Join == nil {
		k.Join = func(columns []string) string { return columns[0] }
	}
	return k, nil
}

// rowKey is a record's key and the columns of its row.
type rowKey struct {
	key     string
	columns []any
}

// row checks key, at most most bytes long, and splits it into columns.
func (k *Key) row(key string, most int) (rowKey, error) {
	if err := driver.CheckKey(key, most); err != nil {
		return rowKey{}, err
	}
	r, err := k.split(key)
	for _, c := range r.columns {
		if s, ok := c.(string); ok && (!utf8.ValidString(s) || strings.Contains(s, "\x00")) {
			return rowKey{}, &driver.InvalidError{Field: "key", Value: "not text", Rule: "must be valid UTF-8 without NUL"}
		}
	}
	return r, err
}

// rowOf is Key.row, and checks what Check has found out about the columns.
func (t *table) rowOf(key string, most int) (rowKey, error) {
	r, err := t.key.row(key, most)
	if kinds := t.kinds.Load(); err == nil && kinds != nil {
		for i, k := range *kinds {
			if rule := k.check(r.columns[i]); rule != "" {
				return r, &driver.InvalidError{Field: "key", Value: fmt.Sprintf("a %T for column %q", r.columns[i], t.key.Columns[i]), Rule: rule}
			}
		}
	}
	return r, err
}

// split is row without the checks on what may be written, for keys that the table holds.
func (k *Key) split(key string) (rowKey, error) {
	columns := []any{key}
	if k.Split != nil {
		var err error
		if columns, err = k.Split(key); err != nil {
			return rowKey{}, &driver.InvalidError{Field: "key", Value: fmt.Sprintf("%d bytes", len(key)), Rule: "must be one that Options.Key.Split takes", Err: err}
		}
	}
	if len(columns) != len(k.Columns) {
		return rowKey{}, &driver.InvalidError{
			Field: "key",
			Value: fmt.Sprintf("%d columns", len(columns)),
			Rule:  fmt.Sprintf("must be split into the %d of Options.Key.Columns", len(k.Columns)),
		}
	}
	return rowKey{key, columns}, nil
}

// with returns k's columns, followed by more: the arguments of a statement.
func (k rowKey) with(more ...any) []any {
	return append(append(make([]any, 0, len(k.columns)+len(more)), k.columns...), more...)
}

// scannedKey scans a key's columns as texts, and as arguments that find the row again even if the
// driver would reject the key.
type scannedKey struct {
	args  []any
	texts []string
}

func newScannedKey(n int) scannedKey { return scannedKey{make([]any, n), make([]string, n)} }

func (s scannedKey) dest() []any {
	dest := make([]any, len(s.args))
	for i := range dest {
		dest[i] = keyColumn{&s.args[i], &s.texts[i]}
	}
	return dest
}

type keyColumn struct {
	arg  *any
	text *string
}

// Scan implements sql.Scanner.
func (c keyColumn) Scan(src any) error {
	var s stdsql.NullString
	if err := s.Scan(src); err != nil {
		return err
	}
	*c.arg, *c.text = src, s.String
	if b, ok := src.([]byte); ok {
		*c.arg = bytes.Clone(b)
	}
	return nil
}

// keyArgs turns scanned key columns into arguments.
func (t *table) keyArgs(columns []any) []any {
	args, bytes := make([]any, len(columns)), t.dialect.types().scansBytes
	for i, c := range columns {
		if b, ok := c.([]byte); ok && bytes && utf8.Valid(b) {
			c = string(b) // a text column's index is not used for bytes
		}
		args[i] = c
	}
	return args
}
