package sql

import (
	"context"
	stdsql "database/sql"
	"strconv"
	"strings"
)

// Dialect is the SQL that a database speaks.
type Dialect int

const (
	PostgreSQL Dialect = iota + 1
	MySQL              // MariaDB too
	SQLite
)

// dialect hides how the databases differ. Statements are written with ? for arguments, and bind
// numbers them if the database requires that.
type dialect interface {
	quote(name string) string
	bind(statement string) string

	// Expressions: an integer argument whose type the statement does not determine, an instant read
	// as milliseconds or written from them, the lesser of two, a column as text, its size in bytes,
	// and a JSON object of columns.
	integer() string
	millis(t TimeType, column string) string
	written(t TimeType, argument string) string
	lesser(a, b string) string
	text(column string) string
	size(column string) string
	object(row string, columns []string) string

	// clock is the database's time in milliseconds once the row is locked. began is the time at the
	// statement's start, which an index can be searched by.
	clock() string
	began() string
	// locked is the condition is, in a form that locks the row before other conditions are
	// evaluated. keys: it is locked for a DELETE, or an UPDATE of a unique index's columns, and not of others.
	locked(table string, key []string, is string, keys bool) string

	// unsynced is a further condition of a touch, by which its commit is not waited for, unless sync.
	// Empty: the database has none that is the statement's alone.
	unsynced(sync bool) string

	// upsert follows an INSERT's values. It updates set if the row exists and its record is dead.
	// Empty: the INSERT fails on an existing row, and an UPDATE cannot return rows.
	upsert(key []string, set []string, dead string) string
	// excluded is the value that an INSERT gave for column, in upsert.
	excluded(column string) string
	// take selects columns, which are computed from those of own, of the rows of from, a FROM clause.
	// It locks these rows and skips those that are locked.
	take(columns, own, from string) string
	// some is the condition that a key's row is one that take finds. Empty: the database has none
	// that waits for no lock.
	some(key, take string) string
	verdict(err error) verdict

	// Describing and making tables.
	describe(ctx context.Context, db *stdsql.DB, schema, table string) (*description, error)
	settings(ctx context.Context, db *stdsql.DB, times []TimeType) error
	fits(t TimeType, column columnType) bool
	integerType(column columnType) bool
	holds(column columnType, json bool, field fieldKind) bool // a value, or a part of one; JSON is a text
	keyKind(column columnType) keyKind
	valueKind(column columnType) keyKind            // which strings a value's column holds as they are
	cast(column columnType, field fieldKind) string // an argument as a value's column gives it back, as far as that matters; empty: unknown
	arguments(statement string) int
	types() traits
	indexed(schema, table string) string // a table in CREATE INDEX, and in a trigger
	// trigger creates a trigger of the table, or replaces it. It inserts for each row after an event: DELETE, or
	// UPDATE of any of the columns.
	trigger(schema, table, trigger, event string, of []string, insert string) []string
	dropTrigger(schema, table, trigger string) string
}

// verdict is what a database's error says about the statement that failed.
type verdict int

const (
	unknown    verdict = iota // the statement may have been executed
	refused                   // it was not
	collided                  // it was not, because of another transaction, and may succeed if tried again
	unsent                    // it was not, for it was never sent
	duplicate                 // it was not: the row exists
	impossible                // it was not: the values cannot be stored
	barred                    // it was not: no permission, or no such object
	objected                  // it was not: by what the row leads to, or by the table's state, as a trigger may find it
	tooSlow                   // it was not: a limit on its time, or on its wait for a lock, has ended it
	timedOut                  // it was not: it waited for a lock; a server's setting decides whether its transaction still stands
)

// again reports whether a statement outside of transactions is to be tried again.
func (v verdict) again() bool { return v == collided || v == unsent }

var dialects = map[Dialect]dialect{PostgreSQL: postgres{}, MySQL: mysql{}, SQLite: sqlite{}}

// grant gives a user all rights on a table that the driver needs.
const grant = "GRANT SELECT, INSERT, UPDATE, DELETE ON %s TO %s"

// numbered turns ? into $1, $2 and so on.
func numbered(statement string) string {
	var b strings.Builder
	n := 0
	for _, c := range []byte(statement) {
		if c != '?' {
			b.WriteByte(c)
			continue
		}
		n++
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}

// arguments counts a statement's ?.
func arguments(statement string) int { return strings.Count(statement, "?") }

// listed repeats item n times, separated by commas.
func listed(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}

// tuples lists n tuples of size arguments; tuples of one argument have no brackets.
func tuples(n, size int) string {
	if size == 1 {
		return listed("?", n)
	}
	return listed("("+listed("?", size)+")", n)
}

// object calls a function that makes a JSON object of names and values. row is before each column:
// nothing, or a trigger's "OLD.".
func object(function, row string, columns []string, quote, value func(string) string) string {
	args := make([]string, len(columns))
	for i, c := range columns {
		args[i] = "'" + strings.ReplaceAll(c, "'", "''") + "', " + value(row+quote(c))
	}
	return function + "(" + strings.Join(args, ", ") + ")"
}

// qualified is a table's name, in its schema if it has one.
func qualified(d dialect, schema, table string) string {
	if schema == "" {
		return d.quote(table)
	}
	return d.quote(schema) + "." + d.quote(table)
}
