package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

type postgres struct{}

func (postgres) quote(name string) string     { return `"` + name + `"` }
func (postgres) bind(statement string) string { return numbered(statement) }
func (postgres) integer() string              { return "?::bigint" }

func (postgres) millis(t TimeType, column string) string {
	if t == Millis {
		return column
	}
	// infinity has no epoch: it is the last instant, and -infinity the first that is not none.
	return "CASE WHEN isfinite(" + column + ") THEN floor(extract(epoch from " + column + ") * 1000)::bigint WHEN " + column + " > 'epoch' THEN 9223372036854775807 WHEN " + column + " < 'epoch' THEN 1 END"
}

func (postgres) written(t TimeType, argument string) string {
	switch t {
	case Timestamp: // to_timestamp has floating point, which from 2242 on tells no microseconds
		return "'epoch'::timestamptz + (" + argument + ")::bigint * interval '1 ms'"
	case DateTime:
		return "'epoch'::timestamp + (" + argument + ")::bigint * interval '1 ms'"
	}
	return argument
}

func (postgres) lesser(a, b string) string { return "least(" + a + ", " + b + ")" }
func (postgres) text(column string) string { return column + "::text" }
func (postgres) size(column string) string { return "pg_column_size(" + column + ")" }

// object joins the texts of several: a function takes a hundred arguments.
func (p postgres) object(row string, columns []string) (text string) {
	for some := range slices.Chunk(columns, 50) {
		next := object("json_build_object", row, some, p.quote, func(c string) string { return c }) + "::text"
		if text != "" {
			next = "left(" + text + ", -1) || ', ' || substr(" + next + ", 2)"
		}
		text = next
	}
	return text
}

func (postgres) clock() string { return postgresTime("clock_timestamp()") }
func (postgres) began() string { return postgresTime("statement_timestamp()") }

// postgresTime uses floating point, which is faster than numeric and exact to a microsecond.
func postgresTime(of string) string {
	return "floor(date_part('epoch', " + of + ") * 1000)::bigint"
}

// postgresLatest ends a SELECT that fails by a serialization failure where the row was written since the
// transaction's snapshot. In a read-only transaction it always fails: one that begins again may tell.
const postgresLatest = " FOR NO KEY UPDATE"

// locked: PostgreSQL evaluates a condition before it waits for a row's lock, and again only if the
// row was written meanwhile. A lock FOR UPDATE waits also for transactions that refer to the row by a
// foreign key: one NO KEY would have an UPDATE of a unique column wait for them with the row locked.
func (postgres) locked(table string, key []string, is string, keys bool) string {
	columns, lock := strings.Join(key, ", "), postgresLatest
	if keys {
		lock = " FOR UPDATE"
	}
	return "(" + columns + ") = (SELECT " + columns + " FROM " + table + " WHERE " + is + lock + ")"
}

// unsynced: a statement that is a transaction of its own commits by the setting that it has then.
// Evaluated for the row that is written, it costs nothing where none is.
func (postgres) unsynced(sync bool) string {
	if sync {
		return ""
	}
	return " AND set_config('synchronous_commit', 'off', true) = 'off'"
}

func (p postgres) upsert(key, set []string, dead string) string { return onConflict(p, key, set, dead) }
func (p postgres) excluded(column string) string                { return "excluded." + p.quote(column) }

// onConflict is the upsert of PostgreSQL and SQLite.
func onConflict(d dialect, key, set []string, dead string) string {
	quoted := make([]string, len(key))
	for i, k := range key {
		quoted[i] = d.quote(k)
	}
	return " ON CONFLICT (" + strings.Join(quoted, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ") + " WHERE " + dead
}

// take computes the columns outside the locking SELECT: inside, they would be computed before the
// lock, and in vain for each row that another sweeper has locked. Turning a jsonb into text takes
// longer than deleting its row.
func (postgres) take(columns, own, from string) string {
	return "SELECT " + columns + " FROM (SELECT " + own + from + " FOR UPDATE SKIP LOCKED) AS taken"
}

// some materializes take, so that any plan executes it once.
func (postgres) some(key, take string) string {
	return key + " IN (WITH taken AS MATERIALIZED (" + take + ") SELECT * FROM taken)"
}

// postgresClasses are the server's classes of SQLSTATE but PL/pgSQL's.
const postgresClasses = "00 01 02 03 08 09 0A 0B 0F 0L 0P 0Z 10 20 21 22 23 24 25 26 27 28 2B 2D 2F 34 38 39 3B 3D 3F 40 42 44 53 54 55 57 58 72 F0 HV XX"

// verdict uses SQLSTATE, which pgx and lib/pq both report. pgx also reports that a connection was
// broken before a query was sent.
func (postgres) verdict(err error) verdict {
	var server interface{ SQLState() string }
	var broken interface{ SafeToRetry() bool }
	if !errors.As(err, &server) {
		if errors.As(err, &broken) && broken.SafeToRetry() {
			return unsent
		}
		return uncoded(err)
	}
	switch state := server.SQLState(); {
	case len(state) != 5:
		return unknown
	case state == "40001", state == "40P01", // serialization failure, deadlock
		state == "25006" && strings.Contains(err.Error(), strings.TrimSpace(postgresLatest)):
		return collided
	case state == "40003", state == "57P01", state == "57P02", strings.HasPrefix(state, "08"):
		return unknown // completion unknown; the server is told to stop, or has crashed; the connection broke
	case state == "23505":
		return duplicate
	case strings.HasPrefix(state, "57"), state == "55P03": // statement_timeout, lock_timeout
		return tooSlow
	case strings.HasPrefix(state, "22"), strings.HasPrefix(state, "23"), state == "54000", !strings.Contains(postgresClasses, state[:2]): // a trigger's own error
		return impossible
	case strings.HasPrefix(state, "28"), state == "42501", state == "3D000", state == "3F000", state == "42P01", state == "42703":
		return barred // wrong credentials; no right; no database, schema, table or column
	case state == "21000", state == "42883", strings.HasPrefix(state, "55"), strings.HasPrefix(state, "0A") && !strings.Contains(err.Error(), "cached plan"):
		return objected // a subquery with several rows; no function or operator for these types; not now; not supported, as a trigger says
	}
	return refused
}

// postgresColumns tells the type that a domain is over, be it over another domain. A timestamp whose default is local
// time, by its own zone or in a session that is not UTC's, is another type, and so are bytes that are not hex. A trigger
// BEFORE INSERT FOR EACH ROW may fill any column. Last is the type in a cast, without a length, to which a cast would cut.
const postgresColumns = `
SELECT a.attname, CASE WHEN typtype = 'e' THEN 'enum'
	WHEN b.oid = 'bytea'::regtype AND current_setting('bytea_output') <> 'hex' THEN '` + postgresEscaped + `'
	WHEN b.oid = 'timestamp'::regtype AND expr ~* '[[:<:]]now[[:>:]]|current_|localtimestamp|_timestamp[(]'
		AND CASE WHEN expr ~* 'at time zone|timezone[(]' THEN expr !~* '(at time zone |timezone[(])''(etc/)?(utc|gmt)'''
			ELSE EXISTS (SELECT FROM generate_series(now(), now() + interval '1 year', interval '1 month') t WHERE t::timestamp <> t AT TIME ZONE 'UTC') END
		THEN 'timestamp that is local time by default: it must be (now() AT TIME ZONE ''UTC'')'
	ELSE format_type(b.oid, modifier) END, modifier, false, NOT (attnotnull OR b.typnotnull),
	expr IS NOT NULL OR attidentity <> '' OR EXISTS (SELECT FROM pg_trigger WHERE tgrelid = attrelid AND tgtype & 7 = 7),
	CASE WHEN typtype = 'e' THEN '' ELSE format_type(atttypid, CASE WHEN b.oid IN ('varchar'::regtype, 'bpchar'::regtype, 'bit'::regtype, 'varbit'::regtype) THEN -1 ELSE atttypmod END) END
FROM pg_attribute a CROSS JOIN LATERAL (
	WITH RECURSIVE base AS (
		SELECT oid, typtype, typbasetype, typtypmod, a.atttypmod AS modifier, typnotnull, typdefault FROM pg_type WHERE oid = a.atttypid
		UNION ALL SELECT t.oid, t.typtype, t.typbasetype, t.typtypmod, base.typtypmod, base.typnotnull OR t.typnotnull, COALESCE(base.typdefault, t.typdefault) FROM base JOIN pg_type t ON t.oid = base.typbasetype)
	SELECT * FROM base WHERE typtype <> 'd') b
LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
CROSS JOIN LATERAL (SELECT COALESCE(pg_get_expr(adbin, adrelid), b.typdefault) AS expr) e
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped`

const postgresIndexes = `
SELECT i.indexrelid::text, i.indisunique AND i.indpred IS NULL, a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass($1) AND i.indisvalid AND i.indimmediate AND 0 <> ALL (i.indkey) AND k.place <= i.indnkeyatts
ORDER BY i.indexrelid, k.place`

// postgresRivals: ON CONFLICT takes any unique index on the columns that it names, whatever its collation,
// and fails at a deferrable one.
const postgresRivals = `
SELECT i.indexrelid::text, true, a.attname
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k(attnum, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum
WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
AND (NOT i.indimmediate OR EXISTS (SELECT FROM pg_collation WHERE oid = ANY (i.indcollation) AND NOT collisdeterministic))
ORDER BY i.indexrelid, k.place`

// postgresKeyed: PostgreSQL's own rule, by which a deferrable index counts, and one that is not valid yet.
// In place of a generated column, which changes with them, stand those that it is made of; before version 15
// it depends on these itself.
const postgresKeyed = `
SELECT DISTINCT f.attname
FROM pg_index JOIN pg_attribute a ON a.attrelid = indrelid AND a.attnum = ANY ((indkey::int2[])[0:indnkeyatts - 1])
JOIN pg_attribute f ON f.attrelid = indrelid AND (f.attnum = a.attnum OR a.attgenerated <> '' AND EXISTS (
	SELECT FROM pg_depend WHERE refclassid = 'pg_class'::regclass AND refobjid = indrelid AND refobjsubid = f.attnum
	AND (objid = indrelid AND objsubid = a.attnum OR objid IN (SELECT oid FROM pg_attrdef WHERE adrelid = indrelid AND adnum = a.attnum))))
WHERE (indrelid = to_regclass($1) OR indrelid IN (SELECT relid FROM pg_partition_tree(to_regclass($1))))
AND indisunique AND indpred IS NULL AND indexprs IS NULL`

// postgresTriggers leaves out those that do not fire, be it on one partition.
const postgresTriggers = `
SELECT tgname, min(prosrc) FROM pg_trigger JOIN pg_proc p ON p.oid = tgfoid
WHERE tgrelid = to_regclass($1) OR tgrelid IN (SELECT relid FROM pg_partition_tree(to_regclass($1)))
GROUP BY tgname HAVING bool_or(tgrelid = to_regclass($1)) AND bool_and(tgenabled IN ('A', CASE current_setting('session_replication_role') WHEN 'replica' THEN 'R' ELSE 'O' END))`

// postgresKind: the unique index of a table with children is its own rows' alone. A rule may execute
// something else in a statement's place. The schema follows.
const postgresKind = `
SELECT CASE WHEN row_security_active(c.oid) THEN 'under row security'
	WHEN EXISTS (SELECT FROM pg_rewrite WHERE ev_class = c.oid) THEN 'with rules, or a view'
	WHEN relkind <> 'p' AND EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid) THEN 'inherited by others'
	WHEN relkind NOT IN ('r', 'p') THEN 'of kind ' || relkind::text ELSE '' END, COALESCE(nspname, current_schema(), '')
FROM (SELECT to_regclass($1) AS of) AS named LEFT JOIN pg_class c ON c.oid = of LEFT JOIN pg_namespace n ON n.oid = relnamespace`

// postgresParts lists a partitioned table's leaves, and the invalid indexes of these or of the table
// itself.
const postgresParts = `
WITH leaves AS (
	SELECT relid, level FROM pg_partition_tree(to_regclass($1)) WHERE isleaf
	UNION SELECT to_regclass($1), 0)
SELECT relid::regclass::text, '', '' FROM leaves WHERE level > 0
UNION ALL
SELECT '', CASE WHEN c.relkind = 'I' THEN '' ELSE 'CONCURRENTLY ' END || 'IF EXISTS ' || i.indexrelid::regclass, a.attname
FROM leaves JOIN pg_index i ON i.indrelid = relid AND NOT i.indisvalid
JOIN pg_class c ON c.oid = i.indexrelid
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
ORDER BY 1, 2 DESC` // a partitioned table's own index first: it takes the others with it

func (p postgres) describe(ctx context.Context, db *stdsql.DB, schema, table string) (*description, error) {
	name := qualified(p, schema, table)
	d, err := describe(ctx, db, postgresColumns, postgresIndexes, postgresTriggers, name)
	if err == nil {
		err = db.QueryRowContext(ctx, postgresKind, name).Scan(&d.wrong, &d.schema)
	}
	if d != nil && schema != "" {
		d.schema = schema
	}
	if err != nil || len(d.columns) == 0 {
		return d, err
	}
	if d.rivals, err = listIndexes(ctx, db, postgresRivals, []any{name}); err != nil {
		return d, err
	}
	err = each(ctx, db, postgresKeyed, []any{name}, func(scan func(...any) error) error {
		var column string
		err := scan(&column)
		d.keyed = append(d.keyed, strings.ToLower(column))
		return err
	})
	if err != nil {
		return d, err
	}
	return d, each(ctx, db, postgresParts, []any{name}, func(scan func(...any) error) error {
		var table, index, column string
		if err := scan(&table, &index, &column); err != nil {
			return err
		}
		if index != "" {
			d.invalid = append(d.invalid, invalidIndex{index, strings.ToLower(column)})
		} else {
			d.parts = append(d.parts, table)
		}
		return nil
	})
}

func (p postgres) settings(ctx context.Context, db *stdsql.DB, _ []TimeType) error {
	if err := pooled(ctx, db); err != nil {
		return err
	}
	var recovering bool
	var readOnly, encoding, server, dates, intervals string
	var digits int
	err := db.QueryRowContext(ctx, "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only'), pg_client_encoding(), current_setting('server_encoding'), current_setting('DateStyle'), current_setting('IntervalStyle'), current_setting('extra_float_digits')::int").
		Scan(&recovering, &readOnly, &encoding, &server, &dates, &intervals, &digits)
	var r refusals
	r.when(!strings.HasPrefix(dates, "ISO"), "DateStyle", dates, "must be ISO: clients that read texts, as pgx's exec, take times for others")
	r.when(intervals != "postgres", "IntervalStyle", intervals, "must be postgres: clients that read texts cannot read intervals")
	r.when(digits < 1, "extra_float_digits", fmt.Sprint(digits), "must be at least 1: numbers in floating point would be rounded where they are read as texts, and for archives")
	r.when(recovering || readOnly == "on", "database", "read-only", "must take writes: it must not be a standby, and default_transaction_read_only must be off")
	r.when(server != "UTF8" && server != "SQL_ASCII", "server_encoding", server, "must be UTF8: texts are converted to another, some of which take two characters for one")
	r.when(server == "UTF8" && encoding != "UTF8" && encoding != "SQL_ASCII", "client_encoding", encoding, "must be UTF8: keys and values would be other texts for other clients")
	return errors.Join(append(r, err)...)
}

// pooled checks that transactions work, and that a connection still has its prepared statements
// later. In pgbouncer's transaction mode, the server connection released last is used next, whoever
// prepared statements on it. In pgx's mode describe_exec a statement that another client described
// in between would be executed without an error, so any pooler is refused. So it is in pgx's default
// mode if the pool has one connection, by which the poolers' modes look the same.
func pooled(ctx context.Context, db *stdsql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	// pgx names a statement after its text: another process may have prepared the same one.
	probe := fmt.Sprintf("SELECT pg_backend_pid() WHERE $1 < %d", 2+rand.Int32())
	var server uint32
	tx, err := conn.BeginTx(ctx, nil)
	if err == nil {
		err = errors.Join(tx.QueryRowContext(ctx, probe, 1).Scan(&server), tx.Rollback())
	}
	if sqlState(err) == "08P01" && strings.Contains(err.Error(), "statement pooling") { // pgbouncer's code for much else too
		return &driver.InvalidError{Field: "connection", Value: "pooled by statement", Rule: "must take transactions: pool_mode must be session or transaction", Err: err}
	} else if err != nil {
		return err
	}
	refuse := func(value string, err error) error {
		return &driver.InvalidError{
			Field: "default_query_exec_mode", Value: value, Err: err,
			Rule: "must be exec, cache_describe or simple_protocol, which send no statement in two trips: a pooler may send each to another server",
		}
	}
	mode, pid := pgxMode(conn)
	over := server != pid
	if over && mode == "describe exec" {
		return refuse("describe_exec, over a pooler", nil)
	}
	if db.Stats().MaxOpenConnections != 1 {
		within, cancel := context.WithTimeout(ctx, 5*time.Second) // calls may use all other connections
		defer cancel()
		ask := func() error { return conn.QueryRowContext(within, probe, 1).Scan(&server) }
		if tx, err = db.BeginTx(within, nil); err == nil {
			_, err = tx.ExecContext(within, "SELECT 1")
			err = errors.Join(err, ask(), tx.Rollback())
		}
		if err == nil {
			err = ask()
		}
		if state := sqlState(err); state == "26000" || state == "42P05" {
			return refuse("one that prepares statements, pooled by transaction", err)
		} else if within.Err() == nil || ctx.Err() != nil {
			return err
		}
	}
	if over && mode == "cache statement" {
		return refuse("the default, over a pooler and with one connection", nil)
	}
	return nil
}

// sqlState returns a server's code for err.
func sqlState(err error) string {
	if server, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err); ok {
		return server.SQLState()
	}
	return ""
}

// pgxMode returns how conn, if it is pgx's, sends statements, and the ID of its server's process as
// conn was told it. A pooler tells another. Reflection spares users of other databases an import of
// pgx.
func pgxMode(conn *stdsql.Conn) (mode string, pid uint32) {
	_ = conn.Raw(func(c any) error {
		call := func(of reflect.Value, method string) reflect.Value {
			if m := of.MethodByName(method); m.IsValid() && m.Type().NumIn() == 0 && m.Type().NumOut() == 1 {
				return m.Call(nil)[0]
			}
			return reflect.ValueOf(struct{}{})
		}
		own := call(reflect.ValueOf(c), "Conn")
		config := reflect.Indirect(call(own, "Config"))
		if config.Kind() != reflect.Struct || !config.FieldByName("DefaultQueryExecMode").IsValid() {
			return nil
		}
		mode = fmt.Sprint(config.FieldByName("DefaultQueryExecMode"))
		pid = uint32(call(call(own, "PgConn"), "PID").Uint())
		return nil
	})
	return mode, pid
}

func (postgres) fits(t TimeType, c columnType) bool {
	switch t {
	case Timestamp:
		return strings.HasPrefix(c.name, "timestamp") && strings.HasSuffix(c.name, "with time zone") && postgresFraction(c)
	case DateTime:
		return strings.HasPrefix(c.name, "timestamp") && strings.HasSuffix(c.name, "without time zone") && postgresFraction(c)
	}
	return c.name == "bigint"
}

// postgresFraction reports whether a type keeps milliseconds. Without a precision it does.
func postgresFraction(c columnType) bool { return c.digits < 0 || c.digits >= 3 }

func (postgres) integerType(c columnType) bool { return c.name == "bigint" }

// holds: bytea takes a text for its escapes; without bytea_output=hex, pgx reads no bytes as text, and a JSON object
// has others. A number in a column of another kind is cut, as a fraction in an integer, or read as a text that is no whole
// number, such as 1.0000 or 1.6777217e+07.
func (p postgres) holds(c columnType, json bool, field fieldKind) bool {
	if json {
		return slices.Contains([]string{"jsonb", "json", "text", "citext"}, c.name) || strings.HasPrefix(c.name, "character")
	}
	kind, counts := p.valueKind(c), p.keyKind(c).form == wholeNumber
	isText := kind.form == anyText && kind.chars == 0 && c.name != "enum"
	switch field {
	case textual:
		return kind.form != unfit && kind.form != typed
	case boolean:
		return isText || c.name == "boolean"
	case integral:
		return isText || counts
	case floating:
		return isText || c.name == "double precision" || c.name == "real" || kind.form == wholeNumber && kind.scale != 0
	}
	return c.name != postgresEscaped && (field == opaque || c.name != "enum")
}

const postgresEscaped = "bytea, bytea_output=escape"

func (postgres) keyKind(c columnType) keyKind {
	switch name, size, _ := strings.Cut(strings.TrimSuffix(c.name, ")"), "("); name {
	case "text", "enum", "citext", "character varying":
		most, _ := strconv.Atoi(size)
		return keyKind{form: anyText, most: most}
	case "smallint", "integer", "bigint":
		return keyKind{form: wholeNumber, bits: map[string]int{"smallint": 16, "integer": 32, "bigint": 64}[name]}
	case "numeric":
		if size == "" || strings.HasSuffix(size, ",0") {
			return keyKind{form: wholeNumber}
		}
	case "uuid":
		return keyKind{form: uuidText}
	case "bytea", "date", "boolean":
		return keyKind{form: typed}
	}
	return keyKind{}
}

func (p postgres) valueKind(c columnType) keyKind {
	k := p.keyKind(c)
	name, size, _ := strings.Cut(strings.TrimSuffix(c.name, ")"), "(")
	switch n, _ := strconv.Atoi(size); name {
	case "character":
		k = keyKind{form: anyText, chars: n}
	case "json", "jsonb":
		k.form = anyText
	case "name", "xml":
		k.isText = true
	case "numeric":
		_, scale, limited := strings.Cut(size, ",")
		k.form, k.scale = wholeNumber, -1
		if limited {
			k.scale, _ = strconv.Atoi(scale)
		}
		if limited && k.scale < 0 { // it rounds whole numbers
			k.form = unfit
		}
	}
	k.isText = k.isText || k.form == anyText
	k.zoneless = strings.HasPrefix(c.name, "timestamp") && strings.HasSuffix(c.name, "without time zone")
	return k
}

func (postgres) cast(c columnType, _ fieldKind) string {
	if c.cast == "" { // an enum
		return ""
	}
	return "CAST(? AS " + c.cast + ")"
}

func (postgres) arguments(statement string) (n int) {
	for i, part := range strings.Split(statement, `"`) {
		if i%2 == 0 { // else it is a name
			n += strings.Count(part, "$")
		}
	}
	return n
}

func (postgres) types() traits {
	return traits{
		key:     func(int) string { return `text COLLATE "C"` },
		value:   "jsonb",
		integer: "bigint", serial: "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY", kept: "text",
		retype:     "ALTER TABLE %[1]s ALTER COLUMN %[2]s TYPE %[3]s USING %[2]s::%[3]s",
		times:      map[TimeType]string{Millis: "bigint", Timestamp: "timestamptz", DateTime: "timestamp"},
		setDefault: "ALTER TABLE %s ALTER COLUMN %s SET DEFAULT 0",
		checkNow:   "SET CONSTRAINTS ALL IMMEDIATE",
		locks:      postgresLatest,
		dies: "CASE WHEN current_setting('transaction_isolation') NOT LIKE 'read %%' AND %[1]s >= " + postgresTime("transaction_timestamp()") +
			" THEN CASE WHEN %[1]s > " + postgresTime("clock_timestamp()") + " THEN %[1]s ELSE 0 END ELSE 9223372036854775807 END",
		lastYear: 294276,
		online:   " CONCURRENTLY", isolation: stdsql.LevelReadCommitted,
		grant: grant,
		with:  fmt.Sprintf(" WITH (fillfactor = %d)", fillfactor),
	}
}

// fillfactor leaves room in each page for the row versions that touches create.
const fillfactor = 80

func (d postgres) indexed(schema, table string) string { return qualified(d, schema, table) }

func (d postgres) trigger(schema, table, trigger, event string, of []string, insert string) []string {
	name := qualified(d, schema, trigger)
	if len(of) > 0 {
		event += " OF " + strings.Join(of, ", ")
	}
	return []string{
		"CREATE OR REPLACE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql SET bytea_output = 'hex' AS $slidingttl$ BEGIN " + insert + "; RETURN NULL; END $slidingttl$",
		"CREATE OR REPLACE TRIGGER " + d.quote(trigger) + " AFTER " + event + " ON " + qualified(d, schema, table) + " FOR EACH ROW EXECUTE FUNCTION " + name + "()",
	}
}

func (d postgres) dropTrigger(schema, table, trigger string) string {
	return "DROP TRIGGER IF EXISTS " + d.quote(trigger) + " ON " + qualified(d, schema, table)
}
