package simulation

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

const suiteName = "simulation"

// Suite is the field of strategies.
func Suite() runner.Suite {
	s := runner.Suite{Name: suiteName, Run: measure, Smoke: task{Rate: 100, Nodes: 2, WarmUp: time.Second, Length: 10 * time.Second}}
	for _, st := range strategies {
		s.Contestants = append(s.Contestants, runner.InBubbles(st.name, func(t task) (runner.Sample, error) { return simulate(st, t) }))
	}
	return s
}

// tasks are the simulations. The store begins as it would be found in a long run, so
// that little warming up is needed.
func tasks(p runner.Plan) []task {
	var all []task
	for _, rate := range runner.Pick(p, []int{100, 1_000, 10_000}, []int{10_000}) {
		for _, nodes := range []int{1, 8} {
			t := task{Rate: rate, Nodes: nodes, WarmUp: time.Minute, Length: 6 * time.Minute}
			switch {
			case p.Quick:
				t.WarmUp, t.Length = 15*time.Second, 30*time.Second
			case rate == 100:
				t.WarmUp, t.Length = time.Hour, 8*time.Hour
			case rate == 1_000:
				t.WarmUp, t.Length = 10*time.Minute, time.Hour
			}
			all = append(all, t)
		}
	}
	return all
}

func measure(p runner.Plan) (runner.Report, error) {
	var g errgroup.Group
	g.SetLimit(2)
	results := new(runner.Results)
	var mu sync.Mutex // guards results
	all := tasks(p)
	for i := range all {
		t := all[len(all)-1-i] // the longest first
		for _, s := range strategies {
			g.Go(func() error {
				began := time.Now()
				// One thread: a bubble's goroutines mostly wait for each other.
				sample, err := runner.Once(suiteName, s.name, t, "GOMAXPROCS=1")
				if err != nil {
					return fmt.Errorf("%s: %w", t.name(), err)
				}
				mu.Lock()
				defer mu.Unlock()
				results.Add(s.name, t.name(), sample)
				p.Log("%s: %s: %.1fs", t.name(), s.name, time.Since(began).Seconds())
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return runner.Report{}, err
	}
	return report(all, results), nil
}

func report(all []task, results *runner.Results) runner.Report {
	r := runner.Report{
		Title: "Simulation: many nodes, one store, virtual time",
		Text: fmt.Sprintf(`Reads come at random (Poisson) to a random node, of %s keys by a Zipf distribution of
exponent 1.1; idle timeout %v, max lifetime %v, store resolution %v, trips of %v to %v
each way. A write is a touch that reached the store, also if its condition failed; the
records created anew because a key was found dead are the same for all and not counted.
Throttling touches a key when the node itself has not for a tenth of the idle timeout.
Broken are reads that found a record dead before its promise had run out.`,
			chart.Thousands(keys), idleTimeout, maxLifetime, resolution, shortestLeg, longestLeg),
	}
	for _, t := range all {
		table := runner.Table{
			Title: fmt.Sprintf("%s reads/s, %s, %v after %v", chart.Thousands(t.Rate), nodes(t.Nodes), t.Length, t.WarmUp),
			Head:  []string{"strategy", "writes per read", "reads per write", "of the writes, failed", "worst early, s", "worst late, s", "broken reads"},
		}
		for _, s := range strategies {
			m := func(measure string) float64 { return results.Median(s.name, t.name(), measure) }
			table.Rows = append(table.Rows, []string{
				s.name,
				fmt.Sprintf("%.4f", m("writes-per-read")),
				fmt.Sprintf("%.1f", 1/m("writes-per-read")),
				fmt.Sprintf("%.2f %%", 100*m("failed-share")),
				fmt.Sprintf("%.3f", m("early-s")),
				fmt.Sprintf("%.3f", m("late-s")),
				fmt.Sprintf("%.0f", m("broken-reads")),
			})
		}
		r.Tables = append(r.Tables, table)
		r.Figures = append(r.Figures, figures(t, results)...)
	}
	r.Charts = []chart.Bars{bars(all, results)}
	return r
}

func figures(t task, results *runner.Results) []runner.Figure {
	m := func(measure string) float64 { return results.Median(own10, t.name(), measure) }
	at := fmt.Sprintf("%s/%d/%d/", suiteName, t.Rate, t.Nodes)
	writes := runner.Figure{Name: at + "writes-per-read", Value: m("writes-per-read")}
	if t.Rate == 10_000 {
		writes.Op, writes.Bound = "<=", 1.0/25
	}
	return []runner.Figure{
		writes,
		{Name: at + "early-s", Value: m("early-s"), Op: "<=", Bound: 0},
		{Name: at + "late-s", Value: m("late-s"), Op: "<=", Bound: m("slack-s") + resolution.Seconds()},
	}
}

func bars(all []task, results *runner.Results) chart.Bars {
	c := chart.Bars{
		File:  "simulation-writes",
		Title: "What keeping records alive writes",
		Unit:  "writes per 1,000 reads, logarithmic scale (less is better)",
		Log:   true,
	}
	for _, t := range all {
		if t.Rate != 10_000 {
			continue
		}
		g := chart.Group{Title: fmt.Sprintf("10,000 reads a second, %s", nodes(t.Nodes))}
		for _, s := range strategies {
			label := s.name
			if early := results.Median(s.name, t.name(), "early-s"); early > 0 {
				label = fmt.Sprintf("throttled, %.0f s early", early)
			}
			own := s.name == ownExact || s.name == own1 || s.name == own10
			g.Bars = append(g.Bars, chart.Bar{Label: label, Value: 1000 * results.Median(s.name, t.name(), "writes-per-read"), Own: own})
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
