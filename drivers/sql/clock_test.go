package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// clocked opens a server with a clock that set changes.
func clocked(t *testing.T, server sqltest.Database) (db *stdsql.DB, set func(ahead time.Duration)) {
	t.Helper()
	s, set := sqltest.StartClocked(t, server)
	name, dsn, drop, err := s.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	db, err = stdsql.Open(name, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = db.Close()
		if err := drop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return db, set
}

// onServers runs test on the databases that have a clock of their own.
func onServers(t *testing.T, test func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration))) {
	for name, d := range databases {
		if d.dialect == SQLite {
			continue // its clock is the process's
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, set := clocked(t, d.server)
			test(t, db, d.dialect, set)
		})
	}
}

// TestClockApart: the records of a process whose clock is 10 min off the database's from the
// start are swept and expire no earlier than others. Once the clock is set, the process uses the
// database's time.
func TestClockApart(t *testing.T) {
	const grace, off = 5 * time.Minute, 10 * time.Minute
	policies := map[string]slidingttl.Policy{
		"exact":   {IdleGrace: grace, MaxLifetime: time.Hour},
		"slack":   {IdleGrace: grace, MaxLifetime: time.Hour, Slack: time.Minute},
		"promote": {IdleGrace: grace, MaxLifetime: time.Hour, Promote: true},
	}
	onServers(t, func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration)) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		process := func(p slidingttl.Policy) *slidingttl.Store[session] {
			own, err := New[session](db, dialect, d.name, nil)
			if err != nil {
				t.Fatal(err)
			}
			store, err := slidingttl.New(own, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(context.Background()); err != nil {
					t.Error(err)
				}
			})
			return store
		}
		sweep := func() {
			t.Helper()
			own, err := New[session](db, dialect, d.name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := own.mustSweeper(t, SweepOptions{}).Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, ahead := range []time.Duration{off, -off} {
			for name, p := range policies {
				set(ahead)
				what := fmt.Sprintf("%s, a database %v ahead", name, ahead)
				writer, reader := process(p), process(p)
				for key, write := range map[string]func(key string) error{
					"upserted": func(key string) error { return process(p).Upsert(ctx, key, session{}) },
					"inserted": func(key string) error { return process(p).Insert(ctx, key, session{}) },
					"both":     func(key string) error { return writer.Upsert(ctx, key, session{}) },
				} {
					key += " " + what
					if err := write(key); err != nil {
						t.Fatal(err)
					}
					sweep()
					for range 3 { // the first asks for the time
						e, err := reader.Entry(ctx, key)
						if err != nil {
							t.Fatalf("%s: %v", key, err)
						}
						if left := e.ExpiresAt.Time().Sub(time.Now().Add(ahead)); left < grace-time.Second || left > time.Hour+time.Second {
							t.Errorf("%s: read, it has %v left", key, left)
						}
					}
					sweep()
					if _, err := writer.Get(ctx, key); err != nil {
						t.Errorf("%s, after a sweep: %v", key, err)
					}
				}

				set(0)
				deadline := time.Now().Add(time.Minute)
				for time.Until(writer.Now()).Abs() > time.Second {
					if _, err := writer.Get(ctx, "none"); !errors.Is(err, slidingttl.ErrNotFound) {
						t.Fatal(err)
					}
					if time.Now().After(deadline) {
						t.Fatalf("%s: a minute after the clocks agree the store's is %v off", what, time.Until(writer.Now()))
					}
				}
			}
		}
	})
}

// late delays a call that names a live record until the record is dead.
type late struct {
	name string
	call func(ctx context.Context, d *Driver[session], key string, was driver.Meta) error
}

var lateCalls = []late{
	{"touch", func(ctx context.Context, d *Driver[session], key string, was driver.Meta) error {
		_, err := d.Touch(ctx, key, was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Hour)}, driver.Floor(d.Now()))
		return err
	}},
	{"replace", func(ctx context.Context, d *Driver[session], key string, was driver.Meta) error {
		_, err := d.Replace(ctx, key, session{"late"}, was, driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Hour)}, driver.Floor(d.Now()))
		return err
	}},
	{"remove", func(ctx context.Context, d *Driver[session], key string, was driver.Meta) error {
		return d.Remove(ctx, key, was, driver.Floor(d.Now()))
	}},
	{"read and touch", func(ctx context.Context, d *Driver[session], key string, was driver.Meta) error {
		now := driver.Floor(d.Now())
		hour := driver.Instant(time.Hour.Milliseconds())
		_, touched, err := d.ReadTouch(ctx, key, nil, driver.Access{At: now, Keep: hour, Stored: hour, Most: 24 * hour, Step: time.Millisecond}, now)
		if err == nil && !touched {
			err = driver.ErrNotFound // returned unchanged, for the caller to judge
		}
		return err
	}},
}

// TestFirstReadByAnotherClock: a process that has not asked for the time yet touches by the database's all the same.
func TestFirstReadByAnotherClock(t *testing.T) {
	policy := slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: time.Hour}
	first := map[string]func(*slidingttl.Store[session], string) error{
		"Get": func(s *slidingttl.Store[session], key string) error {
			_, err := s.Get(t.Context(), key)
			return err
		},
		"GetMulti": func(s *slidingttl.Store[session], key string) error {
			_, err := s.GetMulti(t.Context(), []string{key})
			return err
		},
	}
	onServers(t, func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration)) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		for _, ahead := range []time.Duration{50 * time.Second, -50 * time.Second} {
			set(ahead)
			theirs := func() driver.Instant { return driver.Floor(time.Now().Add(ahead)) }
			for name, get := range first {
				own, err := New[session](db, dialect, d.name, nil)
				if err != nil {
					t.Fatal(err)
				}
				store, err := slidingttl.New(own, policy, nil)
				if err != nil {
					t.Fatal(err)
				}
				key, born := name+ahead.String(), theirs().Add(-4*time.Minute)
				if _, err := d.Insert(ctx, key, session{}, driver.Life{CreatedAt: born, ExpiresAt: born.Add(policy.IdleGrace)}, theirs()); err != nil {
					t.Fatal(err)
				}
				accessed := theirs()
				if err := get(store, key); err != nil {
					t.Fatal(err)
				}
				kept := d.mustGet(t, key).ExpiresAt.Sub(accessed)
				if late := kept - policy.IdleGrace; late.Abs() > 10*time.Second {
					t.Errorf("a database %v ahead: the first %s keeps its record for %v", ahead, name, kept)
				}
				if err := store.Close(context.Background()); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestLateWrite: a write that waits for a row's lock until the record has died does not land.
func TestLateWrite(t *testing.T) {
	waiting := map[Dialect]string{
		PostgreSQL: "SELECT COUNT(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
		MySQL:      "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME = 'INNODB_ROW_LOCK_CURRENT_WAITS'",
	}
	onServers(t, func(t *testing.T, db *stdsql.DB, dialect Dialect, set func(time.Duration)) {
		ctx := t.Context()
		d := open[session](t, db, dialect, nil)
		if _, err := d.ask(ctx); err != nil {
			t.Fatal(err)
		}
		for _, c := range lateCalls {
			t.Run(c.name, func(t *testing.T) {
				set(0)
				if _, err := d.ask(ctx); err != nil {
					t.Fatal(err)
				}
				now := driver.Floor(d.Now())
				life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(5 * time.Minute)}
				version, err := d.Insert(ctx, c.name, session{"ann"}, life, now)
				if err != nil {
					t.Fatal(err)
				}
				was := driver.Meta{Life: life, Version: version}
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback() }()
				var id string
				if err := tx.QueryRowContext(ctx, "SELECT id FROM "+d.quoted()+" WHERE id = '"+c.name+"' FOR UPDATE").Scan(&id); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- c.call(ctx, d, c.name, was) }()
				for n := 0; n == 0; {
					if err := db.QueryRowContext(ctx, waiting[dialect]).Scan(&n); err != nil {
						t.Fatal(err)
					}
				}
				set(10 * time.Minute)
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				if err := <-done; !errors.Is(err, driver.ErrNotFound) {
					t.Errorf("after the record's death: %v; want %v", err, driver.ErrNotFound)
				}
				if e := d.mustGet(t, c.name); e.Meta != was || e.Value.User != "ann" {
					t.Errorf("stored is %+v; want what was dead, %+v", e, was)
				}
			})
		}
	})
}

// TestLateWriteInSQLite: the statement waits for the file's lock too.
func TestLateWriteInSQLite(t *testing.T) {
	ctx := t.Context()
	db := sqltest.DB(t, sqltest.SQLite)
	d := open[session](t, db, SQLite, nil)
	movable(t, d)
	for _, c := range lateCalls {
		t.Run(c.name, func(t *testing.T) {
			now := driver.Floor(d.Now())
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(5 * time.Minute)}
			version, err := d.Insert(ctx, c.name, session{"ann"}, life, now)
			if err != nil {
				t.Fatal(err)
			}
			was := driver.Meta{Life: life, Version: version}
			conn, err := db.Conn(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			if _, err := conn.ExecContext(ctx, "BEGIN IMMEDIATE; UPDATE moved SET ms = ms + 600000"); err != nil {
				t.Fatal(err)
			}
			began, done := make(chan struct{}), make(chan error, 1)
			go func() {
				close(began)
				done <- c.call(ctx, d, c.name, was)
			}()
			<-began
			if _, err := conn.ExecContext(ctx, "COMMIT"); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("after the record's death: %v; want %v", err, driver.ErrNotFound)
			}
			if e := d.mustGet(t, c.name); e.Meta != was || e.Value.User != "ann" {
				t.Errorf("stored is %+v; want what was dead, %+v", e, was)
			}
		})
	}
}
