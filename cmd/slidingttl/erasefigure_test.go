package main

import (
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// BenchmarkFigureErase: of-alone, an erasure of 100 records in each of SQLite, Redis and PostgreSQL and 90
// in the archive, beside plain scans of the three and a Forget, is to be 1.1 at most. Each person is erased
// once, so that every run has the same to do. Redis saves its RDB file again.
func BenchmarkFigureErase(b *testing.B) {
	ctx, dir, now := b.Context(), b.TempDir(), driver.Floor(time.Now())
	l := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(24 * time.Hour)}
	users := *records / 100
	server := redistest.Start(b)
	client := server.Client(b)
	r := must(redis.New[string](client, &redis.Options{Prefix: "app:"}))(b)
	fill(b, 1000, func(from, to int) error {
		for i := from; i < to; i++ {
			if _, err := r.Insert(ctx, fmt.Sprintf("user:%05d:%d", i%users, i), kilobyte[:100], l, now); err != nil {
				return err
			}
		}
		return nil
	})
	if err := client.Do(ctx, client.B().ConfigSet().ParameterValue().ParameterValue("save", "3600 1000000").Build()).Error(); err != nil {
		b.Fatal(err)
	}
	open := func(dialect sql.Dialect, name, dsn string) *sql.Driver[any] {
		db := must(stdsql.Open(name, dsn))(b)
		b.Cleanup(func() { _ = db.Close() })
		if _, err := db.ExecContext(ctx, "DROP TABLE IF EXISTS sessions"); err != nil {
			b.Fatal(err)
		}
		d := must(sql.New[any](db, dialect, "sessions", nil))(b)
		if err := d.EnsureTable(ctx); err != nil {
			b.Fatal(err)
		}
		key, numbers := "'user:' || lpad((n %% %[2]d)::text, 5, '0') || ':' || n", "generate_series(0, %[1]d - 1) AS n"
		if dialect == sql.SQLite {
			key, numbers = "printf('user:%%05d:%%d', n %% %[2]d, n)", "(WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < %[1]d - 1) SELECT n FROM c)"
		}
		fill := fmt.Sprintf("INSERT INTO sessions (id, value, created_at, expires_at) SELECT "+key+", '\"%[3]s\"', %[4]d, %[5]d FROM "+numbers, *records, users, kilobyte[:100], l.CreatedAt, l.ExpiresAt)
		if _, err := db.ExecContext(ctx, fill); err != nil {
			b.Fatal(err)
		}
		return d
	}
	file := filepath.Join(dir, "app.db")
	s := open(sql.SQLite, "sqlite", sqltest.SQLiteDSN(file)+"&_pragma=secure_delete(1)")
	name, dsn := sqltest.DSN(b, sqltest.PostgreSQL)
	p := open(sql.PostgreSQL, name, dsn)

	buried := must(archive.OpenDirectory(filepath.Join(dir, "archive")))(b)
	w := must(archive.NewWriter(buried, nil))(b)
	for day := range 90 {
		var batch []archive.Record
		for i := range min(users, 10_000) {
			died := now.Add(-time.Duration(day+1) * 24 * time.Hour)
			batch = append(batch, archive.Record{Key: fmt.Sprintf("user:%05d:%d", i, day), ExpiredAt: died, Value: []byte(kilobyte[:100])})
		}
		if err := w.Write(ctx, "sessions", batch); err != nil {
			b.Fatal(err)
		}
	}
	config := filepath.Join(dir, "slidingttl.json")
	text := must(json.Marshal(map[string]any{"stores": map[string]settings{
		"cache": {URI: "redis://" + server.Option().InitAddress[0] + "?prefix=app:"},
		"file":  {URI: "sqlite:" + file + "?table=sessions"},
		"main":  {URI: postgresURI(dsn)},
	}}))(b)
	if err := os.WriteFile(config, text, 0o600); err != nil {
		b.Fatal(err)
	}
	scan := func(d driver.Scanner) {
		var walkers sync.WaitGroup
		for _, at := range must(d.Segments(ctx, 4))(b) {
			walkers.Go(func() {
				for at != "" {
					page, err := d.Scan(ctx, at, 500)
					if err != nil {
						b.Error(err)
						return
					}
					at = page.Next
				}
			})
		}
		walkers.Wait()
	}
	var ratios []float64
	person := 0
	for b.Loop() {
		began := time.Now()
		for _, d := range []driver.Scanner{r, s, p} {
			scan(d)
		}
		scans := time.Since(began)
		began = time.Now()
		if f, err := archive.Forget(ctx, buried, archive.Selection{Prefix: fmt.Sprintf("user:%05d:", person)}, nil); err != nil || f.Records != 90 {
			b.Fatal(f, err)
		}
		alone := scans + time.Since(began)
		began = time.Now()
		var o, e strings.Builder
		args := []string{"erase", "--config", config, "--rate", "0", "--writes", "0", "--archive", filepath.Join(dir, "archive"), "--prefix", fmt.Sprintf("user:%05d:", person+1), "--report", filepath.Join(dir, fmt.Sprint(person)), "--apply"}
		if code := run(ctx, args, streams{in: strings.NewReader(""), out: &o, err: &e}); code != 0 || strings.Count(o.String(), " 100 records erased") != 3 {
			b.Fatal(code, o.String(), e.String())
		}
		ratios = append(ratios, time.Since(began).Seconds()/alone.Seconds())
		b.Logf("scans %v, with Forget %v, erase %v", scans, alone, time.Since(began))
		person += 2
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "of-alone")
}
