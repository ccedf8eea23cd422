package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// servers are the databases that are reached over a connection.
var servers = map[string]struct {
	dialect Dialect
	server  sqltest.Database
	kill    string // lists statements that end the other connections of this schema
}{
	"postgres": {PostgreSQL, sqltest.PostgreSQL,
		"SELECT 'SELECT pg_terminate_backend(' || pid || ')' FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"},
	"mariadb": {MySQL, sqltest.MariaDB,
		"SELECT CONCAT('KILL ', id) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()"},
}

// write is a call that writes, the record after it, and the record before it.
type write struct {
	name   string
	call   func(ctx context.Context, d *Driver[session], was driver.Meta) error
	landed func(d *Driver[session]) bool
}

func allWrites(t *testing.T, key string) []write {
	get := func(d *Driver[session]) driver.Entry[session] {
		e, err := d.Get(context.Background(), key)
		if err != nil && !errors.Is(err, driver.ErrNotFound) {
			t.Error(err)
		}
		return e
	}
	later := lasting(2 * time.Hour)
	return []write{
		{"Insert", func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			_, err := d.Insert(ctx, key, session{"new"}, later, was.ExpiresAt) // over the dead, if there is one
			return err
		}, func(d *Driver[session]) bool { return get(d).Value.User == "new" }},
		{"Replace", func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			_, err := d.Replace(ctx, key, session{"new"}, was, later, base)
			return err
		}, func(d *Driver[session]) bool { return get(d).Value.User == "new" }},
		{"Overwrite", func(ctx context.Context, d *Driver[session], _ driver.Meta) error {
			_, err := d.Overwrite(ctx, key, session{"new"}, later, driver.Access{At: base, Keep: 3600e3, Stored: 3600e3, Most: 86400e3, Step: time.Millisecond}, base)
			return err
		}, func(d *Driver[session]) bool { return get(d).Value.User == "new" }},
		{"Touch", func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			_, err := d.Touch(ctx, key, was, later, base)
			return err
		}, func(d *Driver[session]) bool { return get(d).Life == later }},
		{"Remove", func(ctx context.Context, d *Driver[session], was driver.Meta) error {
			return d.Remove(ctx, key, was, base)
		}, func(d *Driver[session]) bool { return get(d).Version == 0 }},
		{"Delete", func(ctx context.Context, d *Driver[session], _ driver.Meta) error {
			return d.Delete(ctx, key)
		}, func(d *Driver[session]) bool { return get(d).Version == 0 }},
	}
}

// TestLostAnswers breaks the connection of each write once, before the statement is sent
// and before its answer comes. The first costs nothing; the second is ErrAmbiguous, the
// write has landed, and is not sent again.
func TestLostAnswers(t *testing.T) {
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			w := new(wire)
			db := w.pool(t, s.server)
			d := open[session](t, db, s.dialect, nil)
			for _, how := range []cut{before, after} {
				for _, write := range allWrites(t, "k") {
					if err := d.Delete(t.Context(), "k"); err != nil {
						t.Fatal(err)
					}
					d.mustInsert(t, "k", session{"old"}, lasting(time.Hour))
					// The statement is prepared already, so that the execution is cut.
					_ = write.call(t.Context(), d, driver.Meta{Life: lasting(time.Hour), Version: 1})
					if err := d.Delete(t.Context(), "k"); err != nil {
						t.Fatal(err)
					}
					var was driver.Meta
					// On MySQL an Overwrite of an existing record begins with a statement that fails.
					if write.name != "Insert" && (write.name != "Overwrite" || s.dialect != MySQL) {
						was = d.mustInsert(t, "k", session{"old"}, lasting(time.Hour))
					}

					var cuts int
					w.set(func() cut {
						if cuts++; cuts == 1 {
							return how
						}
						return whole
					})
					err := write.call(t.Context(), d, was)
					w.set(nil)
					if how == before {
						if err != nil || !write.landed(d) {
							t.Errorf("%s, cut before it was sent: %v, landed: %v; want it to be sent again", write.name, err, write.landed(d))
						}
						continue
					}
					if !errors.Is(err, driver.ErrAmbiguous) {
						t.Errorf("%s, cut before its answer: error %v, want ErrAmbiguous", write.name, err)
					}
					if cuts != 1 {
						t.Errorf("%s, cut before its answer, was sent %d times", write.name, cuts)
					}
					if !write.landed(d) {
						t.Errorf("%s, cut before its answer, has not landed: the test proves nothing", write.name)
					}
				}
			}
		})
	}
}

// TestPoolExhausted: a write that never got a connection returns that it has not landed.
func TestPoolExhausted(t *testing.T) {
	onAll(t, func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		d := open[session](t, db, dialect, nil)
		was := d.mustInsert(t, "k", session{}, lasting(time.Hour))
		db.SetMaxOpenConns(1)
		conn, err := db.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, write := range allWrites(t, "k") {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			err := write.call(ctx, d, was)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("%s: error %v, want the context's, and not ErrAmbiguous", write.name, err)
			}
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestVerdicts causes the errors that the driver classifies.
func TestVerdicts(t *testing.T) {
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			db := sqltest.DB(t, s.server)
			d := open[session](t, db, s.dialect, nil)
			d.mustInsert(t, "a", session{}, lasting(time.Hour))
			d.mustInsert(t, "b", session{}, lasting(time.Hour))
			ctx := t.Context()
			update := d.dialect.bind("UPDATE " + d.quoted() + " SET version = version + 1 WHERE id = ?")
			verdict := func(err error) verdict { return d.dialect.verdict(err) }

			// A deadlock: two transactions take two rows, each the other's first.
			errs := make(chan error, 2)
			var both sync.WaitGroup
			both.Add(2)
			for _, keys := range [][2]string{{"a", "b"}, {"b", "a"}} {
				go func() {
					tx, err := db.BeginTx(ctx, nil)
					if err != nil {
						t.Error(err)
					}
					_, err = tx.ExecContext(ctx, update, keys[0])
					both.Done()
					if both.Wait(); err == nil {
						_, err = tx.ExecContext(ctx, update, keys[1])
					}
					_ = tx.Rollback()
					errs <- err
				}()
			}
			if err := errors.Join(<-errs, <-errs); err == nil || verdict(err) != collided {
				t.Errorf("a deadlock: %v is %d, want collided", err, verdict(err))
			}

			for statement, want := range map[string]int{
				"INSERT INTO " + d.quoted() + " (id, value) VALUES ('a', '{}')":         int(duplicate),
				"INSERT INTO " + d.quoted() + " (id, value) VALUES ('c', NULL)":         int(impossible),
				"INSERT INTO " + d.quoted() + " (id, value) VALUES ('c', 'no json')":    int(impossible),
				"INSERT INTO " + d.quoted() + " (id, value) VALUES ('c', '{}', 'what')": int(refused),
				"INSERT INTO nothing VALUES (1)":                                        int(barred),
			} {
				if _, err := db.ExecContext(ctx, statement); err == nil || int(verdict(err)) != want {
					t.Errorf("%s: %v is %d, want %d", statement, err, verdict(err), want)
				}
			}
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			self := map[Dialect]string{
				PostgreSQL: "SELECT pg_terminate_backend(pg_backend_pid())",
				MySQL:      "KILL CONNECTION_ID()",
			}[s.dialect]
			if _, err := conn.ExecContext(ctx, self); err == nil || verdict(err) == refused || verdict(err) == collided {
				t.Errorf("a connection that is killed: %v is %d, want unknown", err, verdict(err))
			}
		})
	}
}

// TestSoak: many connections write to few records, while connections break before statements are
// sent or before answers come, or are killed by the server. Each write adds its own token. In the
// end acknowledged tokens are stored, refused ones are not, and none is stored twice.
func TestSoak(t *testing.T) {
	for name, s := range servers {
		t.Run(name, func(t *testing.T) { soak(t, s.dialect, s.server, s.kill, "") })
	}
	t.Run("postgres serializable", func(t *testing.T) {
		s := servers["postgres"]
		soak(t, s.dialect, s.server, s.kill, "ALTER ROLE CURRENT_USER SET default_transaction_isolation = 'serializable'")
	})
	t.Run("sqlite", func(t *testing.T) { soak(t, SQLite, sqltest.SQLite, "", "") })
}

type tokens struct{ Tokens []string }

func soak(t *testing.T, dialect Dialect, server sqltest.Database, kill, setting string) {
	const workers, each, keys = 8, 60, 3
	ctx := t.Context()
	w := new(wire)
	var db *stdsql.DB
	if dialect == SQLite {
		db = sqltest.DB(t, server)
	} else {
		db = w.pool(t, server)
	}
	if setting != "" {
		mustExec(t, db, dialect, setting)
		defer mustExec(t, db, dialect, strings.Replace(setting, "'serializable'", "DEFAULT", 1))
		disconnect(db) // open connections have the old setting
	}
	d := open[tokens](t, db, dialect, nil)
	for k := range keys {
		if _, err := d.Insert(ctx, fmt.Sprint(k), tokens{}, lasting(time.Hour), base); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex // guards the two maps
	acknowledged, refused := make(map[string]bool), make(map[string]bool)
	var ambiguous, conflicts atomic.Int64

	if dialect != SQLite {
		w.set(func() cut {
			switch rand.IntN(50) {
			case 0:
				return before
			case 1:
				return after
			}
			return whole
		})
	}
	killing, stop := context.WithCancel(ctx)
	var killer, group sync.WaitGroup
	if kill != "" {
		killer.Go(func() { killAll(killing, db, kill) })
	}
	for n := range workers {
		group.Go(func() {
			for i := range each {
				token, key := fmt.Sprintf("%d-%d", n, i), fmt.Sprint((n+i)%keys)
				for {
					e, err := d.Get(ctx, key)
					if errors.Is(err, driver.ErrNotFound) {
						t.Error("the record is gone")
						return
					}
					if err != nil {
						continue // the wire's error; a read does no harm
					}
					e.Value.Tokens = append(e.Value.Tokens, token)
					_, err = d.Replace(ctx, key, e.Value, e.Meta, e.Life, base)
					if errors.Is(err, driver.ErrConflict) {
						conflicts.Add(1)
						continue
					}
					mu.Lock()
					switch {
					case err == nil:
						acknowledged[token] = true
					case errors.Is(err, driver.ErrAmbiguous):
						ambiguous.Add(1)
					default:
						refused[token] = true
					}
					mu.Unlock()
					break
				}
			}
		})
	}
	group.Wait()
	stop()
	killer.Wait()
	w.set(nil)
	disconnect(db) // one may have been killed while it was idle

	there := make(map[string]int)
	for k := range keys {
		for _, token := range d.mustGet(t, fmt.Sprint(k)).Value.Tokens {
			there[token]++
		}
	}
	for token, times := range there {
		if times > 1 || refused[token] {
			t.Errorf("token %s is there %d times, refused: %v", token, times, refused[token])
		}
	}
	for token := range acknowledged {
		if there[token] != 1 {
			t.Errorf("token %s was acknowledged and is not there", token)
		}
	}
	t.Logf("%d acknowledged, %d refused, %d ambiguous of which %d landed, %d conflicts",
		len(acknowledged), len(refused), ambiguous.Load(), len(there)-len(acknowledged), conflicts.Load())
	if dialect != SQLite && ambiguous.Load() == 0 || conflicts.Load() == 0 {
		t.Error("nothing went wrong: the test proves nothing")
	}
}

// disconnect closes a pool's idle connections.
func disconnect(db *stdsql.DB) {
	db.SetMaxIdleConns(-1)
	db.SetMaxIdleConns(maxIdle)
}

// killAll makes the server end one connection after the other.
func killAll(ctx context.Context, db *stdsql.DB, list string) {
	for ctx.Err() == nil {
		var statements []string
		rows, err := db.QueryContext(ctx, list)
		if err == nil {
			for rows.Next() {
				var s string
				if rows.Scan(&s) == nil {
					statements = append(statements, s)
				}
			}
			_ = rows.Close()
		}
		if len(statements) > 0 {
			_, _ = db.ExecContext(ctx, statements[rand.IntN(len(statements))]) // the connection may be gone already
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// TestUnsent: what the client cannot send was not written, and the error quotes no key.
func TestUnsent(t *testing.T) {
	type row struct{ N uint64 }
	type odd struct{ N chan int }
	test := func(t *testing.T, db *stdsql.DB, dialect Dialect) {
		small := map[Dialect]string{PostgreSQL: "integer", MySQL: "BIGINT", SQLite: "INTEGER"}[dialect]
		name := fmt.Sprintf("t%d", tables.Add(1))
		mustExec(t, db, dialect, "CREATE TABLE "+name+" (id "+strings.TrimSuffix(dialects[dialect].types().key(defaultMaxKey), " NOT NULL")+" NOT NULL PRIMARY KEY, n "+small+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT)")
		const most uint64 = 1<<64 - 1
		unsent := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, driver.ErrInvalid) || errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("%s: %v", what, err)
			}
		}
		d, err := New(db, dialect, name, &Options[row]{Row: Row[row]{Columns: []string{"n"}, Fields: func(r *row) []any { return []any{&r.N} }}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = d.Insert(t.Context(), "a", row{most}, lasting(time.Hour), base)
		unsent("Insert of a value", err)
		was := d.mustInsert(t, "a", row{5}, lasting(time.Hour))
		_, err = d.Replace(t.Context(), "a", row{most}, was, was.Life, base)
		unsent("Replace", err)
		o, err := New(db, dialect, name, &Options[odd]{Row: Row[odd]{Columns: []string{"n"}, Fields: func(o *odd) []any { return []any{&o.N} }}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = o.Insert(t.Context(), "b", odd{make(chan int)}, lasting(time.Hour), base)
		unsent("Insert of a channel", err)
		if dialect == MySQL { // which sends any key
			return
		}
		mustExec(t, db, dialect, "CREATE TABLE "+name+"_n (id "+small+" PRIMARY KEY, value "+d.dialect.types().value+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT)")
		k, err := New(db, dialect, name+"_n", &Options[session]{Key: Key{Split: func(key string) ([]any, error) { return []any{most - 2 + uint64(len(key))}, nil }}})
		if err != nil {
			t.Fatal(err)
		}
		for what, call := range map[string]func() error{
			"Get":    func() error { _, err := k.Get(t.Context(), "ab"); return err },
			"Delete": func() error { return k.Delete(t.Context(), "ab") },
		} {
			err := call()
			unsent(what, err)
			if text := err.Error(); strings.Contains(text, "0xffff") || strings.Contains(text, fmt.Sprint(most)) {
				t.Errorf("%s quotes the key: %s", what, text)
			}
		}
	}
	onAll(t, test)
	client, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	for _, mode := range []string{"exec", "simple_protocol", "cache_describe"} {
		t.Run("postgres "+mode, func(t *testing.T) {
			db, err := stdsql.Open(client, dsn+" default_query_exec_mode="+mode)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			test(t, db, PostgreSQL)
		})
	}
}
