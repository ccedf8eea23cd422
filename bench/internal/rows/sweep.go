package rows

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	sweepers = 4
	readers  = 16
	perRow   = 5 // every so many-th row is dead
)

// load reads live rows at a rate until it is told to stop, and returns what the 99th of a
// hundred reads took.
type load struct {
	stop chan struct{}
	done sync.WaitGroup
	mu   sync.Mutex // guards took and err
	took []time.Duration
	err  error
}

func (t *table) load(ctx context.Context, rows, perSecond int) *load {
	l := &load{stop: make(chan struct{})}
	limit := rate.NewLimiter(rate.Limit(perSecond), readers)
	for range readers {
		l.done.Go(func() {
			var took []time.Duration
			var err error
			for err == nil {
				select {
				case <-l.stop:
					l.mu.Lock()
					l.took = append(l.took, took...)
					l.mu.Unlock()
					return
				default:
				}
				if err = limit.Wait(ctx); err != nil {
					break
				}
				n := rand.IntN(rows/perRow)*perRow + 1 + rand.IntN(perRow-1)
				began := time.Now()
				_, err = t.Get(ctx, fmt.Sprintf("key-%d", n))
				took = append(took, time.Since(began))
			}
			l.mu.Lock()
			l.err = errors.Join(l.err, err)
			l.mu.Unlock()
		})
	}
	return l
}

func (l *load) end() (p99 time.Duration, reads int, err error) {
	close(l.stop)
	l.done.Wait()
	if l.err != nil {
		return 0, 0, l.err
	}
	slices.Sort(l.took)
	return runner.Quantile(l.took, 0.99), len(l.took), nil
}

// sweep measures sweepers at work beside readers.
func sweep(p runner.Plan, report *runner.Report) error {
	rows := runner.Pick(p, 1_000_000, 50_000)
	const perSecond = 5000
	return onPostgreSQL(func(ctx context.Context, db *stdsql.DB) error {
		t, err := newTable(ctx, db, "swept")
		if err != nil {
			return err
		}
		now := driver.Floor(time.Now())
		p.Log("rows: filling a table of %d", rows)
		expires := fmt.Sprintf("CASE WHEN i %% %d = 0 THEN %d - i %% 3600000 ELSE %d + i END", perRow, int64(now-1), int64(now+1000*hour))
		if err := t.fill(ctx, rows, now-hour, expires); err != nil {
			return err
		}
		p.Log("rows: reads alone")
		alone := t.load(ctx, rows, perSecond)
		time.Sleep(runner.Pick(p, 15*time.Second, 2*time.Second))
		p99Alone, _, err := alone.end()
		if err != nil {
			return err
		}
		p.Log("rows: reads beside %d sweepers", sweepers)
		var mu sync.Mutex // guards buried
		buried := make(map[string]int)
		beside := t.load(ctx, rows, perSecond)
		began := time.Now()
		var group sync.WaitGroup
		failed := make([]error, sweepers)
		for i := range sweepers {
			s, err := t.Sweeper(&sql.SweepOptions{Rate: runner.Pick(p, 2000.0, 4000.0), Batch: 200, Bury: func(_ context.Context, _ *stdsql.Tx, dead []driver.Dead) error {
				mu.Lock()
				defer mu.Unlock()
				for _, d := range dead {
					buried[d.Key]++
				}
				return nil
			}})
			if err != nil {
				return err
			}
			group.Go(func() { failed[i] = s.Sweep(ctx) })
		}
		group.Wait()
		took := time.Since(began)
		p99Beside, reads, err := beside.end()
		if err := errors.Join(append(failed, err)...); err != nil {
			return err
		}
		var left int
		if err := db.QueryRowContext(ctx, "SELECT count(*) FROM swept").Scan(&left); err != nil {
			return err
		}
		wrong := left - (rows - rows/perRow)
		for _, times := range buried {
			wrong += times - 1
		}
		report.Tables = append(report.Tables, runner.Table{
			Title: fmt.Sprintf("a sweep of %d dead among %d rows, by %d sweepers", rows/perRow, rows, sweepers),
			Head:  []string{"took, s", "reads/s meanwhile", "p99 of reads, ms", "alone, ms", "swept twice or left"},
			Rows: [][]string{{
				fmt.Sprintf("%.1f", took.Seconds()), fmt.Sprintf("%.0f", float64(reads)/took.Seconds()),
				fmt.Sprintf("%.2f", p99Beside.Seconds()*1e3), fmt.Sprintf("%.2f", p99Alone.Seconds()*1e3), fmt.Sprint(wrong),
			}},
		})
		report.Figures = append(report.Figures,
			runner.Figure{Name: "rows/sweep/seconds", Value: took.Seconds(), Op: "<=", Bound: 60},
			runner.Figure{Name: "rows/sweep/read-p99-vs-alone", Value: p99Beside.Seconds() / p99Alone.Seconds(), Op: "<=", Bound: 2},
			runner.Figure{Name: "rows/sweep/twice-or-left", Value: float64(wrong), Op: "<=", Bound: 0},
		)
		return nil
	})
}
