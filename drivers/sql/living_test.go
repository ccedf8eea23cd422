package sql

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestSweepLocksNoLivingRow: a due row that lives can be touched while Bury runs, and while the deletion of dead rows
// waits for rows that go with them.
func TestSweepLocksNoLivingRow(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		if dialect == SQLite {
			return // it has one lock for all rows
		}
		for _, retain := range []time.Duration{0, time.Hour} {
			for _, waits := range []string{"Bury", "Bury's deletion", "deletion"} {
				t.Run(fmt.Sprintf("%s/retain=%s", waits, retain), func(t *testing.T) {
					d := open(t, db, dialect, &Options[session]{Retain: retain})
					now := driver.Floor(d.Now())
					dead, life := int64(now.Add(-3*time.Hour)), driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
					insert := "INSERT INTO " + d.quoted() + " (id, value, created_at, expires_at, sweep_at, version) VALUES (?, '{}', ?, ?, ?, 1)"
					for i := range 40 { // each batch has both
						mustExec(t, db, dialect, insert, fmt.Sprint("dead", i), 1, dead, 2*i)
						mustExec(t, db, dialect, insert, fmt.Sprint("live", i), int64(now), int64(life.ExpiresAt), 2*i+1)
					}
					touch := func() {
						ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a hang
						defer cancel()
						for i := range 40 {
							if t.Failed() {
								return
							}
							to := life
							to.ExpiresAt = life.ExpiresAt.Add(time.Minute)
							if _, err := d.Touch(ctx, fmt.Sprint("live", i), driver.Meta{Life: life, Version: 1}, to, driver.Floor(d.Now())); err != nil {
								t.Errorf("Touch of row %d: %v", i, err)
								return
							}
						}
						life.ExpiresAt = life.ExpiresAt.Add(time.Minute)
					}
					touched := false
					o := SweepOptions{Batch: 10}
					if waits != "deletion" {
						o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }
					}
					if waits == "Bury" {
						o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error {
							touch()
							touched = true
							return nil
						}
					}
					s := d.mustSweeper(t, o)
					sweep := func() error { return s.batches(t.Context(), t.Context(), s.rows) } // one batch at a time
					if waits == "Bury" {
						if err := sweep(); err != nil {
							t.Error(err)
						}
					} else {
						child := d.name + "_child"
						mustExec(t, db, dialect, "CREATE TABLE "+child+" (session "+d.dialect.types().key(defaultMaxKey)+", x INT, FOREIGN KEY (session) REFERENCES "+d.name+" (id) ON DELETE CASCADE)")
						mustExec(t, db, dialect, "INSERT INTO "+child+" VALUES ('dead3', 1)")
						tx, err := db.BeginTx(t.Context(), nil)
						if err == nil {
							_, err = tx.ExecContext(t.Context(), "UPDATE "+child+" SET x = 2")
						}
						if err != nil {
							t.Fatal(err)
						}
						swept := make(chan error, 1)
						go func() { swept <- sweep() }()
						waiting := map[Dialect]string{PostgreSQL: "pg_locks WHERE NOT granted", MySQL: "information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'Innodb_row_lock_current_waits' AND VARIABLE_VALUE > 0"}[dialect]
						for n := 0; n == 0 && len(swept) == 0; {
							if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+waiting).Scan(&n); err != nil {
								t.Fatal(err)
							}
						}
						touch()
						touched = true
						if err := tx.Commit(); err != nil {
							t.Error(err)
						}
						if err := <-swept; err != nil {
							t.Error(err)
						}
					}
					if got := s.Stats(); !touched || got.Deleted != 40 || got.Filed < 40 || got.Skipped != 0 || d.rows(t) != 40 {
						t.Errorf("%+v, %d rows are left", got, d.rows(t))
					}
					var left int
					err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+d.quoted()+" WHERE "+d.Live(life.ExpiresAt-1)).Scan(&left)
					if err != nil || left != 40 {
						t.Errorf("%d rows are as they were touched, %v", left, err)
					}
				})
			}
		}
	})
}

// A sweep that deletes one row of a key of several columns, and files another, waits for no other row's lock.
func TestSweepLocksOneRowAlone(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		if dialect == SQLite {
			return // it has one lock for all rows
		}
		kind := map[Dialect]string{PostgreSQL: "TEXT", MySQL: "VARBINARY(20)"}[dialect]
		mustExec(t, db, dialect, "CREATE TABLE keyed (tenant "+kind+" NOT NULL, id "+kind+" NOT NULL, value TEXT, PRIMARY KEY (tenant, id))")
		d, err := New(db, dialect, "keyed", &Options[session]{Key: Key{
			Columns: []string{"tenant", "id"},
			Split: func(key string) ([]any, error) {
				tenant, id, _ := strings.Cut(key, "/")
				return []any{tenant, id}, nil
			},
			Join: func(columns []string) string { return strings.Join(columns, "/") },
		}})
		if err == nil {
			err = d.EnsureTable(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		now := driver.Floor(d.Now())
		insert := "INSERT INTO " + d.quoted() + " (tenant, id, value, created_at, expires_at, sweep_at, version) VALUES ('t', ?, '{}', ?, ?, ?, 1)"
		for i := range 20 {
			mustExec(t, db, dialect, insert, fmt.Sprint("later", i), int64(now), int64(now.Add(time.Hour)), int64(now.Add(time.Hour)))
		}
		mustExec(t, db, dialect, insert, "due", int64(now), int64(now.Add(time.Hour)), 1)
		mustExec(t, db, dialect, insert, "dead", 1, int64(now.Add(-time.Hour)), 0)
		tx, err := db.BeginTx(t.Context(), nil)
		if err == nil {
			_, err = tx.ExecContext(t.Context(), "UPDATE "+d.quoted()+" SET value = '{}' WHERE tenant = 't' AND id = 'later7'")
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // ends a hang
		defer cancel()
		if err := d.mustSweeper(t, SweepOptions{Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }}).Sweep(ctx); err != nil {
			t.Error(err)
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		var left int
		if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+d.quoted()+" WHERE sweep_at < 2").Scan(&left); err != nil || left > 0 {
			t.Errorf("%d rows are to be looked at again, %v", left, err)
		}
	})
}
