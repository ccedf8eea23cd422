package main

import (
	"context"
	stdsql "database/sql"
	"flag"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

var (
	inMemory = flag.Int("figure.memory", 10_000_000, "how many records in memory 8 shards go through")
	inSQL    = flag.Int("figure.sql", 1_000_000, "how many rows of PostgreSQL they go through")
)

// BenchmarkFigureShardsMemory audits the records of one process by one run, and by 8 shards side
// by side: the same report, to the record.
func BenchmarkFigureShardsMemory(b *testing.B) {
	d, err := memory.New[struct{}](&memory.Options[struct{}]{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	now := driver.Floor(d.Now())
	for i := range *inMemory {
		life := driver.Life{CreatedAt: now.Add(-time.Duration(i%80) * 24 * time.Hour), ExpiresAt: now.Add(time.Duration(1+i%29) * 24 * time.Hour)}
		if i%10 == 0 {
			life.CreatedAt = 0
		}
		if _, err := d.Insert(b.Context(), fmt.Sprint("user:", i), struct{}{}, life, 1); err != nil {
			b.Fatal(err)
		}
	}
	sharded(b, d, *inMemory)
}

// BenchmarkFigureShardsPostgreSQL is the same of a table.
func BenchmarkFigureShardsPostgreSQL(b *testing.B) {
	name, dsn := sqltest.DSN(b, sqltest.PostgreSQL)
	db, err := stdsql.Open(name, dsn)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	d, err := sql.New[any](db, sql.PostgreSQL, "sessions", nil)
	if err == nil {
		err = d.EnsureTable(b.Context())
	}
	if err == nil {
		_, err = db.ExecContext(b.Context(), `INSERT INTO sessions (id, value, created_at, expires_at)
			SELECT 'user:' || i, '{}', CASE WHEN i % 10 > 0 THEN extract(epoch FROM now())::bigint * 1000 - i % 80 * 86400000::bigint END,
				extract(epoch FROM now())::bigint * 1000 + (1 + i % 29) * 86400000::bigint FROM generate_series(1, $1) i`, *inSQL)
	}
	if err == nil {
		_, err = db.ExecContext(b.Context(), "ANALYZE sessions")
	}
	if err != nil {
		b.Fatal(err)
	}
	sharded(b, d, *inSQL)
}

// sharded compares an audit of n records by one run with one by 8 shards.
func sharded(b *testing.B, s driver.Scanner, n int) {
	b.Helper()
	const shards = 8
	p, err := slidingttl.ParsePolicy(thirty)
	if err != nil {
		b.Fatal(err)
	}
	at := time.Now()
	audit := func(o upkeep.Options) *survey.AuditReport {
		o.Now, o.Page = func() time.Time { return at }, 5000
		r, err := survey.Audit(context.Background(), s, p, &survey.LookOptions{Options: o})
		if err != nil {
			b.Error(err)
		}
		return r
	}
	for b.Loop() {
		began := time.Now()
		whole := audit(upkeep.Options{Segments: 1})
		alone := time.Since(began)
		began = time.Now()
		var parts []upkeep.Checkpoint
		audit(upkeep.Options{Segments: 1, Shards: shards, Save: func(c upkeep.Checkpoint) error {
			parts = append(parts, c)
			return nil
		}})
		var running sync.WaitGroup
		for i := range parts {
			running.Go(func() {
				from := parts[i]
				audit(upkeep.Options{Segments: 1, Resume: &from, Save: func(c upkeep.Checkpoint) error {
					parts[i] = c
					return nil
				}})
			})
		}
		running.Wait()
		all := audit(upkeep.Options{Segments: 1, Resume: &parts[0], Beside: parts[1:]})
		took := time.Since(began)
		all.Seconds, all.Runs = whole.Seconds, whole.Runs
		if whole.Records != int64(n) || !reflect.DeepEqual(all, whole) {
			b.Fatalf("of %d records one run tells\n%v\nand %d shards\n%v", n, whole, shards, all)
		}
		b.ReportMetric(alone.Seconds(), "alone-s")
		b.ReportMetric(took.Seconds(), "8-shards-s")
	}
}
