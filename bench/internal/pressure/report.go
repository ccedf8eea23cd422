package pressure

import (
	"fmt"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

// report tells what came of all, and of the tasks with a budget and the one without.
func report(all []pressed, need task, results *runner.Results, budgets []task) runner.Report {
	r := runner.Report{
		Title: "Pressure: a herd, a throttled store, a budget",
		Text: fmt.Sprintf(`Inline is a read that writes the touch it finds due and waits for it, one of a key at a
time in a process. Herd: processes read one key without pause, legs of %v, slack %v.
Latency: reads at random, each due, over legs of %v, while a touch is refused after 2 to 5 s.
Recovery and budget: %s keys by a Zipf distribution of exponent 1.1, %s reads a second, slack
a tenth of the idle timeout, legs of %v. Recovery counts those dead before their promise had run
out that lived when all had been carried out that waited as the store came back; budgets
are a quarter and a tenth of the touches that are needed without, for each process its share. All is in virtual time, but
what is said to be on Redis: there the legs and the throttling come before a redis-server.`,
			herdLeg, herdSlack, herdLeg, chart.Thousands(need.Keys), chart.Thousands(need.Rate), leg),
	}
	m := func(who string, t task, measure string) float64 { return results.Median(who, t.name(), measure) }
	figure := func(t task, measure string, value, bound float64) {
		r.Figures = append(r.Figures, runner.Figure{Name: suiteName + "/" + t.name() + "/" + measure, Value: value, Op: "<=", Bound: bound})
	}
	herds := runner.Table{Title: "Herd: writes billed for each that is needed", Head: []string{"processes", ownName, inlineName}}
	latencies := runner.Table{Title: "Latency of reads, ms", Head: []string{"strategy", "store", "p50", "p99", "most"}}
	recoveries := runner.Table{Title: "Recovery", Head: []string{"idle timeout, throttled", "strategy", "waited", "drained in, s", "early of those", "early in all"}}
	var clear task
	for _, t := range all {
		got := func(measure string) float64 { return m(t.strategy, t.task, measure) }
		number := func(measure string) string { return chart.Number(got(measure)) }
		switch t.Kind {
		case herdKind:
			if t.strategy == ownName {
				figure(t.task, "writes-per-needed", got("writes-per-needed"), map[int]float64{8: 1.2, 32: 1.5}[t.Nodes])
				herds.Rows = append(herds.Rows, []string{where(t.task) + fmt.Sprint(t.Nodes), number("writes-per-needed"), chart.Number(m(inlineName, t.task, "writes-per-needed"))})
			}
		case latencyKind:
			store := where(t.task) + "takes touches"
			if t.Throttled > 0 {
				store = fmt.Sprintf("%sthrottled for %v", where(t.task), t.Throttled)
			} else {
				clear = t.task
			}
			latencies.Rows = append(latencies.Rows, []string{t.strategy, store, number("p50"), number("p99"), number("max")})
			if t.strategy == ownName && t.Throttled > 0 {
				figure(t.task, "p99-vs-clear", got("p99")/m(ownName, clear, "p99"), 2)
				figure(t.task, "max-ms", got("max"), 100+2*m(ownName, clear, "max"))
			}
		case recoveryKind:
			recoveries.Rows = append(recoveries.Rows, []string{fmt.Sprintf("%v, %v", t.Idle, t.Throttled), t.strategy,
				number("waited"), number("drained-s"), number("early"), number("early-all")})
			if t.strategy == ownName {
				figure(t.task, "early", got("early"), 0)
			}
		}
	}
	spent := runner.Table{Title: "Budgets", Head: []string{"processes", "budget each, touches/s", "begins", "touches/s", "of the budgets", "seconds over them", "died early"}}
	for _, t := range append([]task{need}, budgets...) {
		got := func(measure string) float64 { return m(ownName, t, measure) }
		row := []string{fmt.Sprint(t.Nodes), "none", "full", fmt.Sprintf("%.1f", got("touches-per-s")), "", "", chart.Number(got("early"))}
		if t.Budget > 0 {
			row[1] = fmt.Sprintf("%.1f", t.Budget)
			row[4], row[5] = fmt.Sprintf("%.2f", got("budgets")), fmt.Sprintf("%.1f %%", 100*got("over"))
			figure(t, "early", got("early"), 0)
			if t.Nodes == 1 && !t.Full {
				figure(t, "seconds-over", got("over"), 0.05)
			} else {
				figure(t, "budgets", got("budgets"), 1.2)
			}
		}
		if !t.Full {
			row[2] = "empty"
		}
		spent.Rows = append(spent.Rows, row)
	}
	r.Tables = []runner.Table{herds, latencies, recoveries, spent}
	return r
}

// where is where a task is done, to go before what it does.
func where(t task) string {
	if t.Address != "" {
		return wired
	}
	return ""
}
