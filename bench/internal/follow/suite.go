package follow

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

const (
	suiteName = "follow"
	simulated = "simulated"
	server    = "server"
	grown     = 1.2 // the p99 of live calls against that of calls alone, that a ceiling by hand may let them wait
)

// Suite is the ways to limit an adoption beside live calls.
func Suite() runner.Suite {
	return runner.Suite{Name: suiteName, Run: measure, Smoke: task{Live: 100, Writes: 50, Length: time.Second, Seed: 1},
		Contestants: []runner.Contestant{
			runner.InBubbles(simulated, simulate),
			runner.Serving(server, func() (func(task) (runner.Sample, error), error) { return wired, nil }),
		}}
}

// ways are the ways of one store: alone, by hand in rising order, and by following.
func ways(base task, byHand ...float64) (all []task) {
	alone, follow := base, base
	alone.Alone, follow.Follow = true, true
	all = append(all, alone)
	for _, writes := range byHand {
		t := base
		if t.Writes = writes; writes == 0 {
			t.Length = min(t.Length, time.Minute) // it is through sooner than the others
		}
		all = append(all, t)
	}
	return append(all, follow)
}

func simulations(p runner.Plan) (all [][]task) {
	for _, live := range runner.Pick(p, []int{100, 250, 350}, []int{100}) {
		base := task{Live: live, Length: runner.Pick(p, 15*time.Minute, 4*time.Minute)}
		all = append(all, ways(base, 20, 30, 40, 50, 60, 70, 80, 90, 100))
	}
	return all
}

func servers() [][]task {
	const keys = 2_000_000
	return [][]task{
		ways(task{Server: onRedis, Keys: keys, Live: 500, Length: 4 * time.Minute}, 0),
		ways(task{Server: onPostgres, Keys: keys, Live: 100, Length: 4 * time.Minute}, 0),
	}
}

func measure(p runner.Plan) (runner.Report, error) {
	results := new(runner.Results)
	var mu sync.Mutex // guards results
	once := func(contestant string, t task) error {
		s, err := runner.Once(suiteName, contestant, t, "GOMAXPROCS=1")
		if err != nil {
			return fmt.Errorf("%s: %s: %w", t.where(), t.way(), err)
		}
		mu.Lock()
		defer mu.Unlock()
		results.Add(t.way(), t.where(), s)
		p.Log("%s: %s: p99 %.0f us, %.0f writes/s", t.where(), t.way(), s["p99-us"], s["writes-per-s"])
		return nil
	}
	var g errgroup.Group
	g.SetLimit(2)
	all := simulations(p)
	for round := range runner.Pick(p, 5, 1) {
		for _, t := range slices.Concat(all...) {
			t.Seed = uint64(round + 1)
			g.Go(func() error { return once(simulated, t) })
		}
	}
	if err := g.Wait(); err != nil {
		return runner.Report{}, err
	}
	if !p.Quick {
		for _, store := range servers() {
			for _, t := range store {
				err := once(server, t)
				if err != nil && strings.Contains(err.Error(), "not installed") {
					p.Log("NOT RUN: %v", err)
					store = nil
					break
				}
				if err != nil {
					return runner.Report{}, err
				}
			}
			if store != nil {
				all = append(all, store)
			}
		}
	}
	return report(all, results), nil
}

func report(all [][]task, results *runner.Results) runner.Report {
	r := runner.Report{
		Title: "An adoption beside live calls: ceilings by hand, and following the load",
		Text: `Live calls come at random (Poisson), and an adoption writes beside them. The simulated store serves 500 calls a
second one after the other, in virtual time; medians of five runs of 15 minutes. By hand the best ceiling is the highest with which
the p99 of live calls stays below 1.2 times that of calls alone. On the servers, in real time, a live call inserts a
record; one run of 4 minutes each, and all of it shares this machine. The first minute of --follow makes 20 writes a second.`,
	}
	bars := chart.Bars{File: "follow", Title: "What live calls wait beside an adoption", Unit: "p99 of live calls against that of calls alone (less is better)"}
	for _, store := range all {
		where := store[0].where()
		p99 := func(t task) float64 {
			return results.Median(t.way(), where, "p99-us") / results.Median(store[0].way(), where, "p99-us")
		}
		rate := func(t task) float64 { return results.Median(t.way(), where, "writes-per-s") }
		table := runner.Table{Title: where, Head: []string{"way", "p99 of live calls, ms", "against alone", "writes/s"}}
		group := chart.Group{Title: where}
		best := 0.0
		for _, t := range store {
			table.Rows = append(table.Rows, []string{t.way(), fmt.Sprintf("%.2f", results.Median(t.way(), where, "p99-us")/1000),
				fmt.Sprintf("%.2f", p99(t)), fmt.Sprintf("%.0f", rate(t))})
			label := t.way()
			if t.Writes == 0 && !t.Alone {
				label += fmt.Sprintf(" (%.0f writes/s)", rate(t))
			}
			group.Bars = append(group.Bars, chart.Bar{Label: label, Value: p99(t), Own: t.Follow})
			if !t.Alone && !t.Follow && p99(t) <= grown {
				best = max(best, rate(t))
			}
		}
		follow := store[len(store)-1]
		at := suiteName + "/" + strings.NewReplacer(" ", "-", ",", "", "/", "-").Replace(where) + "/"
		r.Figures = append(r.Figures, runner.Figure{Name: at + "p99", Value: p99(follow), Op: "<=", Bound: grown})
		if follow.Server == "" {
			r.Figures = append(r.Figures, runner.Figure{Name: at + "of-best-by-hand", Value: rate(follow) / best, Op: ">=", Bound: 0.8})
		}
		r.Tables = append(r.Tables, table)
		bars.Groups = append(bars.Groups, group)
	}
	r.Charts = []chart.Bars{bars}
	return r
}
