package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// sqlite is SQLite 3.42 or later.
type sqlite struct{}

func (sqlite) quote(name string) string     { return `"` + name + `"` }
func (sqlite) bind(statement string) string { return statement }
func (sqlite) integer() string              { return "?" }

func (sqlite) millis(t TimeType, column string) string {
	if t == Millis {
		return column
	}
	// An invalid date must not be read as NULL.
	return "CASE WHEN " + column + " IS NULL THEN NULL ELSE COALESCE(" + sqliteTime(column) + ", 'no date') END"
}

func (sqlite) written(t TimeType, argument string) string {
	if t == Millis {
		return argument
	}
	return "strftime('%Y-%m-%dT%H:%M:%fZ', (" + argument + ") / 1000.0, 'unixepoch')"
}

func (sqlite) lesser(a, b string) string { return "min(" + a + ", " + b + ")" }
func (sqlite) text(column string) string { return "CAST(" + column + " AS TEXT)" }
func (sqlite) size(column string) string { return "LENGTH(CAST(" + column + " AS BLOB))" }

func (s sqlite) object(row string, columns []string) string {
	return object("json_object", row, columns, s.quote, func(c string) string {
		return "CASE typeof(" + c + ") WHEN 'blob' THEN hex(" + c + ") ELSE " + c + " END"
	})
}

// sqliteTime has no unixepoch: another program's SQLite, which fires the triggers of Options.Deletes and Replaced, may be
// older.
func sqliteTime(of string) string {
	return "CAST(ROUND((julianday(" + of + ") - 2440587.5) * 86400000) AS INTEGER)"
}

// clock: its value is fixed at its first use in a statement, which comes after the wait for the
// write lock.
func (sqlite) clock() string   { return sqliteTime("'now'") }
func (s sqlite) began() string { return s.clock() }

func (sqlite) locked(_ string, _ []string, is string, _ bool) string { return is }

func (sqlite) unsynced(bool) string { return "" }

func (s sqlite) upsert(key, set []string, dead string) string { return onConflict(s, key, set, dead) }
func (s sqlite) excluded(column string) string                { return "excluded." + s.quote(column) }

func (sqlite) take(columns, _, from string) string { return "SELECT " + columns + from }
func (sqlite) some(key, take string) string        { return key + " IN (" + take + ")" }

// verdict uses the result code of modernc.org/sqlite.
func (sqlite) verdict(err error) verdict {
	var coded interface{ Code() int }
	if !errors.As(err, &coded) {
		return uncoded(err)
	}
	const noSuchThing, noRight, busy, readOnly, ioErr, tooBig, constraint, mismatch, notADatabase = 1, 3, 5, 8, 10, 18, 19, 20, 26
	const uniqueConstraint, primaryKeyConstraint = 19 | 8<<8, 19 | 6<<8
	switch code := coded.Code(); {
	case code == uniqueConstraint, code == primaryKeyConstraint:
		return duplicate
	case code&0xff == busy:
		return collided
	case code&0xff == constraint, code&0xff == tooBig, code&0xff == mismatch:
		return impossible
	case code&0xff == ioErr:
		return unknown
	case code == noSuchThing, code == noRight, code == readOnly, code == notADatabase:
		return barred
	}
	return refused
}

// sqliteColumns: ANY in a STRICT table keeps what it is given, as a column without a type does. Its others
// but TEXT take no text.
const sqliteColumns = `
SELECT name, CASE WHEN lower(type) = 'text' OR NOT EXISTS (SELECT 1 FROM pragma_table_list(?2) WHERE schema = COALESCE(NULLIF(?1, ''), 'main') AND strict) THEN lower(type) WHEN lower(type) = 'any' THEN '' ELSE 'strict ' || lower(type) END || CASE WHEN dflt_value LIKE '%localtime%' THEN ' that is local time by default' ELSE '' END, 0, 0, NOT ("notnull" OR pk AND lower(type) = 'integer'), COALESCE(upper(dflt_value), 'NULL') <> 'NULL' OR pk AND lower(type) = 'integer', ''
FROM pragma_table_info(?2, COALESCE(NULLIF(?1, ''), 'main'))`

const sqliteIndexes = `
SELECT l.name, l."unique" AND NOT l.partial AND i.coll = 'BINARY', i.name
FROM pragma_index_list(?2, COALESCE(NULLIF(?1, ''), 'main')) l, pragma_index_xinfo(l.name, COALESCE(NULLIF(?1, ''), 'main')) i
WHERE i.name IS NOT NULL AND i.key
UNION ALL
SELECT 'rowid', 1, name FROM pragma_table_info(?2, COALESCE(NULLIF(?1, ''), 'main')) WHERE pk AND lower(type) = 'integer'`

func (s sqlite) describe(ctx context.Context, db *stdsql.DB, schema, table string) (*description, error) {
	triggers := "SELECT name, sql FROM " + qualified(s, cmp.Or(schema, "main"), "sqlite_master") + " WHERE type = 'trigger' AND tbl_name = ?2 COLLATE NOCASE"
	return describe(ctx, db, sqliteColumns, sqliteIndexes, triggers, schema, table)
}

func (sqlite) settings(ctx context.Context, db *stdsql.DB, _ []TimeType) error {
	var mode, locks, encoding string
	var timeout int
	if err := db.QueryRowContext(ctx, "SELECT journal_mode, timeout, locking_mode, encoding FROM pragma_journal_mode, pragma_busy_timeout, pragma_locking_mode, pragma_encoding").Scan(&mode, &timeout, &locks, &encoding); err != nil {
		return err
	}
	shared := mode != "memory" // else only this process has the database
	shares := false
	if shared && locks == "normal" && db.Stats().MaxOpenConnections != 1 {
		var err error
		if shares, err = sharesCache(ctx, db); err != nil {
			return err
		}
	}
	var text any
	if err := db.QueryRowContext(ctx, "SELECT '2026-11-30'").Scan(&text); err != nil {
		return err
	}
	_, dates := text.(time.Time)
	var r refusals
	r.when(dates, "_texttotime", "on", "must be off: a text, such as a key, that looks like a date would be read as another")
	_, err := db.ExecContext(ctx, "no statement")
	r.when(err != nil && sqlite{}.verdict(err) == unknown, "the database/sql driver", fmt.Sprintf("one whose errors are %T", err),
		"must be modernc.org/sqlite, or one with its error codes: a BUSY could not be told from a write that may have landed")
	r.when(!shared && db.Stats().MaxOpenConnections != 1, "connections to a database in memory", "several",
		"must be one, by db.SetMaxOpenConns(1): each would have a database of its own, or fail because others read")
	r.when(shared && locks != "normal" && db.Stats().MaxOpenConnections != 1, "locking_mode", locks, "must be normal, or the only connection's, by db.SetMaxOpenConns(1): the others would wait for ever")
	r.when(shares, "cache", "shared", "must be each connection's own, without cache=shared: reads would wait for the writer's commit, whatever their context")
	r.when(encoding != "UTF-8", "encoding", encoding, "must be UTF-8: otherwise U+FFFE and U+FFFF become U+FFFD, and keys with them equal")
	r.when(shared && mode != "wal", "journal_mode", mode, "must be wal, so that readers and the writer do not wait for each other: _pragma=journal_mode(wal)")
	r.when(shared && timeout < 1000, "busy_timeout", fmt.Sprintf("%d ms", timeout), "must be at least 1 s, so that writers wait for each other: _pragma=busy_timeout(10000)")
	return errors.Join(r...)
}

// sharesCache reports whether connections have one cache: none of them can then attach its file with that cache again.
func sharesCache(ctx context.Context, db *stdsql.DB) (bool, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer func() { _ = conn.Close() }()
	var file string
	err = conn.QueryRowContext(ctx, "SELECT replace(replace(replace(file, '%', '%25'), '?', '%3f'), '#', '%23') FROM pragma_database_list WHERE name = 'main'").Scan(&file)
	if err != nil {
		return false, err
	}
	if _, err = conn.ExecContext(ctx, "ATTACH ? AS again", "file:"+file+"?cache=shared"); err != nil {
		return strings.Contains(err.Error(), "already attached"), ctx.Err()
	}
	_, err = conn.ExecContext(context.WithoutCancel(ctx), "DETACH again")
	return false, err
}

func (s sqlite) fits(t TimeType, c columnType) bool {
	if t == Millis {
		return s.integerType(c)
	}
	// SQLite keeps a text unchanged in a column of an unknown type, unless it looks like a number.
	return !s.integerType(c) && !strings.Contains(c.name, "real") && !strings.Contains(c.name, "blob") && !strings.Contains(c.name, "local time")
}

// holds: a STRICT table refuses a text for another type, and REAL takes a number's text for the number. The client sends
// a bool as a whole number and a time as a text. It reads texts of three types as times, and spells them in another way.
func (s sqlite) holds(c columnType, _ bool, field fieldKind) bool {
	name, _, _ := strings.Cut(c.name, " that is ")
	date := slices.Contains([]string{"date", "datetime", "timestamp"}, name)
	switch field {
	case textual:
		return s.affinity(c) != asFloating && !strings.HasPrefix(c.name, "strict ") && !date
	case boolean:
		return s.affinity(c) != asFloating && c.name != "strict blob"
	case dated:
		return date
	}
	return true
}

func (s sqlite) affinity(c columnType) affinity {
	is := func(part string) bool { return strings.Contains(c.name, part) }
	switch {
	case c.name == "strict blob", s.keyKind(c).form == anyText:
		return asGiven
	case !is("int") && (is("real") || is("floa") || is("doub")):
		return asFloating
	}
	return asNumber
}

// integerType: in SQLite any type with INT in its name is an integer type.
func (sqlite) integerType(c columnType) bool { return strings.Contains(c.name, "int") }

// keyKind: by the rules of SQLite's column affinity.
func (s sqlite) keyKind(c columnType) keyKind {
	is := func(part string) bool { return strings.Contains(c.name, part) }
	switch {
	case is("int"): // which holds a longer text of digits as a REAL
		return keyKind{form: wholeNumber, bits: 64}
	case c.name == "strict blob":
		return keyKind{form: typed}
	case c.name == "", is("char"), is("clob"), is("text"), is("blob"):
		return keyKind{form: anyText}
	}
	return keyKind{}
}

func (sqlite) valueKind(columnType) keyKind { return keyKind{} }

// cast: each column keeps bytes.
func (s sqlite) cast(c columnType, field fieldKind) string {
	switch {
	case field == ownBytes:
		return ""
	case field == dated:
		return "?1"
	case s.affinity(c) == asNumber:
		return "CASE WHEN typeof(?1) = 'real' AND CAST(?1 AS INTEGER) = ?1 THEN CAST(?1 AS INTEGER) WHEN ?1 GLOB '*[^0-9]*' THEN ?1 ELSE CAST(?1 AS NUMERIC) END"
	}
	return "?1"
}

func (sqlite) arguments(statement string) int { return arguments(statement) }

func (sqlite) types() traits {
	return traits{
		key:     func(int) string { return "TEXT NOT NULL" },
		value:   "TEXT",
		integer: "INTEGER", serial: "INTEGER PRIMARY KEY", kept: "TEXT",
		// Take SQLite's only lock before the transaction reads: a transaction that reads first
		// cannot write if another has written meanwhile.
		lock: "UPDATE %[1]s SET %[2]s = %[2]s WHERE 0", inProcess: true, tuples: "VALUES ", begin: "BEGIN",
		times: map[TimeType]string{Millis: "INTEGER", Timestamp: "TEXT", DateTime: "TEXT"},
	}
}

// indexed: only the index's own name may carry the schema.
func (s sqlite) indexed(_, table string) string { return s.quote(table) }

func (d sqlite) trigger(schema, table, trigger, event string, of []string, insert string) []string {
	if len(of) > 0 {
		event += " OF " + strings.Join(of, ", ")
	}
	return []string{d.dropTrigger(schema, table, trigger), "CREATE TRIGGER IF NOT EXISTS " + qualified(d, schema, trigger) + " AFTER " + event + " ON " + d.quote(table) + " BEGIN " + insert + "; END"}
}

func (d sqlite) dropTrigger(schema, _, trigger string) string {
	return "DROP TRIGGER IF EXISTS " + qualified(d, schema, trigger)
}
