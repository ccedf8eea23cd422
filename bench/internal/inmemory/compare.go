package inmemory

import (
	"errors"
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

// Compare measures hits of slidingttl, with slack and exact ones, and inserts, in this
// program and in the one at exe, which is this program built from another commit, by
// turns, and beside hits those of otter. The targets are what a commit may cost: 5 %, and
// where a hit takes the least, 2 ns.
func Compare(p runner.Plan, exe string) (runner.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return runner.Report{}, err
	}
	programs := map[string]string{base: exe, head: self}
	var r runner.Report
	if r.Figures, err = compareInserts(p, programs); err != nil {
		return r, err
	}
	for _, c := range []struct {
		short, name string
		ofOtter     float64
	}{{"slack", slack10, slackOfOtter}, {"exact", exact, exactOfOtter}} {
		start := func(program string) (*runner.Worker, error) {
			if program == otterPlain {
				return runner.Start(suiteName, otterPlain)
			}
			return runner.StartAs(program, programs[program], suiteName, c.name)
		}
		err := runner.WithAll([]string{base, head, otterPlain}, start, func(workers []*runner.Worker) error {
			p.Log("%s", c.name)
			return compare(p, workers, c.name, c.ofOtter, func(t task, what string, value float64, op string, bound float64) {
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

// compareInserts measures inserts, each round by processes that have done nothing before.
func compareInserts(p runner.Plan, programs map[string]string) ([]runner.Figure, error) {
	p.Log("inserts")
	var r runner.Results
	for round := range runner.Pick(p, 9, 3) {
		for _, program := range runner.Shuffled([]string{base, head}, round) {
			w, err := runner.StartAs(program, programs[program], suiteName, slack10)
			if err != nil {
				return nil, err
			}
			s, err := w.Do(task{Kind: "grow", Keys: runner.Pick(p, 1_000_000, 250_000)})
			if err = errors.Join(err, w.Close()); err != nil {
				return nil, err
			}
			r.Add(program, "grow", s)
		}
	}
	return []runner.Figure{
		{Name: "compare/insert/ns", Value: r.Median(head, "grow", "ns")},
		{Name: "compare/insert/ns-base", Value: r.Median(base, "grow", "ns")},
		{Name: "compare/insert/vs-base", Value: r.Ratio(head, base, "grow", "ns"), Op: "<=", Bound: 1.05},
	}, nil
}

func compare(p runner.Plan, workers []*runner.Worker, contestant string, ofOtter float64, add func(t task, what string, value float64, op string, bound float64)) error {
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
		add(t, "vs-otter", r.Ratio(head, otterPlain, t.name(), "ns"), "<=", ofOtter)
		// Beside other programs the processor time says more; otter's has its own goroutines in it.
		if r.Has(base, t.name(), "cpu-ns") {
			add(t, "cpu-vs-base", r.Ratio(head, base, t.name(), "cpu-ns"), "", 0)
		}
		add(t, "cpu-vs-otter", r.Ratio(head, otterPlain, t.name(), "cpu-ns"), "", 0)
	}
	return nil
}
