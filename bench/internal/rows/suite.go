package rows

import (
	"strings"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// Suite measures in this process, for what it measures is PostgreSQL's work.
func Suite() runner.Suite {
	report := runner.Report{
		Title: "PostgreSQL: what touches and sweeps do to a table",
		Text: `On a PostgreSQL that flushes nothing. Touches move the expiry of one row each, eight at once. HOT updates are
those that write no index, by pg_stat_user_tables; WAL is the advance of pg_current_wal_insert_lsn. The sweepers are held to
2000 rows a second each, so that readers, at 5000 a second, hardly notice them.`,
	}
	return runner.Suite{Name: "rows", Run: func(p runner.Plan) (runner.Report, error) {
		err := touches(p, &report)
		if err == nil {
			err = sweep(p, &report)
		}
		if err != nil && strings.Contains(err.Error(), "not installed") {
			p.Log("NOT RUN: %v", err)
			return runner.Report{Title: report.Title, Text: "Not run: PostgreSQL is not installed."}, nil
		}
		return report, err
	}}
}
