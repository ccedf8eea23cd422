package sql

import (
	"fmt"
	"math"
	"strconv"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// never is the sweep_at of a row that has no expiry.
const never = int64(math.MaxInt64)

// number scans a column that should hold a whole number, or NULL for zero. It sets odd if the value is
// another, of which it takes the whole part if there is one, and does not fail.
type number struct {
	n   int64
	odd bool
}

// Scan implements sql.Scanner.
func (n *number) Scan(src any) error {
	*n = number{}
	var err error
	switch src := src.(type) {
	case nil:
	case int64:
		n.n = src
	case []byte: // MySQL, for a statement that was not prepared
		n.n, err = strconv.ParseInt(string(src), 10, 64)
	case string:
		n.n, err = strconv.ParseInt(src, 10, 64)
	case float64:
		n.n, n.odd = int64(max(-1<<62, min(src, 1<<62))), true
	default:
		n.odd = true
	}
	n.odd = n.odd || err != nil
	return nil
}

// life scans a row's created_at, expiry and version.
type life struct{ created, expires, version number }

func (l *life) dest() []any { return []any{&l.created, &l.expires, &l.version} }

func (l *life) meta() driver.Meta {
	return driver.Meta{
		Life:    driver.Life{CreatedAt: driver.Instant(l.created.n), ExpiresAt: driver.Instant(l.expires.n)},
		Version: driver.Version(l.version.n),
	}
}

// odd returns an error for the first column that cannot be read.
func (t *table) odd(l *life) error {
	for _, c := range []struct {
		name string
		odd  bool
	}{{t.created.Name, l.created.odd}, {t.expires.Name, l.expires.odd}, {t.version, l.version.odd}} {
		if c.odd {
			return &driver.InvalidError{Field: fmt.Sprintf("column %q", c.name), Value: "of another type", Rule: "must have the type set in Options"}
		}
	}
	return nil
}

// instant is i as an argument: NULL for none.
func instant(i driver.Instant) any {
	if i == 0 {
		return nil
	}
	return int64(i)
}

// sweepAt returns sweep_at for a record that expires at i.
func sweepAt(i driver.Instant) int64 {
	if i == 0 {
		return never
	}
	return int64(i)
}

// is returns the arguments of the condition that a row is the record was.
func is(was driver.Meta) []any {
	return []any{int64(was.CreatedAt), int64(was.ExpiresAt), int64(was.Version)}
}
