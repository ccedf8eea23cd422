package stores

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// database is one that the SQL driver runs on.
type database struct {
	dialect  sql.Dialect
	server   sqltest.Database
	driver   string
	argument func(n int) string
	durable  bool // flushes each commit to disk
}

func mark(int) string { return "?" }

var (
	postgres = database{sql.PostgreSQL, sqltest.PostgreSQL, "pgx", func(n int) string { return "$" + strconv.Itoa(n) }, false}
	mariadb  = database{sql.MySQL, sqltest.MariaDB, "mysql", mark, false}
	sqlite   = database{sql.SQLite, sqltest.SQLite, "sqlite", mark, false}
)

// contenders are the ways to read a row. MariaDB has no UPDATE that returns one.
func (b database) contenders() []contender {
	all := []contender{{name: bareName, open: b.bare(bareSelect)}, {name: naiveName, open: b.bare(selectThenUpdate)}}
	if b.dialect != sql.MySQL {
		all = append(all, contender{name: atOnceName, open: b.bare(updateReturning)})
	}
	return append(all, contender{name: exactName, open: b.own(0)}, contender{name: own1, open: b.own(1)}, contender{name: own10, open: b.own(10)})
}

// open returns a pool and a driver with a table.
func (b database) open(ctx context.Context, address string) (*stdsql.DB, *sql.Driver[session], error) {
	db, err := stdsql.Open(b.driver, address)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(16)
	db.SetMaxIdleConns(16)
	d, err := sql.New[session](db, b.dialect, tableName, nil)
	if err != nil {
		return nil, nil, err
	}
	return db, d, d.EnsureTable(ctx)
}

// own is slidingttl.
func (b database) own(slackPercent time.Duration) func(context.Context, string) (way, error) {
	return func(ctx context.Context, address string) (way, error) {
		_, d, err := b.open(ctx, address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(slackPercent), nil)
		if err != nil {
			return way{}, err
		}
		return way{get: s.Get, put: insert(s), spent: func() spent { return spent{writes: float64(s.Stats().Touched)} }}, nil
	}
}

// bareRows is what a program does by itself.
type bareRows struct {
	db                      *stdsql.DB
	read, touch, touchAndGo string // statements
	writes                  atomic.Int64
}

func (b database) bare(get func(*bareRows, context.Context, string) (session, error)) func(context.Context, string) (way, error) {
	return func(ctx context.Context, address string) (way, error) {
		db, d, err := b.open(ctx, address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(10), nil)
		if err != nil {
			return way{}, err
		}
		const columns = "created_at, expires_at, version, value"
		touch := "UPDATE " + tableName + " SET expires_at = " + b.argument(1) + " WHERE id = " + b.argument(2)
		r := &bareRows{
			db:         db,
			read:       "SELECT " + columns + " FROM " + tableName + " WHERE id = " + b.argument(1),
			touch:      touch,
			touchAndGo: touch + " RETURNING " + columns,
		}
		return way{
			get:   func(ctx context.Context, key string) (session, error) { return get(r, ctx, key) },
			put:   insert(s),
			spent: func() spent { return spent{writes: float64(r.writes.Load())} },
		}, nil
	}
}

func (r *bareRows) row(ctx context.Context, statement string, args ...any) (s session, err error) {
	var created, expires, version stdsql.NullInt64
	var text []byte
	if err := r.db.QueryRowContext(ctx, statement, args...).Scan(&created, &expires, &version, &text); err != nil {
		return s, err
	}
	return s, json.Unmarshal(text, &s)
}

func expiry() int64 { return time.Now().Add(idleTimeout).UnixMilli() }

func bareSelect(r *bareRows, ctx context.Context, key string) (session, error) {
	return r.row(ctx, r.read, key)
}

func selectThenUpdate(r *bareRows, ctx context.Context, key string) (session, error) {
	s, err := r.row(ctx, r.read, key)
	if err == nil {
		r.writes.Add(1)
		_, err = r.db.ExecContext(ctx, r.touch, expiry(), key)
	}
	return s, err
}

func updateReturning(r *bareRows, ctx context.Context, key string) (session, error) {
	r.writes.Add(1)
	return r.row(ctx, r.touchAndGo, expiry(), key)
}

// PostgreSQL, MariaDB and SQLite are the fields of ways to read on them.
func PostgreSQL() runner.Suite {
	return postgres.suite("postgres", "PostgreSQL", "over a socket", true, 0.95)
}

// Durable is PostgreSQL that flushes each commit to disk, as in production.
func Durable() runner.Suite {
	b := postgres
	b.durable = true
	return b.suite("postgres-fsync", "PostgreSQL with fsync", "over a socket", true, 0.95)
}

func MariaDB() runner.Suite { return mariadb.suite("mariadb", "MariaDB", "over a socket", false, 0.95) }
func SQLite() runner.Suite  { return sqlite.suite("sqlite", "SQLite", "in the process", true, 0.9) }

// suite: oneTrip says that the driver reads and touches in one.
func (b database) suite(name, title, where string, oneTrip bool, bare float64) runner.Suite {
	flushes := "flushes nothing"
	if b.durable {
		flushes = "flushes each commit"
	}
	f := &field{
		suite:      name,
		title:      title + ": reads that keep their row alive",
		contenders: b.contenders(),
		full:       extent{4, 24, 512, [2]int{256, 1024}},
		quick:      extent{1, 12, 128, [2]int{64, 256}},
		text: `Rows of about 500 bytes, %d for each contestant, in one table of a ` + title + ` that ` + flushes + `, ` + where + `;
readers take the keys in turn and share 16 connections. The bare read selects what the driver does. With slack no touch is due.`,
		targets: func(f *field, r *runner.Results) []runner.Figure {
			var all []runner.Figure
			for _, n := range readers {
				all = append(all, f.ratio(r, own10, bareName, n, "throughput-vs-bare", bare))
				if b.durable { // a due read waits for no commit
					all = append(all, f.ratio(r, exactName, bareName, n, "due-throughput-vs-bare", map[int]float64{1: 0.9, 16: 0.5}[n]))
				}
				if oneTrip {
					all = append(all, f.ratio(r, exactName, naiveName, n, "due-throughput-vs-naive", 1.3))
				}
			}
			return all
		},
	}
	return runner.Suite{
		Name:        name,
		Contestants: []runner.Contestant{client(f.contenders)},
		Run: func(p runner.Plan) (report runner.Report, err error) {
			err = b.with(func(address string) error {
				report, err = f.measure(p, address, nil)
				return err
			})
			if err != nil && strings.Contains(err.Error(), "not installed") {
				p.Log("NOT RUN: %v", err)
				return runner.Report{Title: f.title, Text: "Not run: " + title + " is not installed."}, nil
			}
			return report, err
		},
	}
}

// with starts a server for do.
func (b database) with(do func(address string) error) error {
	if b.server == sqltest.SQLite {
		dir, err := os.MkdirTemp("", "bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		return do(sqltest.SQLiteDSN(filepath.Join(dir, "bench.db")))
	}
	ctx := context.Background()
	start := sqltest.Run
	if b.durable {
		start = sqltest.RunDurable
	}
	server, err := start(ctx, b.server)
	if err != nil {
		return err
	}
	defer server.Close()
	_, dsn, _, err := server.Schema(ctx)
	if err != nil {
		return err
	}
	return do(dsn)
}
