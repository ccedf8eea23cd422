package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

type value = drivertest.Value

// rest stores a whole value in a column, like an application's own type.
type rest struct{ v *value }

func (r rest) Scan(src any) error {
	switch src := src.(type) {
	case []byte:
		return json.Unmarshal(src, r.v)
	case string:
		return json.Unmarshal([]byte(src), r.v)
	}
	return fmt.Errorf("a %T", src)
}

func (r rest) Value() (sqldriver.Value, error) {
	text, err := json.Marshal(r.v)
	return string(text), err
}

// own is an application's table: a key of two columns, a value in columns, and readable
// created_at and expires_at.
var own = Options[value]{
	Key: Key{
		Columns: []string{"tenant", "name"},
		Split: func(key string) ([]any, error) {
			return []any{int64(len(key) % 3), key}, nil
		},
		Join: func(columns []string) string { return columns[1] },
	},
	Row: Row[value]{
		Columns: []string{"text", "all"},
		Fields:  func(v *value) []any { return []any{&v.Text, rest{v}} },
	},
	CreatedAt: TimeColumn{Name: "made", Type: Timestamp},
	ExpiresAt: TimeColumn{Name: "Ends", Type: DateTime},
	SweepAt:   "look at",
	Version:   "select",
	Retain:    time.Hour,
}

var ownTable = map[Dialect]string{
	PostgreSQL: `CREATE TABLE own (tenant bigint, name text COLLATE "C", text text, "all" json, made timestamptz, PRIMARY KEY (tenant, name))`,
	MySQL:      "CREATE TABLE own (tenant BIGINT, name VARBINARY(255), text LONGTEXT CHARACTER SET utf8mb4, `all` JSON, made TIMESTAMP(3) NULL, PRIMARY KEY (tenant, name))",
	SQLite:     `CREATE TABLE own (tenant INTEGER, name TEXT, text TEXT, "all" TEXT, made TEXT, PRIMARY KEY (tenant, name))`,
}

func TestContract(t *testing.T) {
	for name, d := range databases {
		for layout, opts := range map[string]*Options[value]{"json": nil, "own": &own} {
			t.Run(name+"/"+layout, func(t *testing.T) {
				t.Parallel()
				contract(t, d.dialect, d.server, layout, opts)
			})
		}
	}
}

// contract runs the suite. The statements judge by a clock that the suite moves, so no case
// waits.
func contract(t *testing.T, dialect Dialect, server sqltest.Database, layout string, opts *Options[value]) {
	lacks := map[drivertest.Feature]string{
		drivertest.Local:    "the store is outside of this process's memory",
		drivertest.Mender:   "a column holds what its type says",
		drivertest.Apart:    "the clock that is moved here is what the driver has learned",
		drivertest.Replaced: "the server replaces unseen; Options.Replaced keeps it",
	}
	malforms := dialect == SQLite && layout == "json"
	if !malforms {
		lacks[drivertest.Malform] = "a column of this layout holds nothing but its type"
	}
	if dialect == SQLite {
		lacks[drivertest.Gated] = "its writes pass no wire"
	}
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			w := new(wire)
			b := &drivertest.Backend{Fail: w.fail, Hang: w.hang, MaxKey: defaultMaxKey}
			var db *stdsql.DB
			if dialect == SQLite {
				db = lockable(t, b)
			} else {
				w.gate = new(drivertest.Gate)
				b.Gate = w.gate
				db = w.pool(t, server)
				b.Own = func(err error) bool {
					var own *net.OpError
					return errors.As(err, &own)
				}
			}
			var d *Driver[value]
			if layout == "own" {
				mustExec(t, db, dialect, ownTable[dialect])
				var err error
				if d, err = New(db, dialect, "own", opts); err != nil {
					t.Fatal(err)
				}
				if err := d.EnsureTable(t.Context()); err != nil {
					t.Fatal(err)
				}
			} else {
				d = open(t, db, dialect, opts)
			}
			b.Driver = d
			move := movable(t, d)
			b.Now = d.Now
			b.Wait = func(wait time.Duration) {
				until := d.Now().Add(wait) // by what the driver knows, which each answer corrects
				for left := wait; left > 0; left = until.Sub(d.Now()) {
					move(left + time.Millisecond) // the clock's resolution
					if _, err := d.ask(context.Background()); err != nil {
						t.Error(err)
						return
					}
				}
			}
			b.Retain = func(retain time.Duration) driver.Driver[value] {
				var o Options[value]
				if opts != nil {
					o = *opts
				}
				o.Retain = retain
				other, err := New(db, dialect, d.name, &o)
				if err != nil {
					t.Fatal(err)
				}
				other.setDialect(d.dialect)
				return other
			}
			b.Hostile = func(ctx context.Context, r drivertest.HostileRecord) error {
				return loadHostile(ctx, db, d, r)
			}
			b.Sweep = sweep(t, d)
			b.Again = func() driver.Driver[value] {
				other, err := New(db, dialect, d.name, opts)
				if err != nil {
					t.Error(err)
				}
				return other
			}
			b.Plant = func(ctx context.Context, key string, v value, life driver.Life) error {
				return plant(ctx, d, key, v, life)
			}
			if malforms {
				b.Malform = func(ctx context.Context, key string, v value) error {
					now := driver.Floor(d.Now())
					if _, err := d.Insert(ctx, key, v, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
						return err
					}
					_, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET %s = 'yesterday' WHERE %s = ?", d.quoted(), d.dialect.quote(d.created.Name), d.keyColumns()[0]), key)
					return err
				}
			}
			return b
		},
		Lacks: lacks,
	})
}

// How long SQLite's connections wait for a lock: by default; in tests that want the error at
// once; and in tests of a call that outlasts its context, which SQLite ignores while it waits
// for a lock.
const (
	patient   = 10 * time.Second
	impatient = 0
	lingering = time.Second
)

// file is a SQLite file that one connection can lock: then all others are busy.
type file struct {
	path     string
	patience atomic.Int64 // of new connections
}

// Connect implements driver.Connector.
func (f *file) Connect(ctx context.Context) (sqldriver.Conn, error) {
	c, err := modernc.NewConnector(fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(delete)&_pragma=synchronous(off)",
		f.path, time.Duration(f.patience.Load()).Milliseconds()))
	if err != nil {
		return nil, err
	}
	return c.Connect(ctx)
}

// Driver implements driver.Connector.
func (f *file) Driver() sqldriver.Driver { return nil }

// lockable opens a SQLite file whose lock the test can take.
func lockable(t testing.TB, b *drivertest.Backend) *stdsql.DB {
	f := &file{path: filepath.Join(t.TempDir(), "test.db")}
	f.patience.Store(int64(patient))
	openFile := func() *stdsql.DB {
		db := stdsql.OpenDB(f)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	db, locker := openFile(), openFile()
	db.SetMaxIdleConns(maxIdle)
	// reconnect replaces the idle connections by two of that patience.
	reconnect := func(patience time.Duration) {
		f.patience.Store(int64(patience))
		disconnect(db)
		for range 2 {
			conn, err := db.Conn(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
		}
	}
	lock := func(patience time.Duration) func() func() {
		return func() func() {
			reconnect(patience)
			conn, err := locker.Conn(context.Background())
			if err == nil {
				_, err = conn.ExecContext(context.Background(), "BEGIN EXCLUSIVE")
			}
			if err != nil {
				t.Error(err)
			}
			return sync.OnceFunc(func() {
				if _, err := conn.ExecContext(context.Background(), "ROLLBACK"); err != nil {
					t.Error(err)
				}
				_ = conn.Close()
				reconnect(patient)
			})
		}
	}
	b.Fail, b.Hang = lock(impatient), lock(lingering)
	b.Own = func(err error) bool {
		var own interface{ Code() int }
		return errors.As(err, &own) && own.Code()&0xff == 5
	}
	return db
}

// plant writes a row as a program would that knows the table and not the driver.
func plant(ctx context.Context, d *Driver[value], key string, v value, life driver.Life) error {
	k, err := d.key.row(key, 0)
	if err != nil {
		return err
	}
	values, err := d.codec.encode(v)
	if err != nil {
		return err
	}
	if err := d.Delete(ctx, key); err != nil {
		return err
	}
	q := d.dialect.quote
	columns, marks, args := d.keyColumns(), listed("?", len(k.columns)), k.columns
	for i, c := range d.values {
		columns, marks, args = append(columns, q(c)), marks+", ?", append(args, values[i])
	}
	for _, c := range []struct {
		TimeColumn
		at driver.Instant
	}{{d.created, life.CreatedAt}, {d.expires, life.ExpiresAt}} {
		if c.at != 0 {
			columns, marks, args = append(columns, q(c.Name)), marks+", "+d.dialect.written(c.Type, "?"), append(args, int64(c.at))
		}
	}
	_, err = d.db.ExecContext(ctx, d.dialect.bind("INSERT INTO "+d.quoted()+" ("+strings.Join(columns, ", ")+") VALUES ("+marks+")"), args...)
	return err
}
