package sources

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var databases = map[string]struct {
	dialect sql.Dialect
	server  sqltest.Database
}{
	"postgres": {sql.PostgreSQL, sqltest.PostgreSQL},
	"mariadb":  {sql.MySQL, sqltest.MariaDB},
	"sqlite":   {sql.SQLite, sqltest.SQLite},
}

const table = "sessions"

// openSQL opens the table in db.
func openSQL(db *stdsql.DB, dialect sql.Dialect) (*sql.Driver[session], error) {
	return sql.New[session](db, dialect, table, &sql.Options[session]{Replaced: true})
}

// sweepSQL sweeps the table into the archive.
func sweepSQL(ctx context.Context, d *sql.Driver[session], g *archive.Archiver, batch int) error {
	s, err := d.Sweeper(&sql.SweepOptions{
		Batch: batch,
		Bury: func(ctx context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			return g.Archive(ctx, dead)
		},
	})
	if err != nil {
		return err
	}
	return s.Sweep(ctx)
}

// fillSQL writes n dead rows, and some live ones.
func fillSQL(t testing.TB, d *sql.Driver[session], n int) map[string]archive.Record {
	t.Helper()
	ok(t, d.EnsureTable(t.Context()))
	dead := make(map[string]archive.Record, n)
	addSQL(t, d, dead, n)
	now := driver.Floor(time.Now())
	for i := range 20 {
		_, err := d.Insert(t.Context(), fmt.Sprint("alive-", i), session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(day)}, now)
		ok(t, err)
	}
	return dead
}

// addSQL writes n dead rows into d, and adds them to dead.
func addSQL(t testing.TB, d *sql.Driver[session], dead map[string]archive.Record, n int) {
	t.Helper()
	now := driver.Floor(time.Now())
	for range n {
		i := len(dead)
		key := fmt.Sprint("dead-", i)
		died := now.Add(-time.Hour - time.Duration(i)*time.Second)
		life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
		dead[key] = archive.Record{CreatedAt: life.CreatedAt, ExpiredAt: died, Reason: archive.Idle}
		insert(t, d, key, session{User: key}, life)
	}
}

func rows(t testing.TB, db *stdsql.DB) (n int) {
	t.Helper()
	ok(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n))
	return n
}

// failing is a bucket that refuses files until it is repaired.
type failing struct {
	archive.Bucket
	err error
}

func (f *failing) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	if f.err != nil {
		return f.err
	}
	return f.Bucket.Create(ctx, dir, write)
}

// A row is deleted only after its file is durable: while the archive fails, none is.
func TestSweep(t *testing.T) {
	for name, s := range databases {
		t.Run(name, func(t *testing.T) {
			const n = 300
			db := sqltest.DB(t, s.server)
			d, err := openSQL(db, s.dialect)
			ok(t, err)
			dead := fillSQL(t, d, n)
			path := t.TempDir()
			bucket, g, err := open(path)
			ok(t, err)
			b := &failing{bucket, fmt.Errorf("%w: the disk is full", archive.ErrNoSpace)}
			g.Writer, err = archive.NewWriter(b, nil)
			ok(t, err)
			if err := sweepSQL(t.Context(), d, g, 50); !errors.Is(err, archive.ErrNoSpace) {
				t.Errorf("a sweep into a full archive: %v", err)
			}
			if got := rows(t, db); got != n+20 {
				t.Errorf("%d rows are left when the archive is full; want %d", got, n+20)
			}
			b.err = nil
			ok(t, sweepSQL(t.Context(), d, g, 50))
			if got := rows(t, db); got != 20 {
				t.Errorf("%d rows are left; want 20", got)
			}
			holds(t, path, dead)
		})
	}
}
