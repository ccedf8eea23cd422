package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// TestGrants: all calls of the driver work with the rights that the README names.
func TestGrants(t *testing.T) {
	const rights = "SELECT, INSERT, UPDATE, DELETE"
	works := func(t *testing.T, db *stdsql.DB, dialect Dialect, table string) {
		t.Helper()
		ctx := t.Context()
		d, err := New[session](db, dialect, table, nil)
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
		must("Sweep", d.mustSweeper(t, SweepOptions{Now: func() time.Time { return time.Now().Add(time.Minute) }}).Sweep(ctx))
		if n := d.rows(t); n != 0 {
			t.Errorf("%d rows are left", n)
		}
		must("Delete", store.Delete(ctx, "a"))
	}
	user := fmt.Sprintf("app%d", tables.Add(1))
	t.Run("postgres", func(t *testing.T) {
		db := sqltest.DB(t, sqltest.PostgreSQL)
		d := open[session](t, db, PostgreSQL, nil)
		var schema string
		if err := db.QueryRowContext(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
			t.Fatal(err)
		}
		db.SetMaxOpenConns(1) // whose role is set
		for _, statement := range []string{
			"CREATE ROLE " + user, "GRANT USAGE ON SCHEMA " + schema + " TO " + user,
			"GRANT " + rights + " ON " + d.quoted() + " TO " + user, "SET ROLE " + user,
		} {
			mustExec(t, db, PostgreSQL, statement)
		}
		works(t, db, PostgreSQL, d.name)
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
		d := open[session](t, root, MySQL, nil)
		mustExec(t, root, MySQL, "CREATE USER "+user+"@localhost")
		mustExec(t, root, MySQL, "GRANT "+rights+" ON "+d.quoted()+" TO "+user+"@localhost")
		db, err := stdsql.Open(name, strings.Replace(dsn, "root", user, 1))
		if err != nil {
			t.Fatal(err)
		}
		works(t, db, MySQL, d.name)
		_ = db.Close()
		mustExec(t, root, MySQL, "DROP USER "+user+"@localhost")
	})
}
