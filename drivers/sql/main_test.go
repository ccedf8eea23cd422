package sql

import (
	"context"
	stdsql "database/sql"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gomysql "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

func TestMain(m *testing.M) {
	// Cases wait for servers more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := sqltest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// databases are those that tests of common behaviour run on.
var databases = map[string]struct {
	dialect Dialect
	server  sqltest.Database
}{
	"postgres": {PostgreSQL, sqltest.PostgreSQL},
	"mariadb":  {MySQL, sqltest.MariaDB},
	"sqlite":   {SQLite, sqltest.SQLite},
}

// onAll runs test on every database.
func onAll(t *testing.T, test func(t *testing.T, db *stdsql.DB, dialect Dialect)) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) { test(t, sqltest.DB(t, d.server), d.dialect) })
	}
}

type session struct {
	User string `json:"user"`
}

var tables atomic.Int64

// open makes a table as opts asks for.
func open[T any](t testing.TB, db *stdsql.DB, dialect Dialect, opts *Options[T]) *Driver[T] {
	t.Helper()
	d, err := New(db, dialect, fmt.Sprintf("t%d", tables.Add(1)), opts)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Learn(t.Context()); err != nil { // without it a read makes no touch
		t.Fatal(err)
	}
	return d
}

// moved is a database whose clock is ahead by the time in its table "moved".
type moved struct{ dialect }

func (m moved) clock() string { return "(" + m.dialect.clock() + " + (SELECT ms FROM moved))" }
func (m moved) began() string { return "(" + m.dialect.began() + " + (SELECT ms FROM moved))" }

// settings: the file that the contract's cases can lock has no WAL, since readers of a WAL ignore
// locks.
func (m moved) settings(ctx context.Context, db *stdsql.DB, times []TimeType) error {
	if m.types().inProcess {
		return nil
	}
	return m.dialect.settings(ctx, db, times)
}

func (t *table) setDialect(d dialect) {
	t.dialect = d
	t.sql = t.statements()
}

// movable gives d's database a clock that can be moved, and makes d learn it.
func movable[T any](t testing.TB, d *Driver[T]) (move func(time.Duration)) {
	t.Helper()
	if _, err := d.db.ExecContext(t.Context(), "CREATE TABLE moved (ms BIGINT)"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.ExecContext(t.Context(), "INSERT INTO moved VALUES (0)"); err != nil {
		t.Fatal(err)
	}
	d.setDialect(moved{d.dialect})
	if _, err := d.ask(t.Context()); err != nil {
		t.Fatal(err)
	}
	return func(by time.Duration) {
		if _, err := d.db.ExecContext(context.Background(), fmt.Sprintf("UPDATE moved SET ms = ms + %d", by.Milliseconds())); err != nil {
			t.Error(err)
		}
	}
}

// base is the time at which most tests happen.
var base = driver.Floor(time.Date(2030, 1, 2, 3, 4, 5, 678e6, time.UTC))

// lasting is the life of a record created at base that expires after ttl.
func lasting(ttl time.Duration) driver.Life {
	return driver.Life{CreatedAt: base, ExpiresAt: base.Add(ttl)}
}

func (d *Driver[T]) mustInsert(t testing.TB, key string, v T, life driver.Life) driver.Meta {
	t.Helper()
	version, err := d.Insert(t.Context(), key, v, life, base)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Meta{Life: life, Version: version}
}

func (d *Driver[T]) mustGet(t testing.TB, key string) driver.Entry[T] {
	t.Helper()
	e, err := d.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// mustExec executes a statement, as another program would.
func mustExec(t testing.TB, db *stdsql.DB, dialect Dialect, statement string, args ...any) {
	t.Helper()
	speaks := dialects[dialect]
	if _, err := db.ExecContext(t.Context(), speaks.bind(statement), args...); err != nil {
		t.Fatal(err)
	}
}

// wire intercepts a pool's connections to its server.
type wire struct {
	mu      sync.Mutex // guards the rest
	failing bool
	hanging bool
	conns   map[*wireConn]bool

	cut func() cut // called when a statement is sent to be executed; nil: nothing is cut

	gate *drivertest.Gate // statements pass it; nil: no gate
}

// set sets the function that decides about sent statements.
func (w *wire) set(cut func() cut) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = cut
}

// cut is what happens to a connection about to send.
type cut int

const (
	whole  cut = iota
	before     // it breaks before anything was sent
	after      // it breaks before the answer comes
)

var errCut = errors.New("cut by the test")

// maxIdle is how many idle connections stay open. The default of two would make most calls of a
// race open a new one.
const maxIdle = 20

// pool opens a schema of its own, through w.
func (w *wire) pool(t testing.TB, server sqltest.Database) *stdsql.DB {
	t.Helper()
	_, dsn := sqltest.DSN(t, server)
	var db *stdsql.DB
	var dialer net.Dialer
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return w.dial(func() (net.Conn, error) { return dialer.DialContext(ctx, network, address) })
	}
	switch server {
	case sqltest.PostgreSQL:
		cfg, err := pgx.ParseConfig(dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.DialFunc = dial
		db = stdlib.OpenDB(*cfg)
	case sqltest.MariaDB:
		cfg, err := gomysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Logger = &gomysql.NopLogger{}
		cfg.DialFunc = dial
		c, err := gomysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db = stdsql.OpenDB(c)
	}
	db.SetMaxIdleConns(maxIdle)
	t.Cleanup(func() { _ = db.Close() }) // a broken connection returns an error
	return db
}

func (w *wire) dial(dial func() (net.Conn, error)) (net.Conn, error) {
	w.mu.Lock()
	failing := w.failing
	w.mu.Unlock()
	if failing {
		return nil, &net.OpError{Op: "dial", Err: errCut}
	}
	conn, err := dial()
	if err != nil {
		return nil, err
	}
	if w.gate != nil { // behind the wire, which breaks with its own error
		if conn, err = w.gate.Conn(conn, executes); err != nil {
			return nil, err
		}
	}
	c := &wireConn{Conn: conn, w: w}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns == nil {
		w.conns = make(map[*wireConn]bool)
	}
	w.conns[c] = true
	return c, nil
}

// fail breaks all connections, and refuses new ones.
func (w *wire) fail() (mend func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failing = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.failing = false
	}
}

// hang holds all that is sent.
func (w *wire) hang() (release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hanging = true
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.hanging = false
		for c := range w.conns {
			_, _ = c.Conn.Write(c.kept) // fails if the connection was given up
			c.kept = nil
		}
	}
}

type wireConn struct {
	net.Conn
	w    *wire
	kept []byte // like deaf, guarded by w.mu
	deaf bool
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.w.hanging {
		c.kept = append(c.kept, p...)
		return len(p), nil
	}
	if c.w.failing {
		_ = c.Conn.Close()
		return 0, &net.OpError{Op: "write", Err: errCut}
	}
	how := whole
	if c.w.cut != nil && executes(p) {
		how = c.w.cut()
	}
	if how == before {
		_ = c.Conn.Close()
		return 0, &net.OpError{Op: "write", Err: errCut}
	}
	c.deaf = c.deaf || how == after
	return c.Conn.Write(p)
}

// Read drops the answers of a connection that is cut.
func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if c.deaf && err == nil {
		_ = c.Conn.Close()
		return 0, &net.OpError{Op: "read", Err: errCut}
	}
	return n, err
}

// executes reports whether p begins with PostgreSQL's Bind or MySQL's COM_STMT_EXECUTE, which
// execute a prepared statement.
func executes(p []byte) bool { return p[0] == 'B' || len(p) > 4 && p[3] == 0 && p[4] == 0x17 }

func (c *wireConn) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	delete(c.w.conns, c)
	return c.Conn.Close()
}
