package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// ensured returns a driver whose table and triggers EnsureTable has made, and which Check accepts.
func ensured(t *testing.T, db *stdsql.DB, dialect Dialect, table string) *Driver[session] {
	t.Helper()
	d, err := New(db, dialect, table, &Options[session]{Replaced: true, Deletes: true})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.EnsureTable(t.Context()); err != nil {
			t.Fatalf("EnsureTable: %v", err)
		}
	}
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Errorf("Check: %v", err)
	}
	return d
}

// TestLongNames: a table that New accepts can be made, with its index and triggers, however long its
// name and those of its columns are.
func TestLongNames(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, name := range []string{strings.Repeat("n", 54), strings.Repeat("n", 55), strings.Repeat("n", 56), strings.Repeat("n", maxName), strings.Repeat("\u00fc", maxName/2), "cost$1"} {
			d := ensured(t, db, dialect, name)
			d.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
			if err := d.Delete(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
			var n int
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+d.replacedTable()).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d bytes: %d deletes are kept, %v; want 1", len(name), n, err)
			}
		}
		percent, err := New(db, dialect, "%s", &Options[session]{Key: Key{Columns: []string{"%d"}}, Value: "100%", CreatedAt: TimeColumn{Name: "%[1]s"}, ExpiresAt: TimeColumn{Name: "%v"}, SweepAt: "%%", Version: "%!", Replaced: true, Deletes: true})
		if err == nil {
			err = errors.Join(percent.EnsureTable(t.Context()), percent.Check(t.Context(), time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		percent.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
		if err := percent.Delete(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		if n := len(percent.buryAll(t)); n != 1 {
			t.Errorf("%d deletes are kept; want 1", n)
		}
		d, err := New(db, dialect, "odd", &Options[session]{SweepAt: strings.Repeat("s", maxName)})
		if err == nil {
			err = d.EnsureTable(t.Context())
		}
		if err != nil {
			t.Error(err)
		}
	})
}

// TestOtherTriggers: a trigger counts if it is of this table, in its schema, and enabled.
func TestOtherTriggers(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		other := fmt.Sprintf("other%d", tables.Add(1))
		switch dialect {
		case PostgreSQL:
			mustExec(t, db, dialect, "CREATE SCHEMA "+other)
		case MySQL:
			mustExec(t, db, dialect, "CREATE DATABASE "+other)
			t.Cleanup(func() { _, _ = db.ExecContext(context.Background(), "DROP DATABASE "+other) })
		case SQLite:
			db.SetMaxOpenConns(1) // which has it attached
			mustExec(t, db, dialect, "ATTACH ':memory:' AS "+other)
		}
		here, there := ensured(t, db, dialect, "same"), ensured(t, db, dialect, other+".same")
		refused := func(d *Driver[session], why string) {
			t.Helper()
			if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "same_replaced") || strings.Contains(err.Error(), "same_deleted") {
				t.Errorf("%s: %v; want a refusal that names the trigger", why, err)
			}
		}
		drop := func(schema, table string) {
			if dialect == PostgreSQL {
				mustExec(t, db, dialect, "DROP TRIGGER same_replaced ON "+schema+table)
			} else {
				mustExec(t, db, dialect, "DROP TRIGGER "+schema+"same_replaced")
			}
		}
		drop("", "same")
		refused(here, "only another schema has the trigger")
		if err := there.Check(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
		drop(other+".", "same")
		desc, err := here.describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range here.ensureReplaced(desc) {
			mustExec(t, db, dialect, s)
		}
		refused(there, "only the default schema has the trigger")
	})
	db := sqltest.DB(t, sqltest.PostgreSQL)
	d := ensured(t, db, PostgreSQL, "disabled")
	for _, how := range []string{"DISABLE", "ENABLE REPLICA"} {
		mustExec(t, db, PostgreSQL, "ALTER TABLE disabled "+how+" TRIGGER disabled_deleted")
		if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "disabled_deleted") {
			t.Errorf("%s TRIGGER: %v", how, err)
		}
	}
	mustExec(t, db, PostgreSQL, "ALTER TABLE disabled ENABLE TRIGGER disabled_deleted")
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	replica, err := stdsql.Open(client, dsn+" session_replication_role=replica")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = replica.Close() }()
	on, err := New(replica, PostgreSQL, "fires", &Options[session]{Replaced: true, Deletes: true})
	if err == nil {
		err = on.EnsureTable(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := on.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "fires_replaced") {
		t.Errorf("in a replica's session: %v", err)
	}
	mustExec(t, db, PostgreSQL, "ALTER TABLE disabled ENABLE ALWAYS TRIGGER disabled_deleted")
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	mustExec(t, db, PostgreSQL, `CREATE TABLE parted (id text COLLATE "C" PRIMARY KEY, value jsonb, created_at bigint, expires_at bigint, sweep_at bigint NOT NULL DEFAULT 0, version bigint) PARTITION BY HASH (id)`)
	mustExec(t, db, PostgreSQL, "CREATE TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
	d = ensured(t, db, PostgreSQL, "parted")
	mustExec(t, db, PostgreSQL, "ALTER TABLE parted_0 DISABLE TRIGGER parted_deleted")
	if err := d.Check(t.Context(), time.Hour); err == nil || !strings.Contains(err.Error(), "parted_deleted") {
		t.Errorf("disabled on a partition: %v", err)
	}
}

// TestTriggersNameTheirSchema: on PostgreSQL a delete by a session of another search_path is kept in the
// table's own schema, and Check refuses a trigger that leaves this to the session.
func TestTriggersNameTheirSchema(t *testing.T) {
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	root := sqltest.DB(t, sqltest.PostgreSQL)
	opts := &Options[session]{Replaced: true, Deletes: true}
	on := func(schema, table string) *Driver[session] {
		db, err := stdsql.Open(client, dsn[:strings.LastIndexByte(dsn, '=')+1]+schema)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		d, err := New(db, PostgreSQL, table, opts)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	names := make([]string, 3)
	for i := range names {
		names[i] = fmt.Sprintf("tenant%d", tables.Add(1))
		mustExec(t, root, PostgreSQL, "CREATE SCHEMA "+names[i])
		t.Cleanup(func() { _, _ = root.ExecContext(context.Background(), "DROP SCHEMA "+names[i]+" CASCADE") })
	}
	one, two := on(names[0], "sessions"), on(names[1], "sessions")
	for _, d := range []*Driver[session]{one, two} {
		if err := errors.Join(d.EnsureTable(t.Context()), d.Check(t.Context(), time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	afar := on(names[2], names[0]+".sessions") // its path has no such table
	if err := afar.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	insert := func(key string) {
		if _, err := one.Insert(driver.WithOtherClock(t.Context()), key, session{"ann"}, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
	}
	insert("afar")
	if err := afar.Delete(t.Context(), "afar"); err != nil {
		t.Errorf("Delete by another path: %v", err)
	}
	insert("two")
	mustExec(t, two.db, PostgreSQL, "DELETE FROM "+names[0]+".sessions")
	kept := func(d *Driver[session]) (n int) {
		if err := d.db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM sessions_replaced").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n, other := kept(one), kept(two); n != 2 || other != 0 {
		t.Errorf("%d lives are kept, and %d in another schema; want 2 and none", n, other)
	}
	for _, suffix := range []string{replacedSuffix, deletedSuffix} {
		mustExec(t, one.db, PostgreSQL, "CREATE OR REPLACE FUNCTION sessions"+suffix+"() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO sessions_replaced (created_at, died_at, version, deleted) VALUES (0, 0, 0, 0); RETURN NULL; END $$")
		for _, d := range []*Driver[session]{one, afar} {
			if err := d.Check(t.Context(), time.Hour); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "sessions"+suffix) {
				t.Errorf("Check of a trigger that names no schema: %v", err)
			}
		}
		if err := one.EnsureTable(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := one.Check(t.Context(), time.Hour); err != nil {
			t.Error(err)
		}
	}
}

// tenantNumber and tenantDigits are what an application's Split may return, and print as something else.
type tenantNumber int64

func (n tenantNumber) String() string { return fmt.Sprintf("tenant %d", int64(n)) }

type tenantDigits string

func (n tenantDigits) String() string { return "tenant " + string(n) }

// valued is a driver.Valuer.
type valued string

func (v valued) Value() (sqldriver.Value, error) { return strings.TrimPrefix(string(v), "v"), nil }

// TestKeyTypes: key columns that Check takes, and keys that they cannot hold. In a batch such a key costs
// no other.
func TestKeyTypes(t *testing.T) {
	number := Key{Columns: []string{"id"}, Split: func(key string) ([]any, error) {
		var n int64
		_, err := fmt.Sscan(key, &n)
		return []any{n}, err
	}, Join: func(c []string) string { return c[0] }}
	digits := number
	digits.Split = func(key string) ([]any, error) { return []any{key}, nil }
	unsigned, named, namedDigits, values := number, number, number, number
	unsigned.Split = func(key string) ([]any, error) {
		var n uint64
		_, err := fmt.Sscan(key, &n)
		return []any{n}, err
	}
	named.Split = func(key string) ([]any, error) {
		n, err := number.Split(key)
		return []any{tenantNumber(n[0].(int64))}, err
	}
	namedDigits.Split = func(key string) ([]any, error) { return []any{tenantDigits(key)}, nil }
	values.Split = func(key string) ([]any, error) { return []any{valued("v" + key)}, nil }
	dbs := map[Dialect]*stdsql.DB{PostgreSQL: sqltest.DB(t, sqltest.PostgreSQL), MySQL: sqltest.DB(t, sqltest.MariaDB), SQLite: sqltest.DB(t, sqltest.SQLite)}
	for _, s := range []string{"CREATE DOMAIN once AS varchar(3)", "CREATE DOMAIN twice AS once", "CREATE TYPE letter AS ENUM ('a', 'b')"} {
		mustExec(t, dbs[PostgreSQL], PostgreSQL, s)
	}
	for i, c := range []struct {
		dialect   Dialect
		column    string
		key       Key
		good, bad string
		after     string
	}{
		{PostgreSQL, "twice", Key{}, "a", "abcd", ""},
		{PostgreSQL, "letter", Key{}, "a", "z", ""},
		{PostgreSQL, "smallint", number, "-32768", "70000", ""},
		{PostgreSQL, "integer", digits, "5", "9000000000", ""},
		{PostgreSQL, "numeric(30,0)", digits, "340282366920938463463374607431", "007", ""},
		{MySQL, "BIGINT UNSIGNED", digits, "18446744073709551615", "-0", ""},
		{MySQL, "VARCHAR(64) CHARACTER SET ascii COLLATE ascii_nopad_bin", Key{}, "a", "caf\u00e9", ""},
		{MySQL, "VARCHAR(64) CHARACTER SET utf8mb3 COLLATE utf8mb3_nopad_bin", Key{}, "caf\u00e9", "\U0001f600", ""},
		{SQLite, "ANY NOT NULL", Key{}, "1", "", " STRICT"},
		{SQLite, "BIGINT NOT NULL", digits, "9223372036854775807", "99999999999999999999", ""},
		{SQLite, "INTEGER NOT NULL", digits, "-9223372036854775808", "18446744073709551615", ""},
		{SQLite, "BIGINT NOT NULL", unsigned, "5", "18446744073709551615", ""},
		{SQLite, "BIGINT NOT NULL", namedDigits, "5", "05", ""},
		{SQLite, "BIGINT NOT NULL", values, "5", "05", ""},
		{PostgreSQL, "smallint", unsigned, "5", "70000", ""},
		{PostgreSQL, "bigint", unsigned, "9223372036854775807", "9223372036854775808", ""},
		{PostgreSQL, "bigint", namedDigits, "5", "05", ""},
		{PostgreSQL, "integer", named, "5", "3000000000", ""},
		{PostgreSQL, "varchar(12)", namedDigits, "123456789012", "1234567890123", ""},
		{MySQL, "BIGINT UNSIGNED", unsigned, "18446744073709551615", "", ""},
		{MySQL, "BIGINT", namedDigits, "5", "05", ""},
		{MySQL, "BIGINT", named, "5", "", ""},
	} {
		name, integer := fmt.Sprint("k", i), "BIGINT"
		if c.dialect == SQLite {
			integer = "INTEGER"
		}
		speaks := dialects[c.dialect]
		mustExec(t, dbs[c.dialect], c.dialect, fmt.Sprintf("CREATE TABLE %s (id %s PRIMARY KEY, value %s, created_at %[4]s, expires_at %[4]s, sweep_at %[4]s NOT NULL DEFAULT 0, version %[4]s)%[5]s", name, c.column, speaks.types().value, integer, c.after))
		mustExec(t, dbs[c.dialect], c.dialect, "CREATE INDEX "+name+"_s ON "+name+" (sweep_at)")
		d, err := New(dbs[c.dialect], c.dialect, name, &Options[session]{Key: c.key})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Check(t.Context(), time.Hour); err != nil {
			t.Errorf("%s: %v", c.column, err)
			continue
		}
		if _, err := d.Insert(t.Context(), c.good, session{"ann"}, lasting(time.Hour), base); err != nil {
			t.Errorf("%s: Insert: %v", c.column, err)
			continue
		}
		d.mustGet(t, c.good)
		if _, err := d.Get(t.Context(), c.bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: Get of a key that it cannot hold: %v", c.column, err)
		}
		found, err := d.GetMulti(t.Context(), []string{c.bad, c.good})
		if failed, ok := errors.AsType[driver.KeyErrors](err); !ok || len(failed) != 1 || failed[0].Index != 0 || len(found) != 1 {
			t.Errorf("%s: GetMulti beside such a key finds %d, %v", c.column, len(found), err)
		}
	}
}
