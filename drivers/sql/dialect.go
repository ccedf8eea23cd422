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

// dialect is in what the databases differ. Statements are written with ? for
// arguments, and numbered where the database wants that.
type dialect interface {
	quote(name string) string
	bind(statement string) string

	// Expressions. An integer argument whose type the statement does not tell, an
	// instant that is read as milliseconds or written from them, the lesser of two,
	// a column as text, its size in bytes, and a JSON object of columns.
	integer() string
	millis(t TimeType, column string) string
	written(t TimeType, argument string) string
	lesser(a, b string) string
	text(column string) string
	size(column string) string
	object(columns []string) string

	// clock is the database's time in milliseconds when it has the row, and its lock; began
	// is that when the statement began, by which an index can be asked.
	clock() string
	began() string
	// locked is the condition is, and has the row locked before any other is looked at.
	locked(table string, key []string, is string) string

	// upsert is what follows the values of an INSERT, for rows that exist: an
	// update of set where the record is dead. Empty: the INSERT fails on them, and no UPDATE
	// returns rows.
	upsert(key []string, set []string, dead string) string
	// excluded is the value that an INSERT gave for column, in upsert.
	excluded(column string) string
	// take selects columns of the rows that from finds, with FROM and all. It locks
	// them and leaves out those that are locked.
	take(columns, from string) string
	// some is the condition on a key that its row is one of those that a take finds. Empty: a
	// statement that waits for no lock cannot have it.
	some(key, take string) string
	verdict(err error) verdict

	// Describing and making tables.
	describe(ctx context.Context, db *stdsql.DB, schema, table string) (*description, error)
	settings(ctx context.Context, db *stdsql.DB, times []TimeType) error
	fits(t TimeType, column columnType) bool
	integerType(column columnType) bool
	types() traits
	indexed(schema, table string) string // a table in CREATE INDEX, and in a trigger
	// trigger makes one of the table's name and suffix, that inserts for each row after an event:
	// DELETE, or UPDATE OF a column.
	trigger(schema, table, suffix, event, insert string) []string
}

// verdict is what an error of a database says of the statement that it ended.
type verdict int

const (
	unknown    verdict = iota // it may have been carried out
	refused                   // it was not
	collided                  // it was not, and may be if it is tried again
	duplicate                 // it was not, for there is such a row
	impossible                // it was not, for what it was to write cannot be stored
	barred                    // it was not, for who sent it has no right to, or what it names is not there
)

var dialects = map[Dialect]dialect{PostgreSQL: postgres{}, MySQL: mysql{}, SQLite: sqlite{}}

// grant gives a user the rights on a table that suffice.
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

// listed is n times item, with commas between.
func listed(item string, n int) string {
	return strings.TrimSuffix(strings.Repeat(item+", ", n), ", ")
}

// tuples is a list of n tuples of size arguments; of one argument they have no brackets.
func tuples(n, size int) string {
	if size == 1 {
		return listed("?", n)
	}
	return listed("("+listed("?", size)+")", n)
}

// object calls a function that makes a JSON object of names and values.
func object(function string, columns []string, quote, value func(string) string) string {
	args := make([]string, len(columns))
	for i, c := range columns {
		args[i] = "'" + strings.ReplaceAll(c, "'", "''") + "', " + value(quote(c))
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
