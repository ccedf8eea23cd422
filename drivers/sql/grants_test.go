package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestGrants: after the statements of Schema all calls of the driver work on an application's own
// table, with the rights that these grant.
func TestGrants(t *testing.T) {
	opts := &Options[session]{Replaced: true}
	schema := func(t *testing.T, db *stdsql.DB, dialect Dialect, table, user string) {
		t.Helper()
		d, err := New(db, dialect, table, opts)
		if err != nil {
			t.Fatal(err)
		}
		statements, err := d.Schema(t.Context(), user)
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			mustExec(t, db, dialect, statement)
		}
	}
	works := func(t *testing.T, db *stdsql.DB, dialect Dialect, table string) {
		t.Helper()
		ctx := t.Context()
		d, err := New(db, dialect, table, opts)
		if err != nil {
			t.Fatal(err)
		}
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		must := func(what string, err error) {
			t.Helper()
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		must("Check", store.Check(ctx))
		must("Insert", store.Insert(ctx, "a", session{}))
		must("Upsert", store.Upsert(ctx, "a", session{}))
		_, err = store.Get(ctx, "a")
		must("Get", err)
		_, err = store.GetMulti(ctx, []string{"a"})
		must("GetMulti", err)
		_, err = store.Touch(ctx, "a")
		must("Touch", err)
		_, err = store.Update(ctx, "a", func(s session) (session, error) { return s, nil })
		must("Update", err)
		must("Retire", store.Retire(ctx, "a"))
		_, err = d.Segments(ctx, 2)
		must("Segments", err)
		for i := range 2 { // the second replaces the first, which is dead
			life := driver.Life{CreatedAt: base.Add(time.Duration(i) * time.Minute), ExpiresAt: base.Add(time.Duration(i+1) * time.Minute)}
			_, err = d.Insert(driver.WithOtherClock(ctx), "b", session{}, life, life.CreatedAt)
			must("Insert", err)
		}
		var buried atomic.Int64
		bury := func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			buried.Add(int64(len(dead)))
			return nil
		}
		must("Sweep", d.mustSweeper(t, SweepOptions{Now: at(base.Add(time.Hour)), Bury: bury}).Sweep(ctx))
		if n := d.rows(t); n != 0 || buried.Load() != 3 {
			t.Errorf("%d rows are left, and %d were buried; want 3", n, buried.Load())
		}
		must("Delete", store.Delete(ctx, "a"))
	}
	user := fmt.Sprintf("app%d", tables.Add(1))
	t.Run("postgres", func(t *testing.T) {
		db := sqltest.DB(t, sqltest.PostgreSQL)
		var in string
		if err := db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&in); err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1) // its role is set
		for _, statement := range []string{
			"CREATE TABLE own (id text PRIMARY KEY, value jsonb NOT NULL)", "CREATE ROLE " + user, "GRANT USAGE ON SCHEMA " + in + " TO " + user,
		} {
			mustExec(t, db, PostgreSQL, statement)
		}
		schema(t, db, PostgreSQL, in+".own", user)
		mustExec(t, db, PostgreSQL, "SET ROLE "+user)
		works(t, db, PostgreSQL, in+".own")
		for _, statement := range []string{"RESET ROLE", "DROP OWNED BY " + user, "DROP ROLE " + user} {
			mustExec(t, db, PostgreSQL, statement)
		}
	})
	t.Run("mariadb", func(t *testing.T) {
		name, dsn := sqltest.DSN(t, sqltest.MariaDB)
		root, err := stdsql.Open(name, dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = root.Close() }()
		mustExec(t, root, MySQL, "CREATE TABLE own (id VARBINARY(255) PRIMARY KEY, value JSON NOT NULL)")
		mustExec(t, root, MySQL, "CREATE USER "+user+"@localhost")
		schema(t, root, MySQL, "own", user+"@localhost")
		db, err := stdsql.Open(name, strings.Replace(dsn, "root", user, 1))
		if err != nil {
			t.Fatal(err)
		}
		works(t, db, MySQL, "own")
		_ = db.Close()
		mustExec(t, root, MySQL, "DROP USER "+user+"@localhost")
	})
}

// TestSchema: its statements satisfy Check, for a missing table and for one of the former layout.
// After them it returns none.
func TestSchema(t *testing.T) {
	for name, c := range map[string]struct {
		before map[Dialect]string
		opts   Options[session]
		want   map[Dialect][]string // parts of what is returned
	}{
		"none": {nil, Options[session]{Replaced: true}, map[Dialect][]string{
			PostgreSQL: {`CREATE TABLE`, `WITH (fillfactor = 80)`, `CREATE INDEX "own_sweep_at"`}, MySQL: {"CREATE TABLE"}, SQLite: {"CREATE TABLE"},
		}},
		"deletes": {nil, Options[session]{Deletes: true}, map[Dialect][]string{
			PostgreSQL: {"own_deleted"}, MySQL: {"own_deleted"}, SQLite: {"own_deleted"},
		}},
		"own": {map[Dialect]string{
			PostgreSQL: "CREATE TABLE own (id text PRIMARY KEY, value jsonb, created_at timestamptz DEFAULT now())",
			MySQL:      "CREATE TABLE own (id VARBINARY(255) PRIMARY KEY, value JSON, created_at TIMESTAMP NOT NULL)",
			SQLite:     "CREATE TABLE own (id TEXT PRIMARY KEY, value TEXT, created_at TEXT)",
		}, Options[session]{CreatedAt: TimeColumn{Type: Timestamp}}, map[Dialect][]string{
			PostgreSQL: {`SET (fillfactor = 80)`, `CREATE INDEX CONCURRENTLY`}, MySQL: {"MODIFY `created_at` TIMESTAMP(3)"}, SQLite: {"ADD COLUMN"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
				if c.before != nil {
					mustExec(t, db, dialect, c.before[dialect])
				}
				d, err := New(db, dialect, "own", &c.opts)
				if err != nil {
					t.Fatal(err)
				}
				statements, err := d.Schema(t.Context(), "")
				if err != nil {
					t.Fatal(err)
				}
				for _, part := range c.want[dialect] {
					if !strings.Contains(strings.Join(statements, ";\n"), part) {
						t.Errorf("%q; want %s", statements, part)
					}
				}
				for _, statement := range statements {
					mustExec(t, db, dialect, statement)
				}
				if err := d.Check(t.Context(), time.Hour); err != nil {
					t.Error(err)
				}
				if again, err := d.Schema(t.Context(), ""); err != nil || len(again) != 0 {
					t.Errorf("again: %q, %v", again, err)
				}
			})
		})
	}
}

// TestColumnGrants: a user with rights on the driver's columns alone passes Check if they suffice for
// calls and sweeps too; else Check says so.
func TestColumnGrants(t *testing.T) {
	const own = "(id, created_at, expires_at, sweep_at, version)"
	for name, c := range map[string]struct {
		rights string
		opts   *Options[session]
		passes bool
	}{
		"life only":         {"SELECT " + own + ", INSERT " + own + ", UPDATE " + own + ", DELETE", &Options[session]{LifeOnly: true}, true},
		"without the value": {"SELECT " + own + ", INSERT, UPDATE, DELETE", nil, false},
	} {
		for db, x := range map[string]sqltest.Database{"postgres": sqltest.PostgreSQL, "mariadb": sqltest.MariaDB} {
			t.Run(name+" "+db, func(t *testing.T) {
				client, dsn := sqltest.DSN(t, x)
				root, err := stdsql.Open(client, dsn)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = root.Close() }()
				dialect, user := databases[db].dialect, fmt.Sprintf("part%d", tables.Add(1))
				table := open[session](t, root, dialect, nil).name
				all := []string{"CREATE USER " + user, "GRANT " + c.rights + " ON " + table + " TO " + user, "ALTER TABLE " + table + " MODIFY value JSON NULL"}
				drop, as := []string{"DROP USER " + user}, strings.Replace(dsn, "root@", user+"@", 1)
				if dialect == PostgreSQL {
					all[2] = "ALTER TABLE " + table + " ALTER COLUMN value DROP NOT NULL"
					all = append(all, "GRANT USAGE ON SCHEMA "+dsn[strings.LastIndexByte(dsn, '=')+1:]+" TO "+user)
					drop, as = append([]string{"DROP OWNED BY " + user}, drop...), strings.Replace(dsn, "user=postgres", "user="+user, 1)
				}
				for _, s := range all {
					mustExec(t, root, dialect, s)
				}
				t.Cleanup(func() {
					root, _ := stdsql.Open(client, dsn)
					for _, s := range drop {
						_, _ = root.ExecContext(context.Background(), s)
					}
					_ = root.Close()
				})
				db, err := stdsql.Open(client, as)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = db.Close() }()
				d, err := New(db, dialect, table, c.opts)
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Check(t.Context(), time.Hour); (err == nil) != c.passes || err != nil && !errors.Is(err, driver.ErrInvalid) {
					t.Fatalf("Check: %v", err)
				}
				if !c.passes {
					return
				}
				d.mustInsert(t, "alive", session{}, lasting(100*365*24*time.Hour))
				mustExec(t, root, dialect, "INSERT INTO "+table+" (id, created_at, expires_at, version) VALUES ('dead', 1, 2, 3)")
				for _, o := range []SweepOptions{{}, {Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }}} {
					if err := d.mustSweeper(t, o).Sweep(t.Context()); err != nil {
						t.Error(err)
					}
				}
				if n := d.rows(t); n != 1 {
					t.Errorf("%d rows are left; want 1", n)
				}
			})
		}
	}
}

// TestKeptGrants: Check asks for the rights on the table of Options.Replaced and Options.Deletes, without
// which each delete would fail.
func TestKeptGrants(t *testing.T) {
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	root, err := stdsql.Open(client, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	opts := &Options[session]{Deletes: true}
	made := open(t, root, PostgreSQL, opts)
	user := fmt.Sprintf("kept%d", tables.Add(1))
	for _, s := range []string{"CREATE ROLE " + user + " LOGIN", "GRANT USAGE ON SCHEMA " + dsn[strings.LastIndexByte(dsn, '=')+1:] + " TO " + user, fmt.Sprintf(grant, made.quoted(), user)} {
		mustExec(t, root, PostgreSQL, s)
	}
	db, err := stdsql.Open(client, strings.Replace(dsn, "user=postgres", "user="+user, 1))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	d, err := New(db, PostgreSQL, made.name, opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, rights := range []string{"", "SELECT, UPDATE, DELETE", "SELECT, INSERT, UPDATE", "INSERT, DELETE"} {
		if rights != "" {
			mustExec(t, root, PostgreSQL, "GRANT "+rights+" ON "+made.replacedTable()+" TO "+user)
		}
		if err := d.Check(t.Context(), time.Hour); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("with %q: %v", rights, err)
		}
		mustExec(t, root, PostgreSQL, "REVOKE ALL ON "+made.replacedTable()+" FROM "+user)
	}
	mustExec(t, root, PostgreSQL, fmt.Sprintf(grant, made.replacedTable(), user))
	if err := d.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
	mustExec(t, root, PostgreSQL, "DROP OWNED BY "+user)
	mustExec(t, root, PostgreSQL, "DROP ROLE "+user)
}
