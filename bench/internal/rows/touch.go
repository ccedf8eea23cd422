package rows

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const writers = 8

// record is of a usual size, about 200 bytes as JSON.
type record struct {
	User, Note string
}

// table is a driver with a table of its own in a pool.
type table struct {
	*sql.Driver[record]
	db   *stdsql.DB
	name string
}

// onPostgreSQL starts a server for do.
func onPostgreSQL(do func(ctx context.Context, db *stdsql.DB) error) error {
	ctx := context.Background()
	server, err := sqltest.Run(ctx, sqltest.PostgreSQL)
	if err != nil {
		return err
	}
	defer server.Close()
	db, err := stdsql.Open("pgx", server.DSN)
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(32)
	db.SetMaxIdleConns(32)
	return do(ctx, db)
}

func newTable(ctx context.Context, db *stdsql.DB, name string) (*table, error) {
	d, err := sql.New[record](db, sql.PostgreSQL, name, &sql.Options[record]{MaxSkew: time.Millisecond})
	if err != nil {
		return nil, err
	}
	return &table{d, db, name}, d.EnsureTable(ctx)
}

// fill puts n rows into the table, all at once; expires is the expression for their
// expiry, of the row's number i.
func (t *table) fill(ctx context.Context, n int, created driver.Instant, expires string) error {
	_, err := t.db.ExecContext(ctx, fmt.Sprintf(`
INSERT INTO %s (id, value, created_at, expires_at, sweep_at, version)
SELECT 'key-' || i, jsonb_build_object('User', 'user-' || i, 'Note', lpad(i::text, 160, '0')), $1, e, e, 1
FROM generate_series(0, $2 - 1) i, LATERAL (SELECT (%s)::bigint AS e) x`, t.name, expires), int64(created), n)
	if err == nil {
		_, err = t.db.ExecContext(ctx, "VACUUM ANALYZE "+t.name)
	}
	return err
}

// measured is what touches did to a table.
type measured struct {
	hot, wal      float64 // share of updates; bytes a touch
	before, after int64   // bytes of the index that a sweeper, or a DELETE, goes by
	took          time.Duration
}

// touch makes touches of rows in turn, by the driver, and measures.
func (t *table) touch(ctx context.Context, rows, touches int, created driver.Instant, index string) (m measured, err error) {
	one := func(query string, args ...any) (v float64) {
		if err == nil {
			err = t.db.QueryRowContext(ctx, query, args...).Scan(&v)
		}
		return v
	}
	position := func() float64 { return one("SELECT pg_current_wal_insert_lsn() - '0/0'") }
	size := func() int64 { return int64(one("SELECT pg_relation_size($1::regclass)", index)) }
	m.before = size()
	from := position()
	began := time.Now()
	var group sync.WaitGroup
	failed := make([]error, writers)
	for w := range writers {
		group.Go(func() {
			for n := w; n < touches; n += writers {
				row, turn := n%rows, driver.Instant(n/rows)
				was := driver.Meta{Life: driver.Life{CreatedAt: created, ExpiresAt: created + hour + turn}, Version: 1}
				life := was.Life
				life.ExpiresAt++
				if _, err := t.Touch(ctx, fmt.Sprintf("key-%d", row), was, life, created); err != nil {
					failed[w] = err
					return
				}
			}
		})
	}
	group.Wait()
	m.took = time.Since(began)
	for _, f := range failed {
		if f != nil {
			return m, f
		}
	}
	m.wal = (position() - from) / float64(touches)
	m.after = size()
	// Sessions tell what they did when they end, or once a second.
	t.db.SetMaxIdleConns(0)
	t.db.SetMaxIdleConns(32)
	var updated, hot float64
	for range 50 {
		err := t.db.QueryRowContext(ctx, "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1", t.name).Scan(&updated, &hot)
		if err != nil {
			return m, err
		}
		if updated >= float64(touches) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.hot = hot / updated
	return m, err
}

const hour = driver.Instant(3600e3)

// touches compares a table as the driver makes it with one whose expires_at is indexed.
func touches(p runner.Plan, report *runner.Report) error {
	rows, n := runner.Pick(p, 20_000, 2_000), runner.Pick(p, 500_000, 20_000)
	return onPostgreSQL(func(ctx context.Context, db *stdsql.DB) error {
		created := driver.Floor(time.Now())
		table := runner.Table{
			Title: fmt.Sprintf("%d touches of %d rows", n, rows),
			Head:  []string{"index on", "HOT updates", "WAL a touch, bytes", "index before, MB", "after, MB", "touches/s"},
		}
		var results [2]measured
		for i, indexed := range []string{"sweep_at", "expires_at"} {
			t, err := newTable(ctx, db, "touched_by_"+indexed)
			if err != nil {
				return err
			}
			index := t.name + "_sweep_at"
			if indexed == "expires_at" {
				index = t.name + "_index"
				if _, err := db.ExecContext(ctx, fmt.Sprintf("DROP INDEX %s_sweep_at; CREATE INDEX %s ON %s (expires_at)", t.name, index, t.name)); err != nil {
					return err
				}
			}
			if err := t.fill(ctx, rows, created, fmt.Sprint(created+hour)); err != nil {
				return err
			}
			p.Log("rows: %d touches, index on %s", n, indexed)
			m, err := t.touch(ctx, rows, n, created, index)
			if err != nil {
				return err
			}
			results[i] = m
			table.Rows = append(table.Rows, []string{
				indexed, fmt.Sprintf("%.1f %%", 100*m.hot), fmt.Sprintf("%.0f", m.wal),
				fmt.Sprintf("%.1f", float64(m.before)/(1<<20)), fmt.Sprintf("%.1f", float64(m.after)/(1<<20)),
				fmt.Sprintf("%.0f", float64(n)/m.took.Seconds()),
			})
		}
		report.Tables = append(report.Tables, table)
		report.Figures = append(report.Figures,
			runner.Figure{Name: "rows/touch/hot-share", Value: results[0].hot, Op: ">=", Bound: 0.97},
			runner.Figure{Name: "rows/touch/wal-vs-indexed-expiry", Value: results[0].wal / results[1].wal, Op: "<=", Bound: 0.5},
			runner.Figure{Name: "rows/touch/sweep-index-growth", Value: float64(results[0].after) / float64(results[0].before), Op: "<=", Bound: 1},
		)
		return nil
	})
}
