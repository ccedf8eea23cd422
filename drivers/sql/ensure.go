package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strings"
)

// traits are in what dialects differ by a word: the types of columns, and parts of statements.
type traits struct {
	key            func(most int) string
	value, integer string
	serial, text   string
	triggers       string // where they are listed, with the condition on a name
	times          map[TimeType]string
	with           string // ends CREATE TABLE
	online         string // in a CREATE INDEX that lets others write
	modify         string // gives a column another type; empty: none has too few milliseconds
	grant          string // of rights on a table to a user; empty: there are none
	checkNow       string // has constraints that are deferred be checked; empty: nothing has
	lock           string // makes a transaction one that writes; empty: it need not be
	tuples         string // begins a list of tuples
	isolation      stdsql.IsolationLevel
	scansBytes     bool // texts are scanned as bytes
	inProcess      bool // a trip is a call: to compile a statement, and to wait for another's write, is done here
}

// SchemaVersion counts the forms that the driver's tables have had.
const SchemaVersion = 1

// Schema returns the statements that bring the table to SchemaVersion, from any earlier
// state. They are CREATE TABLE, or what EnsureTable adds. On PostgreSQL no writer waits for
// the index. On MySQL they also add milliseconds to a column that has none. They are to be
// run one by one, outside a transaction. If user is not empty, the rights that suffice for
// all of the driver's methods, and for a Sweeper, follow; user stands in GRANT as it is.
// Schema changes nothing.
func (t *table) Schema(ctx context.Context, user string) ([]string, error) {
	d, err := t.describe(ctx)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	types, tables := t.dialect.types(), []string{t.quoted()}
	statements := t.missing(d, types.online)
	for _, c := range []TimeColumn{t.created, t.expires} {
		if is, ok := d.columns[strings.ToLower(c.Name)]; ok && !t.dialect.fits(c.Type, is) {
			statements = append(statements, t.mend(c)...)
		}
	}
	if t.keepReplaced {
		statements, tables = append(statements, t.ensureReplaced()...), append(tables, t.replacedTable())
	}
	if user != "" && types.grant != "" {
		for _, table := range tables {
			statements = append(statements, fmt.Sprintf(types.grant, table, user))
		}
	}
	return statements, nil
}

// mend gives a column its milliseconds.
func (t *table) mend(c TimeColumn) []string {
	types := t.dialect.types()
	if types.modify == "" || c.Type == Millis {
		return nil
	}
	return []string{fmt.Sprintf(types.modify, t.quoted(), t.dialect.quote(c.Name), types.times[c.Type])}
}

// EnsureTable creates the table, or adds to it the missing columns of a life and index on
// sweep_at. It is for development and tests: a table in production is better defined by
// what defines the rest of the schema, and the program spared the permission. It may run
// several times. A table with columns of the application's own, and a key of several or of
// another type than text, has to be there.
func (t *table) EnsureTable(ctx context.Context) error {
	desc, err := t.describe(ctx)
	if err != nil {
		return err
	}
	for _, statement := range t.missing(desc, "") {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			if now, again := t.describe(ctx); again == nil && len(t.missing(now, "")) == 0 {
				break // another was faster
			}
			return err
		}
	}
	for _, statement := range t.ensureReplaced() {
		if _, err := t.db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if desc, err = t.describe(ctx); err != nil {
		return err
	}
	return t.checkTable(desc)
}

// missing are the statements that bring about what is not there, an index online if there is a word for
// it. None makes a table whose columns are not all known here.
func (t *table) missing(d *description, online string) []string {
	q, types := t.dialect.quote, t.dialect.types()
	life := []struct{ name, kind string }{
		{t.created.Name, types.times[t.created.Type]},
		{t.expires.Name, types.times[t.expires.Type]},
		{t.sweep, types.integer + " NOT NULL DEFAULT 0"},
		{t.version, types.integer},
	}
	var statements []string
	switch {
	case len(d.columns) > 0:
		if _, ok := d.columns[strings.ToLower(t.sweep)]; !ok && online != "" {
			statements = append(statements, "ALTER TABLE "+t.quoted()+" SET"+strings.TrimPrefix(types.with, " WITH"))
		}
		for _, c := range life {
			if _, ok := d.columns[strings.ToLower(c.name)]; !ok {
				statements = append(statements, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t.quoted(), q(c.name), c.kind))
			}
		}
	case t.json && t.key.Split == nil:
		columns := []string{
			q(t.key.Columns[0]) + " " + types.key(t.maxKey) + " PRIMARY KEY",
			q(t.values[0]) + " " + types.value + " NOT NULL",
		}
		for _, c := range life {
			columns = append(columns, q(c.name)+" "+c.kind)
		}
		online = "" // nobody writes to it yet
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (%s)%s", t.quoted(), strings.Join(columns, ", "), types.with))
	default:
		return nil
	}
	if !slices.ContainsFunc(d.indexes, func(i index) bool { return i.columns[0] == strings.ToLower(t.sweep) }) {
		statements = append(statements, fmt.Sprintf("CREATE INDEX%s %s ON %s (%s)", online, q(t.name+"_"+t.sweep), t.dialect.indexed(t.schema, t.name), q(t.sweep)))
	}
	return statements
}
