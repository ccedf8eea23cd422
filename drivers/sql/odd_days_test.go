package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// TestStoodStill: a write whose process stood still between reading its clock and sending lands no
// more where the record has died meanwhile, however short that was.
func TestStoodStill(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		for _, still := range []time.Duration{450 * time.Millisecond, 800 * time.Millisecond, time.Hour} {
			for _, c := range lateCalls {
				if c.name != "touch" && c.name != "replace" {
					continue
				}
				key := fmt.Sprint(c.name, still)
				now := driver.Floor(d.Now())
				dead := driver.Life{CreatedAt: now.Add(-2 * time.Hour), ExpiresAt: now.Add(-still / 2)}
				version, err := d.Insert(driver.WithOtherClock(ctx), key, session{"ann"}, dead, dead.CreatedAt)
				if err != nil {
					t.Fatal(err)
				}
				was, old := driver.Meta{Life: dead, Version: version}, now.Add(-still)
				later := driver.Life{CreatedAt: dead.CreatedAt, ExpiresAt: now.Add(time.Hour)}
				if c.name == "touch" {
					_, err = d.Touch(ctx, key, was, later, old)
				} else {
					_, err = d.Replace(ctx, key, session{"late"}, was, later, old)
				}
				if e := d.mustGet(t, key); !errors.Is(err, driver.ErrNotFound) || e.Meta != was {
					t.Errorf("%s after %v: %v, and stored is %+v; want %v and %+v", c.name, still, err, e.Meta, driver.ErrNotFound, was)
				}
			}
		}
	})
}

// TestClockStepped: no record that is written with its first expiry, or a lower one, is dead by the
// database's time, although that was set ahead meanwhile.
func TestClockStepped(t *testing.T) {
	onServers(t, func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration)) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		if err := store.Insert(ctx, "first", session{}); err != nil {
			t.Fatal(err)
		}
		created := fmt.Sprint(time.Now().UnixMilli())
		insert := func(key string) error { return store.Insert(ctx, key, session{}) }
		upsert := func(key string) error { return store.Upsert(ctx, key, session{}) }
		get := func(key string) error { _, err := store.Get(ctx, key); return err }
		update := func(key string) error {
			_, err := store.Update(ctx, key, func(s session) (session, error) { return s, nil })
			return err
		}
		touchEntry := func(key string) error {
			e, err := store.Peek(ctx, key)
			if err == nil {
				_, err = store.TouchEntry(ctx, key, e)
			}
			return err
		}
		const never, far = "NULL", "9000000000000"
		for i, ahead := range []time.Duration{10 * time.Minute, 0, 20 * time.Minute} {
			set(ahead)
			for _, c := range []struct {
				name             string
				created, expires string // of a record that is there; empty: none
				write            func(string) error
			}{
				{"insert", "", "", insert},
				{"upsert", "", "", upsert},
				{"insert over the dead", "1", "2", insert},
				{"upsert over the dead", "1", "2", upsert},
				{"get", never, never, get},
				{"touch what was read", never, never, touchEntry},
				{"get what has an expiry", never, far, get},
				{"upsert over the foreign", never, never, upsert},
				{"update the foreign", never, never, update},
				{"lower", created, far, get},
				{"lower by upsert", created, far, upsert},
				{"lower by update", created, far, update},
			} {
				for j := range 5 {
					key := fmt.Sprint(c.name, i, j)
					if c.created != "" {
						mustExec(t, db, dialect, "INSERT INTO "+d.name+" (id, value, created_at, expires_at) VALUES (?, '{}', "+c.created+", "+c.expires+")", key)
					}
					if err := c.write(key); err != nil {
						t.Fatalf("%s: %v", key, err)
					}
					e := d.mustGet(t, key)
					server, err := d.ask(ctx)
					if err != nil {
						t.Fatal(err)
					}
					left := e.ExpiresAt.Sub(driver.Floor(server.At))
					if left < 4*time.Minute {
						t.Errorf("the clock %v ahead: %s is written with %v left", ahead, key, left)
					}
					if left > 6*time.Minute && ahead > 0 && c.expires != far {
						t.Errorf("the clock %v ahead: %s is written with %v left", ahead, key, left)
					}
					if ahead != 0 { // what the next write does must not depend on this
						d, store = again(t, db, dialect, d.name, store, time.Now())
					}
				}
			}
		}
	})
}

// again returns a driver and a store over the table of that name which know the server's time, and ask for no other. s
// is closed first: a touch looks at the clock after its caller has gone.
func again(t *testing.T, db *stdsql.DB, dialect Dialect, name string, s *slidingttl.Store[session], server time.Time) (*Driver[session], *slidingttl.Store[session]) {
	t.Helper()
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := New[session](db, dialect, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	d.observe(time.Now(), server.UnixMilli())
	d.clock.Due()
	next, err := slidingttl.New(d, s.Policy(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return d, next
}

// TestClockSteppedBack: a record that is retired is dead by the database's time, although that was
// set back meanwhile, and dates its death within seconds of it.
func TestClockSteppedBack(t *testing.T) {
	onServers(t, func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration)) {
		ctx := t.Context()
		set(10 * time.Minute)
		d := open[session](t, db, dialect, nil)
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 10 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		for i := range 10 {
			if err := store.Insert(ctx, fmt.Sprint(i), session{}); err != nil {
				t.Fatal(err)
			}
		}
		server, err := d.ask(ctx)
		if err != nil {
			t.Fatal(err)
		}
		set(0)
		for i := range 10 {
			d, store = again(t, db, dialect, d.name, store, server.At.Add(time.Since(server.Got)))
			key := fmt.Sprint(i)
			if err := store.Retire(ctx, key); err != nil {
				t.Fatal(err)
			}
			e := d.mustGet(t, key)
			now, err := d.ask(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if since := driver.Floor(now.At).Sub(e.ExpiresAt); since < 0 || since > 10*time.Second {
				t.Errorf("a record that was retired just now has been dead for %v", since)
			}
		}
	})
}

// TestReadsBesideLockedRows: rows that a bulk update has locked are due, and all who read them
// touch them, by two stores over one pool. Reads of other rows find a connection.
func TestReadsBesideLockedRows(t *testing.T) {
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := sqltest.DB(t, s.server)
			const pool = 8
			db.SetMaxOpenConns(pool)
			db.SetMaxIdleConns(pool)
			var stores [2]*slidingttl.Store[session]
			var tables [2]string
			for i := range stores {
				d := open[session](t, db, s.dialect, nil)
				tables[i] = d.quoted()
				store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, &slidingttl.Options[session]{TouchWait: time.Millisecond, TouchTimeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = store.Close(context.Background()) }()
				for i := range 4 * pool {
					if err := store.Insert(ctx, fmt.Sprint("locked", i), session{}); err != nil {
						t.Fatal(err)
					}
				}
				if err := store.Insert(ctx, "free", session{}); err != nil {
					t.Fatal(err)
				}
				stores[i] = store
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }() // so that the stores can close
			for _, table := range tables {
				if _, err := tx.ExecContext(ctx, "UPDATE "+table+" SET version = version + 1 WHERE id LIKE 'locked%'"); err != nil {
					t.Fatal(err)
				}
			}
			var reading sync.WaitGroup
			ends, cancel := context.WithTimeout(ctx, 20*time.Second) // ends a hang
			defer cancel()
			for i := range 4 * pool {
				for _, store := range stores {
					reading.Go(func() { _, _ = store.Get(ends, fmt.Sprint("locked", i)) })
				}
			}
			reading.Wait() // each for its TouchWait at most; the touches go on
			for i := range 20 {
				within, cancel := context.WithTimeout(ctx, 10*time.Second)
				_, err := stores[i%2].Peek(within, "free")
				cancel()
				if err != nil {
					t.Fatal("a read found no connection for 10 s, because touches wait for locked rows")
				}
			}
			if err := tx.Rollback(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestTransactionsBesideTouches: at the database's default isolation a transaction whose snapshot is
// older than others' touches reads and writes what is there.
func TestTransactionsBesideTouches(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		w := open[session](t, db, dialect, nil)
		store, err := slidingttl.New(w, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		if err := store.Insert(ctx, "k", session{"old"}); err != nil {
			t.Fatal(err)
		}
		mustExec(t, db, dialect, "CREATE TABLE other (n BIGINT)")
		old, err := w.Get(ctx, "k")
		if err != nil {
			t.Fatal(err)
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = tx.Rollback() }()
		if dialect != SQLite { // which has no two writers, and refuses to write by an old snapshot
			if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM other").Scan(new(int)); err != nil { // the snapshot begins
				t.Fatal(err)
			}
		}
		touched := driver.Life{CreatedAt: old.CreatedAt, ExpiresAt: old.ExpiresAt + 1000}
		if _, err := w.Touch(ctx, "k", old.Meta, touched, driver.Floor(w.Now())); err != nil {
			t.Fatal(err)
		}
		if dialect != SQLite {
			if err := store.Insert(ctx, "new", session{"theirs"}); err != nil {
				t.Fatal(err)
			}
		}
		in := WithTx(ctx, tx)
		if e, err := store.Peek(in, "k"); err != nil || e.Life != touched {
			t.Errorf("Peek: %+v, %v; want %+v", e, err, touched)
		}
		tries := 0
		if _, err := store.Update(in, "k", func(session) (session, error) { tries++; return session{"new"}, nil }); err != nil || tries > 2 {
			t.Errorf("Update: %v, after %d tries", err, tries)
		}
		if dialect != SQLite {
			if err := store.Insert(in, "new", session{"ours"}); !errors.Is(err, slidingttl.ErrExists) {
				t.Errorf("Insert of another's: %v; want %v", err, slidingttl.ErrExists)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Error(err)
		}
		if s, err := store.Get(ctx, "k"); err != nil || s.User != "new" {
			t.Errorf("Get: %+v, %v", s, err)
		}
	})
}

// TestOwnUniqueIndex: what a unique index of the application's own refuses is ErrInvalid with the
// database's error, after as few statements as can tell, in a transaction too.
func TestOwnUniqueIndex(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		owner := map[Dialect]string{MySQL: "VARCHAR(50)"}[dialect]
		if owner == "" {
			owner = "TEXT"
		}
		mustExec(t, db, dialect, "CREATE TABLE owned (id VARCHAR(50) PRIMARY KEY, owner "+owner+" UNIQUE)")
		d, err := New(db, dialect, "owned", &Options[session]{Row: Row[session]{Columns: []string{"owner"}, Fields: func(s *session) []any { return []any{&s.User} }}})
		if err == nil {
			err = d.EnsureTable(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		if err := store.Insert(ctx, "a", session{"ann"}); err != nil {
			t.Fatal(err)
		}
		refused := func(ctx context.Context, in string) {
			err := store.Insert(ctx, "b", session{"ann"})
			if !errors.Is(err, slidingttl.ErrInvalid) || !strings.Contains(err.Error(), map[Dialect]string{PostgreSQL: "23505", MySQL: "1062", SQLite: "UNIQUE"}[dialect]) {
				t.Errorf("Insert, %s: %v", in, err)
			}
		}
		refused(ctx, "alone") // before the transaction, which keeps locks when it is refused
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		refused(WithTx(ctx, tx), "in a transaction")
		_ = tx.Rollback()
	})
}

// TestKeepAfterCommit: a record whose delete was committed in a transaction is not vouched for,
// although it was read after the call that deleted it.
func TestKeepAfterCommit(t *testing.T) {
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := sqltest.DB(t, s.server)
			d := open[session](t, db, s.dialect, nil)
			store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour, Slack: 20 * time.Minute}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = store.Close(context.Background()) }()
			if err := store.Insert(ctx, "k", session{}); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := store.Delete(WithTx(ctx, tx), "k"); err != nil {
				t.Fatal(err)
			}
			if _, err := store.Get(ctx, "k"); err != nil {
				t.Errorf("before the commit: %v", err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := store.Keep(ctx, "k"); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Keep after the commit: %v; want %v", err, slidingttl.ErrNotFound)
			}
		})
	}
}

// ownSQL is a repository with SQL of its own, in the transaction of its context.
type ownSQL struct {
	db    *stdsql.DB
	tx    *stdsql.Tx
	table string
	bind  func(string) string
}

func (r ownSQL) on() interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *stdsql.Row
	ExecContext(ctx context.Context, query string, args ...any) (stdsql.Result, error)
} {
	if r.tx != nil {
		return r.tx
	}
	return r.db
}

func (r ownSQL) Get(ctx context.Context, id string) (v string, err error) {
	return v, r.on().QueryRowContext(ctx, r.bind("SELECT value FROM "+r.table+" WHERE id = ?"), id).Scan(&v)
}

func (r ownSQL) Upsert(ctx context.Context, id, v string) error {
	if _, err := r.on().ExecContext(ctx, r.bind("DELETE FROM "+r.table+" WHERE id = ?"), id); err != nil {
		return err
	}
	_, err := r.on().ExecContext(ctx, r.bind("INSERT INTO "+r.table+" (id, value) VALUES (?, ?)"), id, v)
	return err
}

// TestWrapInTransaction: a wrapped repository's save in a transaction writes the record's life, so
// that it dies at its cap.
func TestWrapInTransaction(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		ctx := t.Context()
		text := map[Dialect]string{MySQL: "VARBINARY(200)"}[dialect]
		if text == "" {
			text = "TEXT"
		}
		mustExec(t, db, dialect, "CREATE TABLE wrapped (id "+text+" NOT NULL PRIMARY KEY, value TEXT)")
		d, err := New(db, dialect, "wrapped", &Options[session]{LifeOnly: true})
		if err == nil {
			err = d.EnsureTable(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		const most = 3 * time.Second
		store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 2 * time.Second, MaxLifetime: most}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close(context.Background()) }()
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		repo := ownSQL{db, tx, "wrapped", d.dialect.bind}
		wrapped, err := slidingttl.Wrap(repo, store, func(id string) string { return id }, nil)
		if err != nil {
			t.Fatal(err)
		}
		before := driver.Floor(d.Now())
		for _, v := range []string{"first", "second"} {
			if err := wrapped.Upsert(WithTx(ctx, tx), "k", v); err != nil {
				t.Fatal(err)
			}
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		e := d.mustGet(t, "k")
		if e.CreatedAt < before-1000 || e.ExpiresAt == 0 || e.ExpiresAt > e.CreatedAt.Add(most) {
			t.Errorf("a record saved in a transaction has %+v", e.Meta)
		}
	})
}

// TestKeysInErrors: a key is masked in a database's error, and the rest of it stays.
func TestKeysInErrors(t *testing.T) {
	long := strings.Repeat("0123456789", 30)
	for _, c := range []struct{ text, key, want string }{
		{"database is locked", "a", "database is locked"},
		{"database is locked", "locked", "database is [key]"},
		{"database is locked (5)", "lock", "database is locked (5)"},
		{"Duplicate entry 'a-secret' for key", "a-secret", "Duplicate entry '[key]' for key"},
		{"Duplicate entry 'xa-secretx'", "a-secret", "Duplicate entry 'x[key]x'"},
		{"Duplicate entry '" + long[:64] + "' for key", long, "Duplicate entry '[key]' for key"},
		{"invalid: 7, \u00fc7", "7", "invalid: [key], \u00fc7"},
		{"twice twice, twice_", "twice", "[key] [key], twice_"},
		{"nothing", "", "nothing"},
		{`Duplicate entry '\xFFa-secret' for key 'PRIMARY'`, "\xffa-secret", "Duplicate entry '[bytes]'"},
		{`Invalid utf8mb4 character string: '\xFFa-'`, "\xffa-secret", "Invalid utf8mb4 character string: '[bytes]'"},
		{`Incorrect string value: '\xFFa-s...' for column 'id' at row 1`, "\xffa-secret", "Incorrect string value: '[bytes]' at row 1"},
	} {
		cause := errors.New(c.text)
		err := hidden(cause, []rowKey{{key: c.key, columns: []any{c.key, []byte(c.key), int64(7)}}})
		if err.Error() != c.want || !errors.Is(err, cause) {
			t.Errorf("%q of key %q: %q; want %q", c.text, c.key, err, c.want)
		}
	}
}

// TestUnsendable: a value that the client or the server cannot take is invalid, and has not been written.
func TestUnsendable(t *testing.T) {
	type row struct {
		At   time.Time
		Text string
	}
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	_, dsn := sqltest.DSN(t, sqltest.MariaDB)
	for _, set := range []string{"maxAllowedPacket=0", "maxAllowedPacket=0&interpolateParams=true"} {
		db, err := stdsql.Open("mysql", dsn+"?"+set)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		name := fmt.Sprintf("t%d", tables.Add(1))
		mustExec(t, db, MySQL, "CREATE TABLE "+name+" (id VARBINARY(255) PRIMARY KEY, at DATETIME(6) NOT NULL, text LONGTEXT NOT NULL)")
		d, err := New(db, MySQL, name, &Options[row]{Row: Row[row]{Columns: []string{"at", "text"}, Fields: func(r *row) []any { return []any{&r.At, &r.Text} }}})
		if err == nil {
			err = d.EnsureTable(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for what, v := range map[string]row{
			"year 10000": {At: now.AddDate(8000, 0, 0)},
			"year -5":    {At: now.AddDate(-2035, 0, 0)},
			"17 MiB":     {now, strings.Repeat("x", 17<<20)}, // the server's limit is 16
		} {
			if _, err := d.Insert(t.Context(), what, v, lasting(time.Hour), base); !errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("%s: %s: %v", set, what, err)
			}
		}
		if n := d.rows(t); n != 0 {
			t.Errorf("%s: %d rows", set, n)
		}
	}
}

// TestSchemaBrings: the statements that Schema returns bring an existing table under the driver, a
// partitioned one too, and after a CREATE INDEX CONCURRENTLY that was cancelled. The first sweep
// finds nothing to do.
func TestSchemaBrings(t *testing.T) {
	for name, c := range map[string]struct {
		dialect Dialect
		table   []string
		after   func(t *testing.T, db *stdsql.DB)
	}{
		"postgres":    {PostgreSQL, []string{"CREATE TABLE old (id text PRIMARY KEY, value jsonb NOT NULL)"}, nil},
		"partitioned": {PostgreSQL, []string{"CREATE TABLE old (id text PRIMARY KEY, value jsonb NOT NULL) PARTITION BY HASH (id)", "CREATE TABLE old0 PARTITION OF old FOR VALUES WITH (MODULUS 2, REMAINDER 0)", "CREATE TABLE old1 PARTITION OF old FOR VALUES WITH (MODULUS 2, REMAINDER 1)"}, nil},
		"cancelled": {PostgreSQL, []string{"CREATE TABLE old (id text PRIMARY KEY, value jsonb NOT NULL)"}, func(t *testing.T, db *stdsql.DB) {
			mustExec(t, db, PostgreSQL, "CREATE INDEX old_sweep_at ON old (sweep_at)")
			mustExec(t, db, PostgreSQL, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'old_sweep_at'::regclass")
		}},
		"mariadb": {MySQL, []string{"CREATE TABLE old (id VARBINARY(200) PRIMARY KEY, value JSON NOT NULL)"}, nil},
		"sqlite":  {SQLite, []string{"CREATE TABLE old (id TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			db := sqltest.DB(t, map[Dialect]sqltest.Database{PostgreSQL: sqltest.PostgreSQL, MySQL: sqltest.MariaDB, SQLite: sqltest.SQLite}[c.dialect])
			for _, s := range c.table {
				mustExec(t, db, c.dialect, s)
			}
			for i := range 100 {
				mustExec(t, db, c.dialect, "INSERT INTO old (id, value) VALUES (?, '{}')", fmt.Sprint(i))
			}
			d, err := New[session](db, c.dialect, "old", nil)
			if err != nil {
				t.Fatal(err)
			}
			run := func() {
				statements, err := d.Schema(ctx, "")
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range statements {
					mustExec(t, db, c.dialect, s)
				}
			}
			if c.after != nil {
				mustExec(t, db, c.dialect, "ALTER TABLE old ADD COLUMN sweep_at bigint NOT NULL DEFAULT 0, ADD COLUMN expires_at bigint")
				c.after(t, db)
			}
			run()
			if again, err := d.Schema(ctx, ""); err != nil || len(again) > 0 {
				t.Errorf("what is missing afterwards: %q, %v", again, err)
			}
			if err := d.Check(ctx, time.Hour); err != nil {
				t.Errorf("Check: %v", err)
			}
			s := d.mustSweeper(t, SweepOptions{})
			if err := s.Sweep(ctx); err != nil {
				t.Error(err)
			}
			if n := s.Stats().Filed; n != 0 && c.dialect != SQLite && c.after == nil {
				t.Errorf("the first sweep wrote %d rows that have no expiry", n)
			}
			mustExec(t, db, c.dialect, "INSERT INTO old (id, value) VALUES ('new', '{}')")
			var at int64
			if err := db.QueryRowContext(ctx, "SELECT sweep_at FROM old WHERE id = 'new'").Scan(&at); err != nil || at != 0 {
				t.Errorf("a row of another program is swept at %d, %v", at, err)
			}
		})
	}
}

// TestTwoStoresOneFile: the writers of two drivers of one SQLite file take turns, so that none polls
// for the lock.
func TestTwoStoresOneFile(t *testing.T) {
	_, dsn := sqltest.DSN(t, sqltest.SQLite)
	var drivers []*Driver[session]
	for range 2 {
		db, err := stdsql.Open("sqlite", dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		drivers = append(drivers, open[session](t, db, SQLite, nil))
	}
	for _, d := range drivers {
		if err := d.Delete(t.Context(), "none"); err != nil {
			t.Fatal(err)
		}
	}
	if *drivers[0].turn.file.Load() != *drivers[1].turn.file.Load() {
		t.Error("two drivers of one file do not share their turn")
	}
	var group sync.WaitGroup
	var failed atomic.Int64
	for n := range 8 {
		group.Go(func() {
			for i := range 50 {
				if err := drivers[n%2].Delete(t.Context(), fmt.Sprint(i)); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	if group.Wait(); failed.Load() > 0 {
		t.Errorf("%d writes failed", failed.Load())
	}
}

// TestAdoptAfterStep: records that are adopted after the database's clock was set ahead by more than the
// grace live for the grace, by that clock.
func TestAdoptAfterStep(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		move := movable(t, d)
		for i := range 20 {
			mustExec(t, db, dialect, "INSERT INTO "+d.name+" (id, value) VALUES (?, '{}')", fmt.Sprint(i))
		}
		move(10 * time.Minute)
		p := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: time.Hour}
		if _, err := upkeep.Adopt(t.Context(), d, p, &upkeep.AdoptOptions{WriteOptions: upkeep.WriteOptions{Apply: true}}); err != nil {
			t.Fatal(err)
		}
		server, err := d.ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		least := driver.Floor(server.At).Add(4 * time.Minute)
		for i := range 20 {
			if e := d.mustGet(t, fmt.Sprint(i)); e.ExpiresAt < least {
				t.Errorf("%d lives for %v", i, e.ExpiresAt.Sub(driver.Floor(server.At)))
			}
		}
	})
}
