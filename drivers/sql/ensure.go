package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// traits are the words in which dialects differ: column types, and parts of statements.
type traits struct {
	key            func(most int) string
	value, integer string
	serial, kept   string // of the table of Options.Replaced: its own key, and a text or bytes as they are
	times          map[TimeType]string
	with           string // ends CREATE TABLE
	online         string // makes CREATE INDEX let others write
	setDefault     string // sets the default of sweep_at for rows from now on; empty: not supported
	modify         string // changes a column's type; empty: all types keep milliseconds
	retype         string // changes it by a cast; empty: no key is read in another form than text
	grant          string // grants a user rights on a table; empty: the database has none
	checkNow       string // checks deferred constraints now; empty: not supported
	lock           string // makes a transaction take the write lock; empty: not needed
	tuples         string // begins a list of tuples
	from           string // ends a SELECT of no table, before WHERE
	locks          string // ends a SELECT of the latest row in a transaction with a snapshot; empty: not supported
	dies           string // an expiry as a transaction's one snapshot has it: 0 once it has passed, never if it had before; empty: locks serves
	isolation      stdsql.IsolationLevel
	begin          string         // fails in a transaction that still stands after an error; empty: its client is told
	rollsBack      bool           // a lost conflict ends the whole transaction, without a word to its client
	scansBytes     bool           // texts are scanned as bytes
	finite         bool           // it has no other numbers: some columns take NaN for zero
	lastYear       int            // of a time: its client sends later ones as others; zero: it refuses them itself
	ends           driver.Instant // the last of a Timestamp; zero: none that matters
	inProcess      bool           // the database runs in this process, which prepares statements and queues writers itself
}

// Schema returns the statements that bring the table to this version's layout, from any earlier
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
	kept := t.ensureReplaced(d)
	if types.inProcess && d.kept != nil && len(kept) > 1 { // a row is deleted by no one between DROP TRIGGER and CREATE TRIGGER
		kept = []string{"BEGIN IMMEDIATE; " + strings.Join(kept, "; ") + "; COMMIT"}
	}
	if statements = append(statements, kept...); d.kept != nil {
		tables = append(tables, t.replacedTable())
	}
	if user != "" && types.grant != "" {
		for _, table := range tables {
			statements = append(statements, fmt.Sprintf(types.grant, table, user))
		}
	}
	return statements, nil
}

// mend returns the statement that gives a column milliseconds.
func (t *table) mend(c TimeColumn) []string {
	types := t.dialect.types()
	if types.modify == "" || c.Type == Millis {
		return nil
	}
	return []string{fmt.Sprintf(types.modify, t.quoted(), t.dialect.quote(c.Name), types.times[c.Type])}
}

// EnsureTable creates the table, or adds to it the missing columns of a life and index on sweep_at.
// It is for development and tests: in production, create the table with the rest of the schema, so
// that the program needs no permission for it. It may run several times. A table with columns of
// the application's own, or a key of several columns or another type than text, must exist.
func (t *table) EnsureTable(ctx context.Context) error {
	var failed error
	var before []string
	for range 8 { // other processes may do the same
		desc, err := t.describe(ctx)
		if err != nil {
			return err
		}
		lacks := t.missing(desc, "")
		if len(lacks) == 0 && len(desc.columns) > 0 {
			lacks = t.ensureReplaced(desc)
		}
		if len(lacks) == 0 || failed == nil && slices.Equal(lacks, before) {
			return t.checkTable(desc)
		}
		before, failed = lacks, t.execute(ctx, lacks)
	}
	return failed
}

// execute executes statements: on SQLite, where no trigger can be replaced, in one transaction. Others' locks would
// deadlock with writers, and MySQL has none for these.
func (t *table) execute(ctx context.Context, statements []string) error {
	exec, end := t.db.ExecContext, func() error { return nil }
	if t.dialect.types().inProcess {
		tx, err := t.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // returns an error after a commit
		exec, end = tx.ExecContext, tx.Commit
	}
	for _, statement := range statements {
		if _, err := exec(ctx, statement); err != nil {
			return err
		}
	}
	return end()
}

// missing returns the statements that create what the table lacks, with an online index if online
// is not empty. It does not create a table whose columns are not all known here.
func (t *table) missing(d *description, online string) []string {
	q, types := t.dialect.quote, t.dialect.types()
	life := []struct{ name, kind string }{
		{t.created.Name, types.times[t.created.Type]},
		{t.expires.Name, types.times[t.expires.Type]},
		{t.sweep, types.integer + " NOT NULL DEFAULT 0"},
		{t.version, types.integer},
	}
	var statements []string
	tables := d.parts // whose rows the index is built over
	if len(tables) == 0 {
		tables = []string{t.quoted()}
	}
	switch {
	case len(d.columns) > 0:
		has := func(name string) bool { _, ok := d.columns[strings.ToLower(name)]; return ok }
		if !has(t.sweep) && online != "" {
			for _, part := range tables {
				statements = append(statements, "ALTER TABLE "+part+" SET"+strings.TrimPrefix(types.with, " WITH"))
			}
		}
		for _, c := range life {
			if has(c.name) {
				continue
			}
			unswept := c.name == t.sweep && types.setDefault != "" && !has(t.expires.Name) // no row has an expiry
			if unswept {
				c.kind = fmt.Sprintf("%s NOT NULL DEFAULT %d", types.integer, never)
			}
			statements = append(statements, fmt.Sprintf("ALTER TABLE %s ADD COLUMN %s %s", t.quoted(), q(c.name), c.kind))
			if unswept {
				statements = append(statements, fmt.Sprintf(types.setDefault, t.quoted(), q(c.name)))
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
		online = "" // the table is new
		statements = append(statements, fmt.Sprintf("CREATE TABLE %s (%s)%s", t.quoted(), strings.Join(columns, ", "), types.with))
	default:
		return nil
	}
	if slices.ContainsFunc(d.indexes, func(i index) bool { return i.columns[0] == strings.ToLower(t.sweep) }) {
		return statements
	}
	if online != "" {
		for _, i := range d.invalid {
			if i.column == strings.ToLower(t.sweep) {
				statements = append(statements, "DROP INDEX "+i.drop)
			}
		}
		for _, part := range d.parts { // the table's own index then takes these over
			statements = append(statements, fmt.Sprintf("CREATE INDEX%s ON %s (%s)", online, part, q(t.sweep)))
		}
		if len(d.parts) > 0 {
			online = ""
		}
	}
	on, index := t.dialect.indexed(t.schema, t.name), t.made("_"+t.sweep)
	if on == t.quoted() {
		index = q(index)
	} else {
		index = qualified(t.dialect, t.schema, index)
	}
	return append(statements, fmt.Sprintf("CREATE INDEX%s %s ON %s (%s)", online, index, on, q(t.sweep)))
}
