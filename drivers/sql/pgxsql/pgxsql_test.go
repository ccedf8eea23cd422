package pgxsql_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	stdsql "database/sql"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/pgxsql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

func TestMain(m *testing.M) {
	code := sqltest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

var (
	tables  atomic.Int64
	errDown = errors.New("down, says the test")
)

// wire is between a pool and its server, and can fail, hang and be a gate.
type wire struct {
	gate    drivertest.Gate
	mu      sync.Mutex // guards the rest
	down    bool
	hanging bool
	conns   map[*wired]bool
}

// set changes the wire, and returns what undoes that.
func (w *wire) set(state *bool) (undo func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	*state = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*state = false
		for c := range w.conns {
			_, _ = c.Conn.Write(c.kept) // fails if the connection was given up
			c.kept = nil
		}
	}
}

func (w *wire) dial(ctx context.Context, network, address string) (net.Conn, error) {
	w.mu.Lock()
	down := w.down
	w.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Err: errDown}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	// PostgreSQL's Bind executes a prepared statement.
	if conn, err = w.gate.Conn(conn, func(p []byte) bool { return p[0] == 'B' }); err != nil {
		return nil, err
	}
	c := &wired{Conn: conn, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = true
	return c, nil
}

type wired struct {
	net.Conn
	w    *wire
	kept []byte // guarded by w.mu: what was sent while the wire hung
}

func (c *wired) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	switch {
	case c.w.hanging:
		c.kept = append(c.kept, p...)
		return len(p), nil
	case c.w.down:
		_ = c.Conn.Close()
		return 0, &net.OpError{Op: "write", Err: errDown}
	}
	return c.Conn.Write(p)
}

func (c *wired) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	delete(c.w.conns, c)
	return c.Conn.Close()
}

// connect returns a pool of a schema of its own, whose clock move sets ahead: the schema's functions
// stand before those of pg_catalog.
func connect(t testing.TB, dial func(ctx context.Context, network, address string) (net.Conn, error)) (pool *pgxpool.Pool, move func(time.Duration)) {
	t.Helper()
	_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	cfg, err := pgxpool.ParseConfig(dsn)
	ok(t, "ParseConfig", err)
	cfg.MaxConns = 20
	cfg.ConnConfig.RuntimeParams["search_path"] += ", pg_catalog"
	plain := cfg.Copy()
	if dial != nil {
		cfg.ConnConfig.DialFunc = dial
	}
	admin, err := pgxpool.NewWithConfig(t.Context(), plain)
	ok(t, "pgxpool.New", err)
	t.Cleanup(admin.Close)
	exec := func(statement string) {
		t.Helper()
		if _, err := admin.Exec(context.Background(), statement); err != nil {
			t.Error(err)
		}
	}
	exec("CREATE TABLE moved AS SELECT interval '0' AS ahead")
	for _, clock := range []string{"clock_timestamp", "statement_timestamp"} {
		exec("CREATE FUNCTION " + clock + "() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog." + clock + "() + ahead FROM moved'")
	}
	pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	ok(t, "pgxpool.New", err)
	t.Cleanup(pool.Close)
	return pool, func(by time.Duration) {
		exec(fmt.Sprintf("UPDATE moved SET ahead = ahead + interval '%d milliseconds'", by.Milliseconds()))
	}
}

func open[T any](t testing.TB, pool *pgxpool.Pool, table string, opts *sql.Options[T]) *pgxsql.Driver[T] {
	t.Helper()
	d, err := pgxsql.New(pool, table, opts)
	ok(t, "New", err)
	t.Cleanup(func() { _ = d.Close() })
	ok(t, "EnsureTable", d.EnsureTable(t.Context()))
	return d
}

func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		Parallel: true,
		Lacks: map[drivertest.Feature]string{
			drivertest.Local:    "the store is outside of this process's memory",
			drivertest.Mender:   "a column holds what its type says",
			drivertest.Apart:    "is tested with drivers/sql",
			drivertest.Replaced: "the server replaces unseen; Options.Replaced keeps it",
			drivertest.Malform:  "a column holds nothing but its type",
			drivertest.Hostile:  "is tested with drivers/sql",
		},
		Open: func(t testing.TB) *drivertest.Backend {
			w := &wire{conns: make(map[*wired]bool)}
			pool, move := connect(t, w.dial)
			table := fmt.Sprintf("t%d", tables.Add(1))
			d := open[drivertest.Value](t, pool, table, nil)
			ok(t, "Check", d.Check(t.Context(), 0)) // asks for the time
			again := func(retain time.Duration) *pgxsql.Driver[drivertest.Value] {
				return open(t, pool, table, &sql.Options[drivertest.Value]{Retain: retain})
			}
			return &drivertest.Backend{
				Driver: d,
				Now:    d.Now,
				Wait: func(by time.Duration) {
					until := d.Now().Add(by)
					for left := by; left > 0; left = until.Sub(d.Now()) {
						move(left + time.Millisecond)
						if err := d.Check(context.Background(), 0); err != nil { // asks for the time, and finds the clock moved
							t.Log(err)
						}
					}
				},
				Fail: func() func() { return w.set(&w.down) },
				Hang: func() func() { return w.set(&w.hanging) },
				Own: func(err error) bool {
					own, ok := errors.AsType[*net.OpError](err)
					return ok && own.Err == errDown
				},
				Gate: &w.gate,
				Again: func() driver.Driver[drivertest.Value] {
					other, err := pgxpool.New(context.Background(), pool.Config().ConnString())
					ok(t, "pgxpool.New", err)
					t.Cleanup(other.Close)
					return open[drivertest.Value](t, other, table, nil)
				},
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] { return again(retain) },
				MaxKey: 255,
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					text, err := json.Marshal(v)
					if err != nil {
						return err
					}
					null := func(i driver.Instant) any {
						if i == 0 {
							return nil
						}
						return int64(i)
					}
					if err := d.Delete(ctx, key); err != nil {
						return err
					}
					_, err = pool.Exec(ctx, "INSERT INTO "+table+" (id, value, created_at, expires_at) VALUES ($1, $2, $3, $4)", key, string(text), null(life.CreatedAt), null(life.ExpiresAt))
					return err
				},
				Sweep: func(ctx context.Context) error {
					s, err := d.Sweeper(&sql.SweepOptions{Now: d.Now})
					if err != nil {
						return err
					}
					return s.Sweep(ctx)
				},
			}
		},
	})
}

// Writes in a pgx transaction exist once it is committed, and are rolled back with it; reads in it
// see them.
func TestWithTx(t *testing.T) {
	pool, _ := connect(t, nil)
	d := open[string](t, pool, "records", nil)
	store, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 2 * time.Hour}, nil)
	ok(t, "slidingttl.New", err)
	defer func() { ok(t, "Close", store.Close(context.Background())) }()
	ctx := t.Context()
	for _, commit := range []bool{false, true} {
		ok(t, "Upsert", store.Upsert(ctx, "k", "old"))
		tx, err := pool.Begin(ctx)
		ok(t, "Begin", err)
		in := pgxsql.WithTx(ctx, tx)
		ok(t, "Upsert", store.Upsert(in, "k", "new"))
		ok(t, "Insert", store.Insert(in, "inserted", "new"))
		var many []slidingttl.Item[string]
		for i := range 20 {
			many = append(many, slidingttl.Item[string]{Key: fmt.Sprint("many", i), Value: "new"})
		}
		ok(t, "UpsertMulti", store.UpsertMulti(in, many))
		if v, err := store.Get(in, "k"); err != nil || v != "new" {
			t.Errorf("Get in the transaction: %q, %v", v, err)
		}
		if found, err := store.GetMulti(in, []string{"k", "inserted"}); err != nil || len(found) != 2 {
			t.Errorf("GetMulti in the transaction: %v, %v", found, err)
		}
		if v, err := store.Get(ctx, "k"); err != nil || v != "old" {
			t.Errorf("Get beside it: %q, %v", v, err)
		}
		want, wantErr := "new", error(nil)
		if commit {
			ok(t, "Commit", tx.Commit(ctx))
		} else {
			ok(t, "Rollback", tx.Rollback(ctx))
			want, wantErr = "old", slidingttl.ErrNotFound
		}
		if v, err := store.Get(ctx, "k"); err != nil || v != want {
			t.Errorf("Get afterwards: %q, %v; want %q", v, err, want)
		}
		if _, err := store.Get(ctx, "inserted"); !errors.Is(err, wantErr) {
			t.Errorf("Get of what was inserted: %v; want %v", err, wantErr)
		}
	}
}

// A pool whose connections all broke still reads and writes.
func TestBrokenConnections(t *testing.T) {
	pool, _ := connect(t, nil)
	d := open[string](t, pool, "records", nil)
	now := driver.Floor(d.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	cut := func() {
		for _, idle := range pool.AcquireAllIdle(t.Context()) {
			_ = idle.Conn().PgConn().Conn().Close()
			idle.Release()
		}
	}
	cut()
	_, err := d.Insert(t.Context(), "k", "v", life, now)
	ok(t, "Insert", err)
	cut()
	_, err = d.Get(t.Context(), "k")
	ok(t, "Get", err)
}

// A row of another shape is an error of its own, and hides no other's.
func TestOddRow(t *testing.T) {
	pool, _ := connect(t, nil)
	d := open[map[string]int](t, pool, "records", nil)
	for _, row := range []string{`('a', '{"n": 1}')`, `('b', '[]')`, `('c', '{"n": 3}')`} {
		_, err := pool.Exec(t.Context(), "INSERT INTO records (id, value) VALUES "+row)
		ok(t, "INSERT", err)
	}
	found, err := d.GetMulti(t.Context(), []string{"a", "b", "c"})
	failed, _ := errors.AsType[driver.KeyErrors](err)
	if len(found) != 2 || len(failed) != 1 || failed[0].Index != 1 {
		t.Errorf("GetMulti: %v, %v; want a and c, and an error of key 1", found, err)
	}
}

// BenchmarkReads compares reads over a pgxpool with those of database/sql, by turns, with 16
// goroutines for a core.
func BenchmarkReads(b *testing.B) {
	const keys = 500
	pool, _ := connect(b, nil)
	native := open[Session](b, pool, "records", nil)
	db, err := stdsql.Open("pgx", pool.Config().ConnString())
	ok(b, "Open", err)
	defer db.Close()
	db.SetMaxOpenConns(20)
	db.SetMaxIdleConns(20)
	standard, err := sql.New[Session](db, sql.PostgreSQL, "records", nil)
	ok(b, "New", err)
	now := driver.Floor(native.Now())
	for i := range keys {
		_, err := native.Insert(b.Context(), fmt.Sprint(i), Session{strings.Repeat("x", 200)}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(b, "Insert", err)
	}
	for round := range 3 {
		for name, d := range map[string]driver.Driver[Session]{"pgx": native, "database-sql": standard} {
			b.Run(fmt.Sprintf("%s-%d", name, round), func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
				var next atomic.Int64
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						if _, err := d.Get(context.Background(), fmt.Sprint(next.Add(1)%keys)); err != nil {
							b.Error(err)
						}
					}
				})
			})
		}
	}
}

type (
	level string
	blob  []byte
)

// zoned is noon in a zone of its own.
var zoned = time.Date(2026, 11, 30, 14, 0, 0, 0, time.FixedZone("", 2*60*60))

// TestColumns: where Check passes a field of Options.Row, pgx reads each value back as it was written, or it is refused when
// it is written.
func TestColumns(t *testing.T) {
	for _, access := range []string{"", " default_query_exec_mode=exec", " default_query_exec_mode=simple_protocol"} {
		_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
		pool, err := pgxpool.New(t.Context(), dsn+access)
		ok(t, "pgxpool.New", err)
		defer pool.Close()
		for i, of := range []string{"text", "bigint", "numeric", "real", "double precision", "timestamp", "timestamptz", "date", "json", "jsonb", "bytea", "uuid", "inet", "macaddr", "boolean", "text[]"} {
			f := fieldsIn{t, pool, fmt.Sprint("own", i), access, of, false}
			_, err = pool.Exec(t.Context(), `CREATE TABLE `+f.table+` (id text COLLATE "C" PRIMARY KEY, f `+of+`, created_at bigint, expires_at bigint, sweep_at bigint NOT NULL DEFAULT 0, version bigint)`)
			ok(t, "CREATE TABLE", err)
			_, err = pool.Exec(t.Context(), "CREATE INDEX ON "+f.table+" (sweep_at)")
			ok(t, "CREATE INDEX", err)
			field(f, 7, -1)
			field(f, true)
			field(f, 1.5, 0.1, math.NaN(), math.Inf(1))
			field(f, float32(0.1), float32(math.NaN()))
			field(f, level("x"), "7", "true", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
			field(f, uint64(7))
			field(f, "[1,2]", "7", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
			field(f, zoned.UTC(), zoned, zoned.AddDate(0, 8, 0))
			field(f, &zoned)
			field(f, stdsql.Null[time.Time]{V: zoned, Valid: true})
			field(f, blob("ann"), blob("7"), blob("[1, 2]"), blob("a0eebc999c0b4ef8"))
			field(f, json.RawMessage("7"), json.RawMessage(`{"a": [1, "b"]}`))
			field(f, net.IP{1, 2, 3, 4}, net.ParseIP("1.2.3.4"), net.ParseIP("2001:db8::1"))
			field(f, net.HardwareAddr{1, 2, 3, 4, 5, 6})
			field(f, stdsql.RawBytes("ann"), stdsql.RawBytes("bob"), stdsql.RawBytes("777"))
			field(f, pgtype.DriverBytes("ann"), pgtype.DriverBytes("bob"), pgtype.DriverBytes("777"))
			field[any](f, "7", int64(7), 1.5, true, []byte("7"))
			f.sound = true
			switch of {
			case "text":
				field(f, level("x"))
				field(f, []byte("ann"))
			case "bigint":
				field(f, level("7"))
				field(f, uint64(7))
			case "numeric":
				field(f, 1.5, math.NaN())
			case "real":
				field(f, float32(0.1))
			case "timestamp", "timestamptz":
				field(f, zoned)
			case "jsonb":
				field(f, 7)
				field(f, json.RawMessage(`{"a": [1, "b"]}`))
				field(f, []byte("[1, 2]"))
			case "bytea":
				field(f, blob("ann"))
				field(f, []byte("ann"))
			case "macaddr":
				if access == "" {
					field(f, net.HardwareAddr{1, 2, 3, 4, 5, 6})
				}
			case "inet":
				if access != " default_query_exec_mode=simple_protocol" {
					field(f, net.IP{1, 2, 3, 4})
				}
			case "text[]":
				field(f, []string{"a", "b"})
			}
		}
	}
}

// fieldsIn is a table whose column f is of a type.
type fieldsIn struct {
	t                     *testing.T
	pool                  *pgxpool.Pool
	table, access, column string
	sound                 bool // Check must pass
}

// field tries values of a type.
func field[F any](f fieldsIn, values ...F) {
	type row struct{ F F }
	f.t.Helper()
	d, err := pgxsql.New(f.pool, f.table, &sql.Options[row]{Row: sql.Row[row]{Columns: []string{"f"}, Fields: func(r *row) []any { return []any{&r.F} }}})
	ok(f.t, "New", err)
	defer func() { _ = d.Close() }()
	of := reflect.TypeFor[F]()
	what := fmt.Sprintf("%s in %s%s", of, f.column, f.access)
	if err = d.Check(f.t.Context(), time.Hour); err != nil {
		if f.sound || !errors.Is(err, driver.ErrInvalid) {
			f.t.Errorf("%s: Check: %v", what, err)
		}
		return
	}
	now, kept := driver.Floor(d.Now()), 0
	var before F
	var was string
	for i, v := range values {
		key := fmt.Sprint(of, i, f.sound)
		if _, err = d.Insert(f.t.Context(), key, row{v}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				f.t.Errorf("%s: Insert of %s fails without a name: %v", what, f.told(v), err)
			}
			continue
		}
		e, err := d.Get(f.t.Context(), key)
		if want, got := f.told(v), f.told(e.Value.F); err != nil || got != want {
			f.t.Errorf("%s passes Check: Get of %s is %s, %v", what, want, got, err)
		}
		if kept > 0 && f.told(before) != was {
			f.t.Errorf("%s passes Check: the next Get makes %s of %s", what, f.told(before), was)
		}
		before, was = e.Value.F, f.told(e.Value.F)
		kept++
	}
	if kept == 0 && (of.Kind() != reflect.Slice || of.Elem().Kind() != reflect.Uint8) { // bytes, of which the column may refuse each
		f.t.Errorf("%s: Check passes, and none of %d values is kept", what, len(values))
	}
}

// told is a value and its type as a text: a time as that of UTC, and bytes of JSON without spaces.
func (f fieldsIn) told(v any) string {
	text, err := json.Marshal(v)
	switch at := v.(type) {
	case time.Time:
		text = fmt.Append(nil, at.UTC())
	case *time.Time:
		text = fmt.Append(nil, at.UTC())
	case stdsql.Null[time.Time]:
		text = fmt.Append(nil, at.V.UTC())
	default:
		var compact bytes.Buffer
		if is := reflect.ValueOf(v); is.IsValid() && is.Kind() == reflect.Slice && is.Type().Elem().Kind() == reflect.Uint8 && strings.HasPrefix(f.column, "json") && json.Compact(&compact, is.Bytes()) == nil {
			text = compact.Bytes()
		} else if err != nil { // of what JSON has not
			text = fmt.Append(nil, v)
		}
	}
	return fmt.Sprintf("%T %s", v, text)
}

// TestOneConnection: Check of a pool of one connection waits for no second one.
func TestOneConnection(t *testing.T) {
	_, dsn := sqltest.DSN(t, sqltest.PostgreSQL)
	pool, err := pgxpool.New(t.Context(), dsn+" pool_max_conns=1")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	d, err := pgxsql.New[string](pool, "one", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // less than it waits for a connection that others use
	defer cancel()
	if err := d.Check(ctx, time.Hour); err != nil {
		t.Errorf("Check: %v", err)
	}
}

// TestSharedPool: touches by two drivers over one pool, which wait for locked rows, leave connections
// for reads.
func TestSharedPool(t *testing.T) {
	pool, _ := connect(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // ends a hang
	defer cancel()
	var drivers [2]*pgxsql.Driver[string]
	var was [2]driver.Meta
	now := driver.Floor(time.Now())
	for i, table := range []string{"one", "two"} {
		d := open[string](t, pool, table, nil)
		drivers[i], was[i].Life = d, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
		var err error
		was[i].Version, err = d.Insert(ctx, "k", "v", was[i].Life, now)
		ok(t, "Insert", err)
	}
	tx, err := pool.Begin(ctx)
	ok(t, "Begin", err)
	for _, table := range []string{"one", "two"} {
		_, err := tx.Exec(ctx, "SELECT * FROM "+table+" FOR UPDATE")
		ok(t, "SELECT", err)
	}
	touches, giveUp := context.WithCancel(ctx)
	var touching sync.WaitGroup
	defer func() {
		giveUp()
		touching.Wait()
		_ = tx.Rollback(context.Background())
	}()
	for range 20 { // by each: as many as the pool has connections
		for i, d := range drivers {
			touching.Go(func() {
				_, _ = d.Touch(touches, "k", was[i], driver.Life{CreatedAt: now, ExpiresAt: was[i].ExpiresAt.Add(time.Hour)}, now)
			})
		}
	}
	for pool.Stat().AcquiredConns() < 1+15 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	for i := range 20 {
		_, err := drivers[i%2].Get(ctx, "k")
		ok(t, "Get beside touches that wait", err)
	}
}
