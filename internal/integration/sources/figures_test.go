package sources

import (
	"context"
	stdsql "database/sql"
	"flag"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	sweptRows = flag.Int("swept", 1_000_000, "how many rows BenchmarkFigureSweep sweeps")
	sweepers  = flag.Int("sweepers", 1, "by how many sweepers at once, alone and into an archive")
	sweepSize = flag.Int("sweep-batch", 10_000, "rows that one of their transactions takes")
)

// deadRows writes rows of about 1 KB of JSON that have expired: a visitor's profile with the
// pages that it saw.
const deadRows = `INSERT INTO sessions (id, value, created_at, expires_at, sweep_at, version)
SELECT 'session:' || md5(i::text), jsonb_build_object(
	'user', 'user-' || i,
	'email', md5((i * 3)::text) || '@example.com',
	'agent', 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/1' || (i % 40) || '.0.0.0 Safari/537.36',
	'address', (i % 223 + 1) || '.' || (i / 7 % 256) || '.' || (i / 11 % 256) || '.' || (i / 13 % 256),
	'pages', (SELECT jsonb_agg(jsonb_build_object('path', '/products/' || (i * p) % 5000, 'seconds', (i * p) % 300, 'referrer', '/category/' || (i + p) % 40, 'cart', (i + p) % 7 = 0)) FROM generate_series(1, 9) p)
), $1::bigint - 2592000000 - i * 40, $1::bigint - i * 40, $1::bigint - i * 40, i
FROM generate_series(1, $2::bigint) i`

// BenchmarkFigureSweep sweeps dead rows from PostgreSQL, in turns without an archive and into one
// in a directory. It reports the second rate as a share of the first, and the archive's size as
// a share of the values' size.
func BenchmarkFigureSweep(b *testing.B) {
	n := *sweptRows
	for b.Loop() {
		var seconds [2]float64
		for i, archiving := range []bool{false, true} {
			seconds[i] = sweepFigure(b, n, archiving)
		}
		b.ReportMetric(float64(n)/seconds[0], "rows/s-alone")
		b.ReportMetric(float64(n)/seconds[1], "rows/s-archived")
		b.ReportMetric(seconds[0]/seconds[1], "of-alone")
	}
}

func sweepFigure(b *testing.B, n int, archiving bool) (seconds float64) {
	db := sqltest.DB(b, sqltest.PostgreSQL)
	d, err := openSQL(db, sql.PostgreSQL)
	ok(b, err)
	ok(b, d.EnsureTable(b.Context()))
	now := driver.Floor(time.Now())
	_, err = db.ExecContext(b.Context(), deadRows, int64(now.Add(-time.Hour)), n)
	ok(b, err)
	for _, statement := range []string{"VACUUM ANALYZE sessions", "CHECKPOINT"} {
		_, err = db.ExecContext(b.Context(), statement)
		ok(b, err)
	}
	path := b.TempDir()
	_, g, err := open(path)
	ok(b, err)
	var raw atomic.Int64
	o := &sql.SweepOptions{Batch: *sweepSize}
	if archiving {
		o.Bury = func(ctx context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
			for i := range dead {
				raw.Add(int64(len(dead[i].Value)))
			}
			return g.Archive(ctx, dead)
		}
	}
	s, err := d.Sweeper(o)
	ok(b, err)
	start := time.Now()
	var group errgroup.Group
	for range *sweepers {
		group.Go(func() error { return s.Sweep(b.Context()) })
	}
	ok(b, group.Wait())
	seconds = time.Since(start).Seconds()
	if got := s.Stats().Deleted; got != uint64(n) {
		b.Fatalf("%d rows were swept of %d", got, n)
	}
	if archiving {
		stats, err := archive.NewReader(bucket(b, path)).Stats(b.Context(), archive.Span{})
		ok(b, err)
		if stats.Rows != int64(n) {
			b.Errorf("%d rows are in the archive: %+v", stats.Rows, stats)
		}
		size := int64(0)
		ok(b, filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				var i fs.FileInfo
				if i, err = e.Info(); err == nil {
					size += i.Size()
				}
			}
			return err
		}))
		b.ReportMetric(float64(raw.Load())/float64(n), "B/value")
		b.ReportMetric(float64(size)/float64(raw.Load()), "of-raw")
		fmt.Printf("%d rows, %d MB of values, %d MB archived\n", n, raw.Load()/1e6, size/1e6)
	}
	return seconds
}

func bucket(t testing.TB, path string) archive.Bucket {
	t.Helper()
	d, err := archive.OpenDirectory(path)
	ok(t, err)
	return d
}
