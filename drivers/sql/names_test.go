package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
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
		for _, name := range []string{strings.Repeat("n", 54), strings.Repeat("n", 55), strings.Repeat("n", 56), strings.Repeat("n", maxName), strings.Repeat("\u00fc", maxName/2)} {
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
		for _, s := range here.ensureReplaced() {
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
