package sqltest

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// shared are the servers of a package whose TestMain calls Main.
var shared struct {
	mu      sync.Mutex // guards the rest
	wanted  bool
	servers map[Database]started
}

type started struct {
	server *Server
	err    error
}

// Main runs a package's tests, for its TestMain, with one server of each kind for all of
// them. It returns the exit code.
func Main(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.wanted, shared.servers = true, make(map[Database]started)
	shared.mu.Unlock()

	code := m.Run()

	shared.mu.Lock()
	defer shared.mu.Unlock()
	for _, s := range shared.servers {
		if s.server == nil {
			continue
		}
		if err := s.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	shared.wanted, shared.servers = false, nil
	return code
}

// Start returns a server. If TestMain calls [Main] it is the package's, else the test's
// own, which stops when the test ends. If no server can be started, Start fails the test.
func Start(t testing.TB, db Database) *Server {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !shared.wanted {
		s, err := Run(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	s, ok := shared.servers[db]
	if !ok {
		// It serves other tests after this one.
		s.server, s.err = Run(context.WithoutCancel(t.Context()), db)
		shared.servers[db] = s
	}
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// DB returns an empty database that no other test uses. It is a schema of the server that
// [Start] returns, or a file for SQLite. It is closed and dropped when the test ends.
func DB(t testing.TB, db Database) *stdsql.DB {
	t.Helper()
	driver, dsn := DSN(t, db)
	pool, err := stdsql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() }) // a broken connection returns an error
	return pool
}

// DSN is DB for a test that opens its database itself. It returns the driver's name in
// database/sql, and the name to open. Nothing may use the database when the test ends.
func DSN(t testing.TB, db Database) (driver, dsn string) {
	t.Helper()
	if db == SQLite {
		return "sqlite", SQLiteDSN(filepath.Join(t.TempDir(), "test.db"))
	}
	s := Start(t, db)
	driver, dsn, drop, err := s.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Errorf("sqltest: dropping a schema: %v", err)
		}
	})
	return driver, dsn
}

// SQLiteDSN returns the DSN of a SQLite file for several connections. Readers do not wait for
// the writer, and writers wait for each other. Writes survive a crash of the program, not of the
// machine.
func SQLiteDSN(file string) string {
	return "file:" + file + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(normal)"
}

var schemas atomic.Int64

// Schema creates a unique schema, also if several programs share the server. It returns the DSN
// to open it, and a function that drops it.
func (s *Server) Schema(ctx context.Context) (driver, dsn string, drop func(context.Context) error, err error) {
	name := "sqltest_" + strconv.Itoa(os.Getpid()) + "_" + strconv.FormatInt(schemas.Add(1), 10)
	k := kinds[s.db]
	if err := s.do(ctx, "CREATE SCHEMA "+name); err != nil {
		return "", "", nil, err
	}
	if s.db == PostgreSQL {
		dsn = s.DSN + " search_path=" + name
		if strings.Contains(s.DSN, "://") {
			separator := "?"
			if strings.Contains(s.DSN, "?") {
				separator = "&"
			}
			dsn = s.DSN + separator + "search_path=" + name
		}
		return k.driver, dsn, func(ctx context.Context) error { return s.do(ctx, "DROP SCHEMA "+name+" CASCADE") }, nil
	}
	before, after, _ := strings.Cut(s.DSN[strings.LastIndexByte(s.DSN, '/')+1:], "?")
	dsn = strings.TrimSuffix(strings.TrimSuffix(s.DSN, "?"+after), before) + name
	if after != "" {
		dsn += "?" + after
	}
	return k.driver, dsn, func(ctx context.Context) error { return s.do(ctx, "DROP SCHEMA "+name) }, nil
}

func (s *Server) do(ctx context.Context, statement string) error {
	db, err := stdsql.Open(kinds[s.db].driver, s.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(ctx, statement)
	return err
}
