package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "modernc.org/sqlite"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestLostTransaction: a call in a transaction that lost to another is ErrConflict, and so is each
// later one. Nothing of the transaction stays, though MySQL has ended it without a word to its client.
func TestLostTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		server sqltest.Database
		param  string
		level  stdsql.IsolationLevel
		first  func(ctx context.Context, s *slidingttl.Store[session]) error
	}{
		"mariadb": {sqltest.MariaDB, "?innodb_snapshot_isolation=ON", 0, func(ctx context.Context, s *slidingttl.Store[session]) error {
			_, err := s.Get(ctx, "a")
			return err
		}},
		"mariadb, many": {sqltest.MariaDB, "?innodb_snapshot_isolation=ON", 0, func(ctx context.Context, s *slidingttl.Store[session]) error {
			_, err := s.GetMulti(ctx, []string{"a"})
			return err
		}},
		"postgres": {sqltest.PostgreSQL, "", stdsql.LevelRepeatableRead, func(ctx context.Context, s *slidingttl.Store[session]) error {
			_, err := s.Update(ctx, "a", func(v session) (session, error) { return v, nil })
			return err
		}},
		"sqlite": {sqltest.SQLite, "", 0, func(ctx context.Context, s *slidingttl.Store[session]) error {
			_, err := s.Get(ctx, "a")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			client, dsn := sqltest.DSN(t, c.server)
			db, err := stdsql.Open(client, dsn+c.param)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			dialect := map[sqltest.Database]Dialect{sqltest.MariaDB: MySQL, sqltest.PostgreSQL: PostgreSQL, sqltest.SQLite: SQLite}[c.server]
			d := open[session](t, db, dialect, nil)
			mustExec(t, db, dialect, "CREATE TABLE orders (item varchar(10))")
			s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(context.Background()) }()
			if err := s.Upsert(t.Context(), "a", session{"ann"}); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(t.Context(), &stdsql.TxOptions{Isolation: c.level})
			if err != nil {
				t.Fatal(err)
			}
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+d.quoted()).Scan(&n); err != nil {
				t.Fatal(err)
			}
			order := func() error {
				_, err := tx.ExecContext(t.Context(), "INSERT INTO orders VALUES ('one')")
				return err
			}
			if dialect != SQLite { // which it would have to lock
				if err := order(); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Upsert(t.Context(), "a", session{"bob"}); err != nil {
				t.Fatal(err)
			}
			in := WithTx(t.Context(), tx)
			if err := c.first(in, s); !errors.Is(err, slidingttl.ErrConflict) || errors.Is(err, slidingttl.ErrAmbiguous) {
				t.Errorf("the call that lost: %v; want ErrConflict", err)
			}
			if err := s.Insert(in, "b", session{}); !errors.Is(err, slidingttl.ErrConflict) {
				t.Errorf("a call after it: %v; want ErrConflict", err)
			}
			if err := order(); err == nil {
				t.Error("a statement after it, in no transaction")
			}
			if err := tx.Commit(); err == nil && dialect != SQLite {
				t.Error("Commit of a transaction that is lost")
			}
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM orders").Scan(&n); err != nil || n != 0 {
				t.Errorf("%d orders, %v; want none", n, err)
			}
			if _, err := s.Get(t.Context(), "b"); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Get of what was lost: %v", err)
			}
		})
	}
}

// TestLostRead: PostgreSQL's level serializable refuses a single SELECT that saw one of two transactions
// which saw not each other. The read is made again.
func TestLostRead(t *testing.T) {
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	db, err := stdsql.Open(client, dsn+" default_transaction_isolation=serializable")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	base := open[session](t, db, PostgreSQL, nil)
	for _, s := range []string{
		"CREATE TABLE batch (n int)", "INSERT INTO batch VALUES (1)",
		"CREATE FUNCTION gate() RETURNS int LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_lock_shared(1); PERFORM pg_advisory_unlock_shared(1); RETURN 1; END $$",
		// Its rows are read after the gate, with a snapshot from before it.
		"CREATE VIEW gated AS SELECT r.* FROM (SELECT gate() AS n OFFSET 0) g CROSS JOIN LATERAL (SELECT * FROM " + base.name + " WHERE g.n = 1 OFFSET 0) r",
	} {
		mustExec(t, db, PostgreSQL, s)
	}
	d, err := New[session](db, PostgreSQL, "gated", nil)
	if err != nil {
		t.Fatal(err)
	}
	base.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
	for name, read := range map[string]func(ctx context.Context) error{
		"Get": func(ctx context.Context) error { _, err := d.Get(ctx, "a"); return err },
		"GetMulti": func(ctx context.Context) error {
			found, err := d.GetMulti(ctx, []string{"a"})
			if err == nil && len(found) != 1 {
				return driver.ErrNotFound
			}
			return err
		},
		"Scan":    func(ctx context.Context) error { _, err := d.Scan(ctx, driver.EncodeCursor(span{}), 10); return err },
		"Backlog": func(ctx context.Context) error { _, _, err := d.Backlog(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			do := func(_ any, err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			gate, err := db.Conn(ctx)
			do(nil, err)
			defer func() { _ = gate.Close() }()
			do(gate.ExecContext(ctx, "SELECT pg_advisory_lock(1)"))
			writes, err := db.BeginTx(ctx, nil)
			do(nil, err)
			do(writes.ExecContext(ctx, "SELECT * FROM batch"))
			do(writes.ExecContext(ctx, "UPDATE "+base.name+" SET version = version + 1"))
			do(db.ExecContext(ctx, "UPDATE batch SET n = n + 1"))
			got := make(chan error, 1)
			go func() { got <- read(ctx) }()
			for waits := 0; waits == 0; {
				do(nil, db.QueryRowContext(ctx, "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").Scan(&waits))
			}
			do(nil, writes.Commit())
			do(gate.ExecContext(ctx, "SELECT pg_advisory_unlock(1)"))
			if err := <-got; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestLostLockWait: whether MySQL ends a transaction that waited too long for a lock depends on
// innodb_rollback_on_timeout. So such a transaction is lost at any setting.
func TestLostLockWait(t *testing.T) {
	client, dsn := sqltest.DSN(t, sqltest.MariaDB)
	db, err := stdsql.Open(client, dsn+"?innodb_lock_wait_timeout=0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	d := open[session](t, db, MySQL, nil)
	d.mustInsert(t, "a", session{"ann"}, lasting(time.Hour))
	other, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = other.ExecContext(t.Context(), "SELECT * FROM "+d.name+" WHERE id = 'a' FOR UPDATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Rollback() }()
	for name, waits := range map[string]func(context.Context) error{
		"Get":    func(in context.Context) error { _, err := d.Get(in, "a"); return err },
		"Delete": func(in context.Context) error { return d.Delete(in, "a") },
	} {
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := WithTx(t.Context(), tx)
		if _, err := d.Insert(in, name, session{}, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
		if err := waits(in); !errors.Is(err, driver.ErrConflict) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%s of a locked row: %v; want ErrConflict", name, err)
		}
		if err := tx.Commit(); err == nil {
			t.Errorf("%s: Commit of a transaction that may be lost", name)
		}
		if _, err := d.Get(t.Context(), name); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("%s: Get of what was lost: %v", name, err)
		}
	}
	if err := d.Delete(t.Context(), "a"); err == nil || errors.Is(err, driver.ErrConflict) {
		t.Errorf("outside of a transaction: %v; want the server's own", err)
	}
}

// TestUniqueValue: an update of what PostgreSQL locks as a key waits for a transaction that has referred to the
// row by a foreign key, without holding what that transaction then needs. An update of other columns does not
// wait, nor does a touch that lowers the expiry.
func TestUniqueValue(t *testing.T) {
	type link struct {
		Token string `json:"token"`
	}
	db := sqltest.DB(t, sqltest.PostgreSQL)
	row := Options[link]{Row: Row[link]{Columns: []string{"token"}, Fields: func(l *link) []any { return []any{&l.Token} }}}
	for _, c := range []struct {
		columns, index string
		opts           Options[link]
		waits          bool
	}{
		{"token text UNIQUE", "", row, true},
		{"token text UNIQUE DEFERRABLE", "", row, true},
		{"value jsonb, token text GENERATED ALWAYS AS (value->>'token') STORED UNIQUE", "", Options[link]{}, true},
		{"token text, folded text GENERATED ALWAYS AS (lower(token)) STORED UNIQUE", "", row, true},
		{"token text", "CREATE UNIQUE INDEX ON %s (token); UPDATE pg_index SET indisvalid = false WHERE indrelid = '%[1]s'::regclass AND NOT indisprimary AND indisunique", row, true},
		{"value jsonb", "CREATE UNIQUE INDEX ON %[1]s (id, created_at); CREATE FUNCTION same() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$; CREATE TRIGGER same BEFORE UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION same()", Options[link]{}, false},
		{"token text", "", row, false},
		{"token text, other text UNIQUE", "", row, false},
		{"token text", "CREATE UNIQUE INDEX ON %s (token) WHERE token <> ''", row, false},
		{"token text", "CREATE UNIQUE INDEX ON %s (lower(token))", row, false},
		{"token text", "CREATE UNIQUE INDEX ON %s (id) INCLUDE (token)", row, false},
	} {
		name := fmt.Sprintf("t%d", tables.Add(1))
		mustExec(t, db, PostgreSQL, `CREATE TABLE `+name+` (id text COLLATE "C" PRIMARY KEY, `+c.columns+`, note text, created_at bigint, expires_at bigint, sweep_at bigint NOT NULL DEFAULT 0, version bigint)`)
		mustExec(t, db, PostgreSQL, "CREATE INDEX ON "+name+" (sweep_at)")
		mustExec(t, db, PostgreSQL, "CREATE TABLE "+name+"_orders (link text REFERENCES "+name+" (id))")
		if c.index != "" {
			mustExec(t, db, PostgreSQL, fmt.Sprintf(c.index, name))
		}
		d, err := New(db, PostgreSQL, name, &c.opts)
		if err == nil {
			err = d.Check(t.Context(), time.Hour)
		}
		if err != nil {
			t.Fatal(err)
		}
		was := d.mustInsert(t, "a", link{"old"}, lasting(time.Hour))
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		in := func(statement string) {
			t.Helper()
			if _, err := tx.ExecContext(t.Context(), statement); err != nil {
				t.Errorf("%s %s, %s: %v", c.columns, c.index, statement, err)
			}
		}
		in("SET LOCAL deadlock_timeout = '10ms'") // it is the first to look for one
		in("INSERT INTO " + name + "_orders VALUES ('a')")
		updated := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // ends a hang
			defer cancel()
			var err error
			if strings.Contains(c.index, "TRIGGER") { // for which the row is locked by the columns that a statement names
				_, err = d.Touch(ctx, "a", was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt - 1}, base)
			} else {
				_, err = d.Replace(ctx, "a", link{"new"}, was, was.Life, base)
			}
			updated <- err
		}()
		if !c.waits {
			if err := <-updated; err != nil {
				t.Errorf("%s %s: %v", c.columns, c.index, err)
			}
			_ = tx.Rollback()
			continue
		}
		for waits := 0; waits == 0; {
			if err := db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM pg_locks WHERE NOT granted").Scan(&waits); err != nil {
				t.Fatal(err)
			}
		}
		in("UPDATE " + name + " SET note = 'x' WHERE id = 'a'")
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if err := <-updated; err != nil {
			t.Error(err)
		}
	}
}

// cancelSlow is called by cancels() in SQLite.
var (
	cancelSlow      context.CancelFunc
	registerCancels = sync.OnceFunc(func() {
		sqlite3.MustRegisterScalarFunction("cancels", 0, func(*sqlite3.FunctionContext, []sqldriver.Value) (sqldriver.Value, error) {
			cancelSlow()
			return int64(1), nil
		})
	})
)

// TestEndedTransaction: SQLite ends a transaction whose write is interrupted, or refused by a constraint
// that says so, and would commit what follows by itself.
func TestEndedTransaction(t *testing.T) {
	registerCancels()
	type link struct{ Token string }
	for name, c := range map[string]struct {
		unique string
		token  string // of the second record
		want   error
		stands bool
	}{
		"interrupted":       {"", "slow", context.Canceled, false},
		"unique":            {"UNIQUE", "first", slidingttl.ErrInvalid, true},
		"unique, rollback":  {"UNIQUE ON CONFLICT ROLLBACK", "first", slidingttl.ErrInvalid, false},
		"trigger":           {"", "abort", slidingttl.ErrInvalid, true},
		"trigger, rollback": {"", "rollback", slidingttl.ErrInvalid, false},
	} {
		t.Run(name, func(t *testing.T) {
			db := sqltest.DB(t, sqltest.SQLite)
			for _, s := range []string{
				"CREATE TABLE links (id TEXT NOT NULL PRIMARY KEY, token TEXT " + c.unique + ", created_at INTEGER, expires_at INTEGER, sweep_at INTEGER NOT NULL DEFAULT 0, version INTEGER)",
				"CREATE INDEX links_sweep_at ON links (sweep_at)",
				"CREATE TRIGGER slow AFTER INSERT ON links WHEN NEW.token = 'slow' BEGIN DELETE FROM links WHERE token = (WITH RECURSIVE c (n) AS (SELECT cancels() UNION ALL SELECT n + 1 FROM c) SELECT COUNT(*) FROM c); END",
				"CREATE TRIGGER aborts AFTER INSERT ON links WHEN NEW.token = 'abort' BEGIN SELECT RAISE(ABORT, 'no'); END",
				"CREATE TRIGGER rolls AFTER INSERT ON links WHEN NEW.token = 'rollback' BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
			} {
				mustExec(t, db, SQLite, s)
			}
			d, err := New(db, SQLite, "links", &Options[link]{Row: Row[link]{Columns: []string{"token"}, Fields: func(l *link) []any { return []any{&l.Token} }}})
			if err != nil {
				t.Fatal(err)
			}
			s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
			if err == nil {
				err = s.Check(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = s.Close(context.Background()) }()
			for _, commit := range []bool{true, false} {
				tx, err := db.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				in := WithTx(t.Context(), tx)
				short, cancel := context.WithCancel(in)
				cancelSlow = cancel
				if err := s.Insert(in, "before", link{"first"}); err != nil {
					t.Fatal(err)
				}
				if err := s.Insert(short, "refused", link{c.token}); !errors.Is(err, c.want) || errors.Is(err, slidingttl.ErrAmbiguous) {
					t.Errorf("Insert: %v; want %v", err, c.want)
				}
				cancel()
				if err := s.Insert(in, "after", link{"other"}); (err == nil) != c.stands || err != nil && !errors.Is(err, slidingttl.ErrConflict) {
					t.Errorf("a call after it: %v", err)
				}
				if _, err := tx.ExecContext(t.Context(), "INSERT INTO links (id) VALUES ('own')"); (err == nil) != c.stands {
					t.Errorf("a statement after it: %v", err)
				}
				end := tx.Rollback
				if commit {
					end = tx.Commit
				}
				if err := end(); (err == nil) != c.stands {
					t.Errorf("the end of the transaction, committed %v: %v", commit, err)
				}
				if n, want := d.rows(t), map[bool]int{true: 3}[commit && c.stands]; n != want {
					t.Errorf("committed %v: %d rows; want %d", commit, n, want)
				}
				mustExec(t, db, SQLite, "DELETE FROM links")
			}
		})
	}
}
