package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestSweepPassesBy: a row that a trigger guards, dead or alive, stops no sweep, and is neither
// buried nor taken again. If only its deletion is refused, its sweep_at is set.
func TestSweepPassesBy(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, buries := range []bool{false, true} {
			for _, events := range [][]string{{"UPDATE", "DELETE"}, {"DELETE"}, {"UPDATE"}} {
				t.Run(fmt.Sprint(strings.Join(events, " "), "/buries=", buries), func(t *testing.T) {
					ctx := t.Context()
					d := open[session](t, db, dialect, nil)
					now := driver.Floor(time.Now())
					insert := "INSERT INTO " + d.quoted() + " (id, value, created_at, expires_at) VALUES (?, '{}', 1, ?)"
					guarded, expires := "guarded", int64(1)
					if len(events) == 1 && events[0] == "UPDATE" { // a sweep files live rows by UPDATE
						expires = int64(now.Add(time.Hour))
					}
					mustExec(t, db, dialect, insert, guarded, expires)
					dead := []string{"a", "b", "c", "x", "y", "z"}
					for _, key := range dead {
						mustExec(t, db, dialect, insert, key, 1)
					}
					if err := guard(ctx, db, d, guarded, events...); err != nil {
						t.Fatal(err)
					}
					var reported []error
					o := SweepOptions{Batch: 3, OnError: func(err error) { reported = append(reported, err) }}
					graves := d.name + "_graves"
					mustExec(t, db, dialect, "CREATE TABLE "+graves+" (id VARCHAR(20))")
					if buries {
						o.Bury = func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) (err error) {
							for _, r := range dead {
								_, failed := tx.ExecContext(ctx, "INSERT INTO "+graves+" VALUES ('"+r.Key+"')")
								err = errors.Join(err, failed)
							}
							return err
						}
					}
					s := d.mustSweeper(t, o)
					for range 2 {
						if err := s.Sweep(ctx); err != nil {
							t.Fatal(err)
						}
						if got := s.Stats(); got.Deleted != 6 || got.Skipped != 1 || d.rows(t) != 1 {
							t.Fatalf("%+v, and %d rows are left", got, d.rows(t))
						}
					}
					var buried []string
					err := each(ctx, db, "SELECT id FROM "+graves+" ORDER BY id", nil, func(scan func(...any) error) error {
						var id string
						err := scan(&id)
						buried = append(buried, id)
						return err
					})
					if err != nil || buries && !slices.Equal(buried, dead) {
						t.Errorf("buried %q, %v", buried, err)
					}
					var invalid *driver.InvalidError
					if len(reported) != 1 || !errors.As(reported[0], &invalid) || invalid.Field != "row" || strings.Contains(reported[0].Error(), "'") {
						t.Errorf("reported %v", reported)
					}
					if held := len(s.held.now()); (held == 1) != (events[0] == "UPDATE") {
						t.Errorf("%d rows are held", held)
					}
					if err := s.Sweep(ctx); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
}

// TestSweepPassesByReference: a row that another table refers to.
func TestSweepPassesByReference(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		if dialect == SQLite {
			db.SetMaxOpenConns(1)
			mustExec(t, db, dialect, "PRAGMA foreign_keys = on")
		}
		for _, key := range []string{"a", "b", "c"} {
			d.mustInsert(t, key, session{}, lasting(time.Minute))
		}
		refers := d.dialect.types().key(defaultMaxKey)
		mustExec(t, db, dialect, "CREATE TABLE orders (session "+refers+", FOREIGN KEY (session) REFERENCES "+d.quoted()+" (id))")
		mustExec(t, db, dialect, "INSERT INTO orders VALUES ('b')")
		s := d.mustSweeper(t, SweepOptions{Now: at(base.Add(time.Hour))})
		for range 2 {
			if err := s.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := s.Stats(); got.Deleted != 2 || got.Skipped != 1 || len(s.held.now()) != 0 {
			t.Errorf("%+v, %d held; want two deleted and one filed", got, len(s.held.now()))
		}
		mustExec(t, db, dialect, "DELETE FROM orders")
		s = d.mustSweeper(t, SweepOptions{Now: at(base.Add(2*time.Hour + skipFor))})
		if err := s.Sweep(ctx); err != nil || d.rows(t) != 0 {
			t.Errorf("a day later: %v, %d rows", err, d.rows(t))
		}
	})
}

// TestHeldRows: they are bounded, held once, and dropped after a day.
func TestHeldRows(t *testing.T) {
	var h heldRows
	keys := make([]rowKey, maxHeld+1)
	for i := range keys {
		keys[i].columns = []any{int64(i / 2), []string{"a", "b"}[i%2]}
	}
	h.now()
	for again := range 2 {
		if known, ok := h.add(keys[:maxHeld]); known != again*maxHeld || !ok || len(h.now()) != maxHeld {
			t.Errorf("%d were held, and are now %d", known, len(h.now()))
		}
	}
	if _, ok := h.add(keys[maxHeld:]); ok {
		t.Error("there is room for more")
	}
	h.since = h.since.Add(-skipFor - time.Second)
	if n := len(h.now()); n != 0 {
		t.Errorf("%d are held after a day", n)
	}
}

// TestSweepPassesByAnyRefusal: a row that a trigger or a reference guards stops no sweep, whatever code the
// refusal has, and whether it ends the statement, the transaction or the commit. All other rows are deleted, buried
// and counted once.
func TestSweepPassesByAnyRefusal(t *testing.T) {
	const raise = "CREATE FUNCTION raises() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF OLD.id = 'guarded' THEN %s; END IF; RETURN COALESCE(NEW, OLD); END $$"
	refer := func(key string) []string {
		return []string{"CREATE TABLE orders (session " + key + " REFERENCES t (id) DEFERRABLE INITIALLY DEFERRED)", "INSERT INTO orders VALUES ('guarded')"}
	}
	lite := func(event, how string) string {
		return "CREATE TRIGGER on_" + event + " BEFORE " + event + " ON t WHEN OLD.id = 'guarded' BEGIN SELECT RAISE(" + how + ", 'guarded'); END"
	}
	for name, c := range map[string]struct {
		db         string
		statements []string
		held       int
	}{
		"postgres state":       {"postgres", []string{fmt.Sprintf(raise, "RAISE 'guarded' USING ERRCODE = 'LH001'"), "CREATE TRIGGER raises BEFORE DELETE ON t FOR EACH ROW EXECUTE FUNCTION raises()"}, 0},
		"postgres assertion":   {"postgres", []string{fmt.Sprintf(raise, "ASSERT false"), "CREATE TRIGGER raises BEFORE DELETE OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION raises()"}, 1},
		"postgres right":       {"postgres", []string{fmt.Sprintf(raise, "RAISE insufficient_privilege"), "CREATE TRIGGER raises BEFORE DELETE OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION raises()"}, 1},
		"postgres deferred":    {"postgres", refer("text"), 0},
		"mariadb number":       {"mariadb", []string{"CREATE TRIGGER raises BEFORE DELETE ON t FOR EACH ROW IF OLD.id = 'guarded' THEN SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 30001; END IF"}, 0},
		"sqlite rollback":      {"sqlite", []string{lite("DELETE", "ROLLBACK")}, 0},
		"sqlite rollbacks":     {"sqlite", []string{lite("DELETE", "ROLLBACK"), lite("UPDATE", "ROLLBACK")}, 1},
		"sqlite abort, update": {"sqlite", []string{lite("DELETE", "ABORT"), lite("UPDATE", "ROLLBACK")}, 1},
		"sqlite fail":          {"sqlite", []string{lite("DELETE", "FAIL")}, 0},
		"sqlite deferred":      {"sqlite", refer("TEXT"), 0},
		"sqlite malformed":     {"sqlite", append(refer("TEXT"), "CREATE TABLE tenants (id)", "CREATE TABLE users (tenant REFERENCES tenants (id))"), 0},
		"sqlite broken": {"sqlite", append(refer("TEXT"), "CREATE TABLE users (id PRIMARY KEY)", "PRAGMA foreign_keys = off",
			"ALTER TABLE t ADD COLUMN owner DEFAULT 'gone' REFERENCES users", "PRAGMA foreign_keys = on"), 0},
	} {
		for _, buries := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/buries=", buries), func(t *testing.T) {
				of := databases[c.db]
				db := sqltest.DB(t, of.server)
				if of.dialect == SQLite {
					db.SetMaxOpenConns(1)
					mustExec(t, db, of.dialect, "PRAGMA foreign_keys = on")
				}
				d, err := New[session](db, of.dialect, "t", nil)
				if err == nil {
					err = d.EnsureTable(t.Context())
				}
				if err != nil {
					t.Fatal(err)
				}
				mustExec(t, db, of.dialect, "CREATE TABLE graves (id VARCHAR(20))")
				insert := "INSERT INTO t (id, value, created_at, expires_at) VALUES (?, '{}', 1, ?)"
				for i := range 40 {
					if i == 13 {
						mustExec(t, db, of.dialect, insert, "guarded", 1)
					}
					mustExec(t, db, of.dialect, insert, fmt.Sprint("dead", i), 1)
				}
				mustExec(t, db, of.dialect, insert, "live", int64(driver.Floor(time.Now()).Add(time.Hour)))
				for _, s := range c.statements {
					mustExec(t, db, of.dialect, s)
				}
				var o SweepOptions
				if buries {
					o.Bury = func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) (err error) {
						for _, r := range dead {
							_, failed := tx.ExecContext(ctx, "INSERT INTO graves VALUES ('"+r.Key+"')")
							err = errors.Join(err, failed)
						}
						return err
					}
				}
				s := d.mustSweeper(t, o)
				for range 2 {
					if err := s.Sweep(t.Context()); err != nil {
						t.Fatal(err)
					}
					if got := s.Stats(); got.Deleted != 40 || got.Filed != 1 || got.Skipped != 1 || d.rows(t) != 2 || len(s.held.now()) != c.held {
						t.Errorf("%+v, %d rows are left, %d held", got, d.rows(t), len(s.held.now()))
					}
				}
				var buried, different int
				err = db.QueryRowContext(t.Context(), "SELECT COUNT(*), COUNT(DISTINCT id) FROM graves").Scan(&buried, &different)
				if err != nil || buries && (buried != 40 || different != 40) {
					t.Errorf("buried %d rows, %d of them different, %v", buried, different, err)
				}
			})
		}
	}
}

// TestSweepPassesByBatches: rows that died first, and are refused by an error of any class, keep no sweep from those that
// died later, although they are more than a batch. Delete of such a row says that it is refused.
func TestSweepPassesByBatches(t *testing.T) {
	raise := func(how string) string { return "IF OLD.id LIKE 'kept%' THEN " + how + "; END IF" }
	for name, c := range map[string]struct{ db, body string }{
		"postgres own":      {"postgres", raise("RAISE 'no'")},
		"postgres 21000":    {"postgres", "PERFORM 1 FROM users WHERE n = (SELECT n FROM users WHERE id = left(OLD.id, 4))"},
		"postgres 22012":    {"postgres", raise("PERFORM 1 / (SELECT 0)")},
		"postgres 42501":    {"postgres", raise("RAISE insufficient_privilege")},
		"postgres 42P01":    {"postgres", raise("INSERT INTO gone VALUES (1)")},
		"postgres 42883":    {"postgres", raise("PERFORM gone()")},
		"postgres 53100":    {"postgres", raise("RAISE disk_full")},
		"postgres 55000":    {"postgres", raise("RAISE object_not_in_prerequisite_state")},
		"postgres 55006":    {"postgres", raise("RAISE object_in_use")},
		"postgres 0A000":    {"postgres", raise("RAISE feature_not_supported")},
		"postgres XX000":    {"postgres", raise("RAISE internal_error")},
		"mariadb own":       {"mariadb", raise("SIGNAL SQLSTATE '45000'")},
		"mariadb 1242":      {"mariadb", "SET @n = (SELECT n FROM users WHERE id = LEFT(OLD.id, 4))"},
		"mariadb 1365":      {"mariadb", "INSERT INTO audit SELECT 100 / n FROM users WHERE id = LEFT(OLD.id, 4)"},
		"mariadb 1690":      {"mariadb", "UPDATE users SET n = n - 1 WHERE id = LEFT(OLD.id, 4)"},
		"mariadb 1142":      {"mariadb", raise("SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1142")},
		"mariadb 1146":      {"mariadb", raise("INSERT INTO gone VALUES (1)")},
		"mariadb 1305":      {"mariadb", raise("SET @n = gone()")},
		"mariadb 1370":      {"mariadb", raise("SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = 1370")},
		"sqlite own":        {"sqlite", "SELECT RAISE(ABORT, 'no') WHERE OLD.id LIKE 'kept%'"},
		"sqlite a function": {"sqlite", "SELECT json_extract('no json', '$') WHERE OLD.id LIKE 'kept%'"},
	} {
		for _, buries := range []bool{false, true} {
			for _, kept := range []int{10, 200} {
				if kept > 10 && !strings.HasSuffix(name, " own") && !strings.HasSuffix(name, "1242") && !strings.HasSuffix(name, "55000") {
					continue
				}
				t.Run(fmt.Sprintf("%s/buries=%v/%d", name, buries, kept), func(t *testing.T) {
					of := databases[c.db]
					db := sqltest.DB(t, of.server)
					d := open[session](t, db, of.dialect, nil)
					mustExec(t, db, of.dialect, "CREATE TABLE users (id VARCHAR(20), n INT "+map[string]string{"mariadb": "UNSIGNED"}[c.db]+")")
					mustExec(t, db, of.dialect, "CREATE TABLE audit (n DECIMAL(10,2))")
					mustExec(t, db, of.dialect, "INSERT INTO users VALUES ('dead', 1000), ('kept', 0)")
					if strings.HasSuffix(name, "21000") || strings.HasSuffix(name, "1242") {
						mustExec(t, db, of.dialect, "INSERT INTO users VALUES ('kept', 1)")
					}
					switch of.dialect {
					case PostgreSQL:
						mustExec(t, db, of.dialect, "CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "+c.body+"; RETURN OLD; END $$")
						mustExec(t, db, of.dialect, "CREATE TRIGGER keeps BEFORE DELETE ON "+d.name+" FOR EACH ROW EXECUTE FUNCTION keeps()")
					case SQLite:
						mustExec(t, db, of.dialect, "CREATE TRIGGER keeps BEFORE DELETE ON "+d.name+" BEGIN "+c.body+"; END")
					default:
						mustExec(t, db, of.dialect, "CREATE TRIGGER keeps BEFORE DELETE ON "+d.name+" FOR EACH ROW "+c.body)
					}
					insert := "INSERT INTO " + d.quoted() + " (id, value, created_at, expires_at, sweep_at) VALUES (?, '{}', 1, ?, ?)"
					for i := range kept + 100 {
						id := fmt.Sprint("kept", i)
						if i >= kept {
							id = fmt.Sprint("dead", i)
						}
						mustExec(t, db, of.dialect, insert, id, 1000+i, 1000+i)
					}
					o := SweepOptions{Batch: 4}
					var buried atomic.Int64
					if buries {
						o.Bury = func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
							buried.Add(int64(len(dead)))
							return nil
						}
					}
					s := d.mustSweeper(t, o)
					err := s.Sweep(t.Context())
					for range 50 { // it looks further on at random
						if kept > triedNext && err != nil {
							err = s.Sweep(t.Context())
						}
					}
					if got := s.Stats(); err != nil || got.Deleted != 100 || got.Skipped < uint64(kept) || got.Skipped > uint64(kept) && !buries || d.rows(t) != kept || buries && buried.Load() < 100 { // two batches at once may skip the same
						t.Errorf("%v, %+v, and %d rows are left; want 100 deleted and %d skipped", err, got, d.rows(t), kept)
					}
					if strings.HasSuffix(name, "53100") || strings.HasSuffix(name, "XX000") { // the server's, which has no name here
						return
					}
					if err := d.Delete(t.Context(), "kept0"); !errors.Is(err, driver.ErrInvalid) && !errors.Is(err, driver.ErrRefused) {
						t.Errorf("Delete of a row that is refused: %v; want %v or %v", err, driver.ErrInvalid, driver.ErrRefused)
					}
				})
			}
		}
	}
}

// TestSweepEndsByTable: a trigger that fails for each row, for a table of its own that is gone, ends the sweep, whatever
// else is due. No row is put off: a sweep after the mend takes all but the guarded one.
func TestSweepEndsByTable(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, guarded := range []int{0, 1} {
			for _, buries := range []bool{false, true} {
				t.Run(fmt.Sprintf("guarded=%d/buries=%v", guarded, buries), func(t *testing.T) {
					d := open[session](t, db, dialect, nil)
					insert := "INSERT INTO " + d.quoted() + " (id, value, created_at, expires_at) VALUES (?, '{}', 1, ?)"
					for i := range 20 {
						mustExec(t, db, dialect, insert, fmt.Sprint("dead", i), 1)
					}
					mustExec(t, db, dialect, insert, "live", int64(driver.Floor(time.Now()).Add(time.Hour)))
					if guarded > 0 {
						mustExec(t, db, dialect, insert, "guarded", 1)
						if err := guard(t.Context(), db, d, "guarded", "DELETE"); err != nil {
							t.Fatal(err)
						}
					}
					name := "audit_" + d.name
					trigger := map[Dialect]string{
						PostgreSQL: "CREATE FUNCTION " + name + "() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO gone VALUES (1); RETURN OLD; END $$; CREATE TRIGGER " + name + " BEFORE DELETE ON " + d.name + " FOR EACH ROW EXECUTE FUNCTION " + name + "()",
						MySQL:      "CREATE TRIGGER " + name + " BEFORE DELETE ON " + d.name + " FOR EACH ROW INSERT INTO gone VALUES (1)",
						SQLite:     "CREATE TRIGGER " + name + " BEFORE DELETE ON " + d.name + " BEGIN INSERT INTO gone VALUES (1); END",
					}[dialect]
					mustExec(t, db, dialect, trigger)
					var o SweepOptions
					if buries {
						o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }
					}
					s := d.mustSweeper(t, o)
					if err, got := s.Sweep(t.Context()), s.Stats(); err == nil || got.Failed != 1 || got.Deleted+got.Skipped > 0 || !s.Through().IsZero() {
						t.Errorf("%v, %+v, through %s; want an error, and no row put off", err, got, s.Through())
					}
					drop := "DROP TRIGGER " + name
					if dialect == PostgreSQL {
						drop += " ON " + d.name
					}
					mustExec(t, db, dialect, drop)
					if err, got := s.Sweep(t.Context()), s.Stats(); err != nil || got.Deleted != 20 || got.Skipped != uint64(guarded) {
						t.Errorf("after the mend: %v, %+v", err, got)
					}
				})
			}
		}
	})
}

// TestSweepPassesByLimit: a row whose deletion takes longer than a limit on time, or on the wait for a lock, allows is
// passed by until the sweep ends, and the others are deleted, in batches that are short enough.
func TestSweepPassesByLimit(t *testing.T) {
	const sleeps = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(CASE OLD.id WHEN 'dead7' THEN 1 ELSE 0.05 END); RETURN OLD; END $$; CREATE TRIGGER slow BEFORE DELETE ON %s FOR EACH ROW EXECUTE FUNCTION slow()"
	for name, c := range map[string]struct {
		db, limit, unlimited string
		locks                string // of the children; empty: each deletion takes a while, and one too long
	}{
		"postgres statement_timeout":        {"postgres", "SET statement_timeout = 600", "SET statement_timeout = 0", ""},
		"postgres lock_timeout":             {"postgres", "SET lock_timeout = 100", "SET lock_timeout = 0", " WHERE session = 'dead7'"},
		"postgres lock_timeout of all":      {"postgres", "SET lock_timeout = 10", "SET lock_timeout = 0", " WHERE 1 = 1"},
		"mariadb max_statement_time":        {"mariadb", "SET max_statement_time = 0.6", "SET max_statement_time = 0", ""},
		"mariadb lock_wait_timeout":         {"mariadb", "SET innodb_lock_wait_timeout = 1", "SET innodb_lock_wait_timeout = 50", " WHERE session = 'dead7'"},
		"mariadb no lock_wait_timeout, all": {"mariadb", "SET innodb_lock_wait_timeout = 0", "SET innodb_lock_wait_timeout = 50", " WHERE 1 = 1"},
	} {
		for _, buries := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/buries=", buries), func(t *testing.T) {
				of := databases[c.db]
				db := sqltest.DB(t, of.server)
				d := open[session](t, db, of.dialect, nil)
				mustExec(t, db, of.dialect, "CREATE TABLE child (session "+d.dialect.types().key(defaultMaxKey)+", x INT, FOREIGN KEY (session) REFERENCES "+d.name+" (id) ON DELETE CASCADE)")
				for i := range 20 {
					mustExec(t, db, of.dialect, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at) VALUES (?, '{}', 1, 1)", fmt.Sprint("dead", i))
					mustExec(t, db, of.dialect, "INSERT INTO child VALUES (?, 1)", fmt.Sprint("dead", i))
				}
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				switch {
				case c.locks != "":
					if _, err := tx.ExecContext(t.Context(), "UPDATE child SET x = 2"+c.locks); err != nil {
						t.Fatal(err)
					}
				case of.dialect == PostgreSQL:
					mustExec(t, db, of.dialect, fmt.Sprintf(sleeps, d.name))
				default:
					mustExec(t, db, of.dialect, "CREATE TRIGGER slow BEFORE DELETE ON "+d.name+" FOR EACH ROW SET @slept = SLEEP(IF(OLD.id = 'dead7', 1, 0.05))")
				}
				d.db.SetMaxOpenConns(2) // tx's, and the sweeper's, which the settings are of
				mustExec(t, db, of.dialect, c.limit)
				var reported error
				o := SweepOptions{OnError: func(err error) { reported = err }}
				if buries {
					o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }
				}
				s := d.mustSweeper(t, o)
				err, got := s.Sweep(t.Context()), s.Stats()
				if all := strings.Contains(name, "all"); all && (err == nil || got.Deleted > 0) {
					t.Errorf("%v, %+v; want an error: none can be deleted", err, got)
				} else if !all && (err != nil || got != (SweepStats{Deleted: 19, Skipped: 1}) || !s.table.outOfTime(reported)) {
					t.Errorf("%v, %+v, %v; want one row to be passed by", err, got, reported)
				}
				if err := tx.Rollback(); err != nil {
					t.Error(err)
				}
				db.SetMaxOpenConns(1)
				mustExec(t, db, of.dialect, c.unlimited)
				if err, got := s.Sweep(t.Context()), s.Stats(); err != nil || got.Deleted != 20 {
					t.Errorf("without the limit: %v, %+v", err, got)
				}
			})
		}
	}
}

// TestSweepEndsByBury: work of Bury's that SQLite refuses at COMMIT ends the sweep, like any that fails.
func TestSweepEndsByBury(t *testing.T) {
	for _, violated := range []int{0, 1} { // before, by others
		db := sqltest.DB(t, sqltest.SQLite)
		db.SetMaxOpenConns(1)
		d := open[session](t, db, SQLite, nil)
		mustExec(t, db, SQLite, "CREATE TABLE tenants (id TEXT PRIMARY KEY)")
		mustExec(t, db, SQLite, "CREATE TABLE graves (tenant TEXT REFERENCES tenants DEFERRABLE INITIALLY DEFERRED)")
		mustExec(t, db, SQLite, "CREATE TABLE orders (session TEXT REFERENCES "+d.name+" DEFERRABLE INITIALLY DEFERRED)")
		for i := range 10 {
			mustExec(t, db, SQLite, "INSERT INTO "+d.name+" (id, value, created_at, expires_at, sweep_at) VALUES (?, '{}', 1, 1, ?)", fmt.Sprint("dead", i), i)
		}
		for range violated {
			mustExec(t, db, SQLite, "INSERT INTO orders VALUES ('nobody')")
		}
		mustExec(t, db, SQLite, "INSERT INTO orders VALUES ('dead3')")
		mustExec(t, db, SQLite, "PRAGMA foreign_keys = on")
		s := d.mustSweeper(t, SweepOptions{Bury: func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO graves VALUES ('late')")
			return err
		}})
		if err, got := s.Sweep(t.Context()), s.Stats(); err == nil || got != (SweepStats{Failed: 1}) {
			t.Errorf("%v, %+v; want an error, and no row put off", err, got)
		}
		mustExec(t, db, SQLite, "INSERT INTO tenants VALUES ('late')")
		if err, got := s.Sweep(t.Context()), s.Stats(); err != nil || got != (SweepStats{Failed: 1, Deleted: 9, Skipped: 1}) {
			t.Errorf("after the mend: %v, %+v; want all but the row that an order refers to", err, got)
		}
	}
}

// TestSweepPassesByOwnState: a SQLSTATE of a trigger's own is about the row, also if all due rows have it.
func TestSweepPassesByOwnState(t *testing.T) {
	for name, create := range map[string]string{
		"postgres": "CREATE OR REPLACE FUNCTION own() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'held' USING ERRCODE = '%[3]s'; END $$; CREATE TRIGGER own BEFORE %[1]s ON %[2]s FOR EACH ROW EXECUTE FUNCTION own()",
		"mariadb":  "CREATE TRIGGER own_%[2]s BEFORE %[1]s ON %[2]s FOR EACH ROW SIGNAL SQLSTATE '%[3]s' SET MYSQL_ERRNO = 5001",
	} {
		t.Run(name, func(t *testing.T) {
			dialect := databases[name].dialect
			db := sqltest.DB(t, databases[name].server)
			for _, state := range []string{"99001", "5X001", "AB001", "LH001", "P0001", "45000"} {
				d := open[session](t, db, dialect, nil)
				for i := range 2 {
					mustExec(t, db, dialect, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at) VALUES (?, '{}', 1, 1)", fmt.Sprint("dead", i))
				}
				mustExec(t, db, dialect, fmt.Sprintf(create, "DELETE", d.name, state))
				s := d.mustSweeper(t, SweepOptions{})
				if err, got := s.Sweep(t.Context()), s.Stats(); err != nil || got != (SweepStats{Skipped: 2}) {
					t.Errorf("%s: %v, %+v; want two rows to be skipped", state, err, got)
				}
				d = open[session](t, db, dialect, nil)
				mustExec(t, db, dialect, fmt.Sprintf(create, "INSERT", d.name, state))
				if _, err := d.Insert(t.Context(), "k", session{}, lasting(time.Hour), base); !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("%s: Insert: %v; want %v", state, err, driver.ErrInvalid)
				}
			}
		})
	}
}

// taking counts the queries for lives of rows to sweep.
type taking struct {
	dialect
	lives *int
}

func (d taking) take(columns, own, from string) string {
	if strings.Contains(columns, "expires_at") {
		*d.lives++
	}
	return d.dialect.take(columns, own, from)
}

// TestSweepUnseen: without Bury, a batch is one statement for the dead rows and one for the
// others, and only rows that are left over are read.
func TestSweepUnseen(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		for i := range 30 {
			d.mustInsert(t, fmt.Sprint(i), session{}, lasting(time.Minute))
		}
		mustExec(t, db, dialect, "INSERT INTO "+d.quoted()+" (id, value, expires_at) VALUES ('alive', '{}', ?)", int64(base.Add(2*time.Hour)))
		lives := 0
		d.setDialect(taking{d.dialect, &lives})
		s := d.mustSweeper(t, SweepOptions{Batch: 10, Now: at(base.Add(time.Hour))})
		if err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := 2 // the last queries, which find none that are due, or parked
		if dialect == MySQL {
			want = 10 // with those of the dead
		}
		if got := s.Stats(); got.Deleted != 30 || got.Filed != 1 || d.rows(t) != 1 || lives != want {
			t.Errorf("%+v, rows were taken %d times, and %d are left", got, lives, d.rows(t))
		}
	})
}

// keep makes triggers by which rows whose key begins with "kept" silently stay as they are.
func keep(t *testing.T, db *stdsql.DB, d *Driver[session], events ...string) {
	t.Helper()
	for _, event := range events {
		name := "keep_" + d.name + "_" + event
		switch d.dialect.(type) {
		case postgres:
			mustExec(t, db, PostgreSQL, "CREATE OR REPLACE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$")
			mustExec(t, db, PostgreSQL, "CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+" FOR EACH ROW WHEN (OLD.id LIKE 'kept%') EXECUTE FUNCTION kept()")
		case mysql: // which has no such trigger for DELETE
			mustExec(t, db, MySQL, "CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+" FOR EACH ROW IF OLD.id LIKE 'kept%' THEN SET NEW.sweep_at = OLD.sweep_at; END IF")
		default:
			mustExec(t, db, SQLite, "CREATE TRIGGER "+name+" BEFORE "+event+" ON "+d.quoted()+" WHEN OLD.id LIKE 'kept%' BEGIN SELECT RAISE(IGNORE); END")
		}
	}
}

// TestPassedByOnce: a batch that has read a row before another one passed it by does not count it again.
func TestPassedByOnce(t *testing.T) {
	db := sqltest.DB(t, sqltest.PostgreSQL)
	d := open[session](t, db, PostgreSQL, nil)
	mustExec(t, db, PostgreSQL, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at, sweep_at) VALUES ('kept', '{}', 1, 1, 2)")
	keep(t, db, d, "DELETE")
	s := d.mustSweeper(t, SweepOptions{Now: at(base), Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }})
	for range 2 {
		if _, err := s.batch(t.Context(), 3, s.again([]rowKey{{columns: []any{"kept"}}})); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Stats(); got.Skipped != 1 {
		t.Errorf("%+v; want 1 skipped", got)
	}
}

// TestSweepPassesByKept: rows that a trigger keeps without an error, as for a legal hold, stop no
// sweep, although they are more than a batch. They are neither counted as deleted nor buried, and
// looked at a day later.
func TestSweepPassesByKept(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, buries := range []bool{false, true} {
			for _, events := range [][]string{{"DELETE"}, {"UPDATE", "DELETE"}, {"UPDATE"}} {
				if dialect == MySQL && events[len(events)-1] == "DELETE" {
					continue
				}
				t.Run(fmt.Sprint(strings.Join(events, " "), "/buries=", buries), func(t *testing.T) {
					d := open[session](t, db, dialect, nil)
					insert := "INSERT INTO " + d.quoted() + " (id, value, created_at, expires_at, sweep_at) VALUES (?, '{}', 1, ?, ?)"
					updates, expires := events[0] == "UPDATE", int64(1)
					if updates && len(events) == 1 { // a sweep files live rows by UPDATE
						expires = int64(base.Add(100 * time.Hour))
					}
					for i := range 4 {
						mustExec(t, db, dialect, insert, fmt.Sprint("kept", i), expires, 2+i)
					}
					mustExec(t, db, dialect, insert, "first", 1, 1) // is in one batch with kept rows
					for i := range 10 {
						mustExec(t, db, dialect, insert, fmt.Sprint("dead", i), 1, 10+i)
					}
					keep(t, db, d, events...)
					graves := d.name + "_graves"
					mustExec(t, db, dialect, "CREATE TABLE "+graves+" (id VARCHAR(20))")
					buried := func() (n int) {
						if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+graves).Scan(&n); err != nil {
							t.Fatal(err)
						}
						return n
					}
					now, reported := base, []error(nil)
					var mu sync.Mutex // guards reported: two batches run at once
					o := SweepOptions{Batch: 3, Now: func() time.Time { return time.UnixMilli(int64(now)) }, OnError: func(err error) {
						mu.Lock()
						defer mu.Unlock()
						reported = append(reported, err)
					}}
					if buries {
						o.Bury = func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) (err error) {
							for _, r := range dead {
								_, failed := tx.ExecContext(ctx, "INSERT INTO "+graves+" VALUES ('"+r.Key+"')")
								err = errors.Join(err, failed)
							}
							return err
						}
					}
					s := d.mustSweeper(t, o)
					within, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends a hang
					defer cancel()
					for _, skipped := range []uint64{4, 4, 8} {
						if skipped == 8 { // a day later
							now = now.Add(skipFor + time.Hour)
							s.held.since = s.held.since.Add(-skipFor - time.Second)
						}
						if err := s.Sweep(within); err != nil {
							t.Fatal(err)
						}
						if got := s.Stats(); got.Deleted != 11 || got.Filed != 0 || got.Skipped != skipped || d.rows(t) != 4 {
							t.Errorf("%+v, and %d rows are left; want 11 deleted and %d skipped", got, d.rows(t), skipped)
						}
						if n := buried(); buries && n != 11 {
							t.Errorf("buried %d rows; want 11", n)
						}
						if held := len(s.held.now()); (held == 4) != updates {
							t.Errorf("%d rows are held", held)
						}
					}
					if len(reported) == 0 || !strings.Contains(reported[0].Error(), "trigger") {
						t.Errorf("reported %v", reported)
					}
				})
			}
		}
	})
}

// TestSweepPassesByNull: rows that SQLite stores without a key cannot be named.
func TestSweepPassesByNull(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	for _, buries := range []bool{false, true} {
		d := open[session](t, db, SQLite, nil)
		mustExec(t, db, SQLite, "DROP TABLE "+d.quoted())
		mustExec(t, db, SQLite, "CREATE TABLE "+d.quoted()+" (id TEXT PRIMARY KEY, value TEXT, created_at INTEGER, expires_at INTEGER, sweep_at INTEGER DEFAULT 0, version INTEGER)")
		for i := range 10 {
			mustExec(t, db, SQLite, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at, sweep_at) VALUES (?, '{}', 1, 1, ?)", map[bool]any{true: fmt.Sprint(i)}[i > 3], i)
		}
		o := SweepOptions{Batch: 3}
		if buries {
			o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }
		}
		s := d.mustSweeper(t, o)
		if err := s.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.Stats(); got.Deleted != 6 || got.Skipped == 0 || d.rows(t) != 4 {
			t.Errorf("%+v, and %d rows are left", got, d.rows(t))
		}
	}
}

// TestSweepEndsByUnequalKey: a row whose key does not equal itself is taken again although it is
// passed by. This ends the sweep with an error.
func TestSweepEndsByUnequalKey(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	d := open[session](t, db, SQLite, nil)
	mustExec(t, db, SQLite, "DROP TABLE "+d.quoted())
	mustExec(t, db, SQLite, "CREATE TABLE "+d.quoted()+" (id DATE PRIMARY KEY, value TEXT, created_at INTEGER, expires_at INTEGER, sweep_at INTEGER DEFAULT 0, version INTEGER)")
	mustExec(t, db, SQLite, "INSERT INTO "+d.quoted()+" (id, value, created_at, expires_at) VALUES ('2020-01-01', '{}', 1, 1)")
	s := d.mustSweeper(t, SweepOptions{Bury: func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }})
	if err := s.Sweep(t.Context()); !errors.Is(err, errKept) {
		t.Errorf("%v; want %v", err, errKept)
	}
	if got := s.Stats(); got.Deleted != 0 || got.Skipped != 1 || got.Failed != 1 {
		t.Errorf("%+v", got)
	}
}

// TestSweepCascades: rows that go with others of their batch, by ON DELETE CASCADE, are buried and
// counted like these, also beside rows that the table refuses to delete.
func TestSweepCascades(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		for _, guarded := range []int{0, 1} {
			for _, buries := range []bool{true, false} {
				t.Run(fmt.Sprintf("guarded=%d/buries=%v", guarded, buries), func(t *testing.T) {
					d := open[session](t, db, dialect, nil)
					if dialect == SQLite {
						db.SetMaxOpenConns(1)
						mustExec(t, db, dialect, "PRAGMA foreign_keys = on")
					}
					key := strings.TrimSuffix(d.dialect.types().key(defaultMaxKey), " NOT NULL")
					mustExec(t, db, dialect, "DROP TABLE "+d.name)
					mustExec(t, db, dialect, "CREATE TABLE "+d.name+" (id "+key+" NOT NULL PRIMARY KEY, value "+d.dialect.types().value+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT, parent "+key+
						", FOREIGN KEY (parent) REFERENCES "+d.name+" (id) ON DELETE CASCADE)")
					insert := "INSERT INTO " + d.name + " (id, value, created_at, expires_at, parent) VALUES (?, '{}', 1, 1, "
					for i := range 10 {
						mustExec(t, db, dialect, insert+"NULL)", fmt.Sprint("a", i))
						mustExec(t, db, dialect, insert+"?)", fmt.Sprint("b", i), fmt.Sprint("a", i))
					}
					if guarded > 0 {
						mustExec(t, db, dialect, insert+"NULL)", "guarded")
						if err := guard(t.Context(), db, d, "guarded", "DELETE"); err != nil {
							t.Fatal(err)
						}
					}
					graves := d.name + "_graves"
					mustExec(t, db, dialect, "CREATE TABLE "+graves+" (id VARCHAR(20))")
					var reported error
					o := SweepOptions{OnError: func(err error) { reported = err }}
					if buries {
						o.Bury = func(ctx context.Context, tx *stdsql.Tx, dead []driver.Dead) (err error) {
							for _, r := range dead {
								_, failed := tx.ExecContext(ctx, "INSERT INTO "+graves+" VALUES ('"+r.Key+"')")
								err = errors.Join(err, failed)
							}
							return err
						}
					}
					s := d.mustSweeper(t, o)
					// Not by Sweep, of whose two batches at once one may cascade into the other.
					if err := s.batches(t.Context(), t.Context(), s.rows); err != nil {
						t.Fatal(err)
					}
					want := uint64(20)
					if dialect == SQLite && !buries { // which counts none of those that go with others, and are not read
						want = 10
					}
					if got := s.Stats(); got.Deleted != want || got.Skipped != uint64(guarded) || d.rows(t) != guarded || guarded == 0 && reported != nil {
						t.Errorf("%+v, %d rows are left, %v", got, d.rows(t), reported)
					}
					var n int
					if err := db.QueryRowContext(t.Context(), "SELECT COUNT(DISTINCT id) FROM "+graves).Scan(&n); err != nil || buries && n != 20 {
						t.Errorf("%d lives are buried, %v; want 20", n, err)
					}
				})
			}
		}
	})
}

// TestSweepCascadesToLiving: a living or retained row that goes with a dead one, by the reference of its own,
// stops no sweep.
func TestSweepCascadesToLiving(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		if dialect == SQLite {
			db.SetMaxOpenConns(1)
			mustExec(t, db, dialect, "PRAGMA foreign_keys = on")
		}
		for _, retain := range []time.Duration{0, time.Hour} {
			for _, buries := range []bool{true, false} {
				for _, guarded := range []int{0, 1} {
					t.Run(fmt.Sprintf("retain=%s/buries=%v/guarded=%d", retain, buries, guarded), func(t *testing.T) {
						d := open(t, db, dialect, &Options[session]{Retain: retain})
						key := strings.TrimSuffix(d.dialect.types().key(defaultMaxKey), " NOT NULL")
						mustExec(t, db, dialect, "DROP TABLE "+d.name)
						mustExec(t, db, dialect, "CREATE TABLE "+d.name+" (id "+key+" NOT NULL PRIMARY KEY, value "+d.dialect.types().value+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT, parent "+key+
							", FOREIGN KEY (parent) REFERENCES "+d.name+" (id) ON DELETE CASCADE)")
						insert := "INSERT INTO " + d.name + " (id, value, created_at, expires_at, parent) VALUES (?, '{}', 1, ?, ?)"
						dead, child := int64(base), int64(base.Add(10*time.Hour))
						if retain > 0 {
							child = int64(base.Add(2*time.Hour - time.Minute))
						}
						mustExec(t, db, dialect, insert, "parent", dead, nil)
						mustExec(t, db, dialect, insert, "child", child, "parent")
						for i := range 10 {
							mustExec(t, db, dialect, insert, fmt.Sprint("dead", i), dead, nil)
						}
						if guarded > 0 {
							mustExec(t, db, dialect, insert, "guarded", dead, nil)
							if err := guard(t.Context(), db, d, "guarded", "DELETE"); err != nil {
								t.Fatal(err)
							}
						}
						var reported error
						o := SweepOptions{Now: at(base.Add(2 * time.Hour)), OnError: func(err error) { reported = err }}
						if buries {
							o.Bury = func(context.Context, *stdsql.Tx, []driver.Dead) error { return nil }
						}
						s := d.mustSweeper(t, o)
						for range 2 {
							if err := s.batches(t.Context(), t.Context(), s.rows); err != nil {
								t.Fatal(err)
							}
						}
						if got := s.Stats(); got.Deleted != 11 || got.Skipped != uint64(guarded) || got.Filed > 1 || d.rows(t) != guarded || guarded == 0 && reported != nil {
							t.Errorf("%+v, %d rows are left, %v", got, d.rows(t), reported)
						}
					})
				}
			}
		}
	})
}
