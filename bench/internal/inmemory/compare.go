package inmemory

import (
	"fmt"
	"os"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// The two programs that Compare runs.
const (
	base = "base"
	head = "head"
)

// Compare measures hits of slidingttl in this program and in the one at exe, which is
// this program built from another commit, by turns. The targets are what a commit may
// cost: 5 %, and where a hit takes the least, 2 ns.
func Compare(p runner.Plan, exe string) (runner.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return runner.Report{}, err
	}
	var r runner.Report
	for _, c := range []struct{ short, name string }{{"slack", slack10}, {"exact", exact}} {
		start := func(program string) (*runner.Worker, error) {
			return runner.StartAs(program, map[string]string{base: exe, head: self}[program], suiteName, c.name)
		}
		err := runner.WithAll([]string{base, head}, start, func(workers []*runner.Worker) error {
			p.Log("%s", c.name)
			return compare(p, workers, c.name, func(t task, what string, value float64, op string, bound float64) {
				r.Figures = append(r.Figures, runner.Figure{
					Name:  fmt.Sprintf("compare/%s/%s/%d/%s", c.short, t.Workload, t.Goroutines, what),
					Value: value, Op: op, Bound: bound,
				})
			})
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

func compare(p runner.Plan, workers []*runner.Worker, contestant string, add func(t task, what string, value float64, op string, bound float64)) error {
	keys := runner.Pick(p, 1_000_000, 250_000)
	if err := prepare(workers, keys); err != nil {
		return err
	}
	tasks := hits(runner.Pick(p, 60*time.Millisecond, 14*time.Millisecond), keys)
	r, err := runner.Rounds(p, runner.Pick(p, 41, 5), workers, tasks, task.name)
	if err != nil {
		return err
	}
	for _, t := range tasks {
		was := r.Median(base, t.name(), "ns")
		add(t, "ns", r.Median(head, t.name(), "ns"), "", 0)
		add(t, "ns-base", was, "", 0)
		ratio := r.Ratio(head, base, t.name(), "ns")
		if t.Workload == "hot" && contestant == slack10 {
			add(t, "ns-more", (ratio-1)*was, "<=", 2)
		} else {
			add(t, "vs-base", ratio, "<=", 1.05)
		}
	}
	return nil
}
