package inmemory

import (
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

const suiteName = "memory"

// Suite is the in-memory field.
func Suite() runner.Suite {
	s := runner.Suite{Name: suiteName, Run: measure, Smoke: task{Kind: "grow", Keys: 1000}}
	for _, f := range all {
		s.Contestants = append(s.Contestants, contestant(f))
	}
	return s
}

// names returns those contestants' names that keep approves of.
func names(keep func(string) bool) []string {
	var n []string
	for _, f := range all {
		if keep(f.name) {
			n = append(n, f.name)
		}
	}
	return n
}

// mortals are the contestants whose removal of the dead can be watched.
var mortals = []string{slack10, otterPlain, otterTick, ttlcached, goCached}

// What a hit may take of otter's.
const (
	slackOfOtter = 0.75
	exactOfOtter = 0.8
)

// hits are the tasks of reading.
func hits(length time.Duration, keys int) []task {
	var tasks []task
	for _, w := range workloads(keys) {
		for _, g := range []int{1, 2} {
			w.Goroutines, w.For = g, length
			tasks = append(tasks, w)
		}
	}
	return tasks
}

func workloads(keys int) []task {
	return []task{
		{Kind: "hit", Workload: "uniform", Keys: keys},
		{Kind: "hit", Workload: "zipf", Keys: keys},
		{Kind: "hit", Workload: "hot", Keys: hotKeys},
	}
}

func measure(p runner.Plan) (runner.Report, error) {
	keys := runner.Pick(p, 1_000_000, 250_000)
	f := findings{keys: keys, grownTo: keys, dying: runner.Pick(p, 1_000_000, 100_000)}
	proof := make(chan error, 1)
	go func() { proof <- prove() }()

	var err error
	// Nothing is timed while the contestants make ready, which is when the proof runs.
	everybody := names(func(n string) bool { return n != otterBorn })
	err = runner.With(suiteName, everybody, func(workers []*runner.Worker) error {
		if err := prepare(workers, keys); err != nil {
			return err
		}
		if err := <-proof; err != nil {
			return err
		}
		p.Log("memory: hits")
		f.hits, err = runner.Rounds(p, 21, workers,
			hits(runner.Pick(p, 60*time.Millisecond, 14*time.Millisecond), keys), task.name)
		return err
	})
	if err != nil {
		return runner.Report{}, err
	}
	p.Log("memory: inserts, bytes per key")
	grown := names(func(name string) bool {
		return name != observed && !p.Quick || name == slack10 || name == otterPlain || name == otterBorn || name == floorDue
	})
	if f.grown, err = fresh(p, runner.Pick(p, 5, 1), grown, task{Kind: "grow", Keys: f.grownTo}); err != nil {
		return runner.Report{}, err
	}
	p.Log("memory: mass expiry")
	if f.expired, err = fresh(p, runner.Pick(p, 7, 3), runner.Pick(p, mortals, mortals[:1]), task{Kind: "expire", Keys: f.dying}); err != nil {
		return runner.Report{}, err
	}
	return f.report(), nil
}

// prove has every contestant prove, at once, that it slides.
func prove() error {
	var g errgroup.Group
	for _, f := range all {
		g.Go(func() error {
			_, err := runner.Once(suiteName, f.name, task{Kind: "slides"})
			return err
		})
	}
	return g.Wait()
}

// prepare fills the workers for hits.
func prepare(workers []*runner.Worker, keys int) error {
	var g errgroup.Group
	g.SetLimit(2)
	for _, w := range workers {
		g.Go(func() error {
			for _, n := range []int{keys, hotKeys} {
				if _, err := w.Do(task{Kind: "fill", Keys: n}); err != nil {
					return err
				}
			}
			for _, t := range hits(time.Millisecond, keys) { // draws the streams
				if _, err := w.Do(t); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// fresh does one task a round in a process that has done nothing before.
func fresh(p runner.Plan, rounds int, names []string, t task) (*runner.Results, error) {
	r := new(runner.Results)
	for round := range rounds {
		for _, name := range runner.Shuffled(names, round) {
			s, err := runner.Once(suiteName, name, t)
			if err != nil {
				return nil, err
			}
			r.Add(name, t.Kind, s)
		}
		p.Log("round %d of %d", round+1, rounds)
	}
	return r, nil
}

// findings are what was measured.
type findings struct {
	keys, grownTo, dying int
	hits, grown, expired *runner.Results
}

func (f *findings) report() runner.Report {
	r := runner.Report{
		Title: "In memory: a sliding hit",
		Text: fmt.Sprintf(`A hit returns the 64-byte value of a 16-byte key and slides its expiry, idle timeout %v.
%s keys are read uniformly and by a Zipf distribution of exponent 1.1, and %s keys
uniformly ("hot"), by one and by two goroutines. "slack 10 %%" stores an expiry only when
it is due, "observed" does so with a budget and an Observer of touches, "exact" as soon as it would move by a millisecond, otter when it would move by
more than a second; all others on every hit. Mass expiry: %s records die at one
instant while a read of a live one falls due every %v; the latency counts from then.`,
			idleTimeout, chart.Thousands(f.keys), chart.Thousands(hotKeys), chart.Thousands(f.dying), readEvery),
	}
	f.figures(&r)
	r.Tables = []runner.Table{f.hitTable(), f.growTable(), f.expireTable()}
	r.Charts = []chart.Bars{f.hitChart(), f.bytesChart()}
	return r
}

func (f *findings) figures(r *runner.Report) {
	add := func(name string, value float64, op string, bound float64) {
		r.Figures = append(r.Figures, runner.Figure{Name: suiteName + "/" + name, Value: value, Op: op, Bound: bound})
	}
	allocs := 0.0
	for _, t := range hits(0, f.keys) {
		ratio := func(own, other string) float64 { return f.hits.Ratio(own, other, t.name(), "ns") }
		at := fmt.Sprintf("hit/%s/%d/", t.Workload, t.Goroutines)
		add(at+"ns", f.hits.Median(slack10, t.name(), "ns"), "", 0)
		add(at+"vs-otter", ratio(slack10, otterPlain), "<=", slackOfOtter)
		add(at+"vs-otter-coarse", ratio(slack10, otterTick), "<=", slackOfOtter)
		add(at+"vs-floor-when-due", ratio(slack10, floorDue), "<=", 1.25)
		add(at+"observed-vs-not", ratio(observed, slack10), "<=", 1.05)
		add(at+"exact-vs-otter", ratio(exact, otterPlain), "<=", exactOfOtter)
		for _, own := range []string{slack10, exact} {
			allocs = max(allocs, f.hits.Median(own, t.name(), "allocs"))
		}
	}
	add("hit/allocs", round2(allocs), "<=", 0)
	add("insert/vs-otter", f.grown.Ratio(slack10, otterPlain, "grow", "ns"), "", 0)
	add("bytes-per-key", f.grown.Median(slack10, "grow", "bytes"), "", 0)
	add("bytes-per-key/vs-otter-with-creation-time", f.grown.Ratio(slack10, otterBorn, "grow", "bytes"), "<=", 1)
	add("mass-expiry/µs-p99.9", f.expired.Median(slack10, "expire", "µs-p99.9"), "", 0)
	add("mass-expiry/µs-p99.9-before", f.expired.Median(slack10, "expire", "µs-p99.9-before"), "", 0)
	add("mass-expiry/p99.9-vs-before", f.expired.Median(slack10, "expire", "p99.9-vs-before"), "<=", 1.5)
	add("mass-expiry/ms-to-gone", f.expired.Median(slack10, "expire", "ms-to-gone"), "<=", 2000)
	add("mass-expiry/%-of-full-heap", f.expired.Median(slack10, "expire", "%-of-full-heap"), "<=", 10)
}

// round2 leaves out what the measuring itself allocates.
func round2(v float64) float64 { return math.Round(v*100) / 100 }

func (f *findings) hitTable() runner.Table {
	t := runner.Table{Title: "ns per hit (wall clock by number of hits), median of the rounds; allocations: the most", Head: []string{"contestant"}}
	tasks := hits(0, f.keys)
	for _, task := range tasks {
		t.Head = append(t.Head, fmt.Sprintf("%s, %d", task.Workload, task.Goroutines))
	}
	t.Head = append(t.Head, "allocs")
	for _, c := range all {
		if !f.hits.Has(c.name, tasks[0].name(), "ns") {
			continue
		}
		row := []string{c.name}
		allocs := 0.0
		for _, task := range tasks {
			row = append(row, fmt.Sprintf("%.1f", f.hits.Median(c.name, task.name(), "ns")))
			allocs = max(allocs, f.hits.Median(c.name, task.name(), "allocs"))
		}
		t.Rows = append(t.Rows, append(row, chart.Number(round2(allocs))))
	}
	return t
}

func (f *findings) growTable() runner.Table {
	t := runner.Table{
		Title: fmt.Sprintf("Insert of %s keys into an empty store, and what a key then takes of the heap", chart.Thousands(f.grownTo)),
		Head:  []string{"contestant", "ns per insert", "bytes per key"},
	}
	for _, c := range all {
		if !f.grown.Has(c.name, "grow", "ns") {
			continue
		}
		t.Rows = append(t.Rows, []string{c.name,
			fmt.Sprintf("%.0f", f.grown.Median(c.name, "grow", "ns")),
			fmt.Sprintf("%.0f", f.grown.Median(c.name, "grow", "bytes"))})
	}
	return t
}

func (f *findings) expireTable() runner.Table {
	t := runner.Table{
		Title: "Mass expiry",
		Head:  []string{"contestant", "gone after, ms", "p99.9 of reads meanwhile, µs", "p99.9 just before, µs", "first by second", "max meanwhile, µs", "heap left, % of full"},
	}
	for _, c := range all {
		if !f.expired.Has(c.name, "expire", "ms-to-gone") {
			continue
		}
		row := []string{c.name}
		for _, m := range []string{"ms-to-gone", "µs-p99.9", "µs-p99.9-before", "p99.9-vs-before", "µs-max", "%-of-full-heap"} {
			row = append(row, chart.Number(math.Round(f.expired.Median(c.name, "expire", m)*10)/10))
		}
		if f.expired.Median(c.name, "expire", "records-left") > 0 {
			row[1] = fmt.Sprintf("not within %v", patience)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func (f *findings) hitChart() chart.Bars {
	c := chart.Bars{File: "memory-hit", Title: "A sliding hit in memory", Unit: "ns per hit, two goroutines (less is better)"}
	for _, t := range hits(0, f.keys) {
		if t.Goroutines != 2 {
			continue
		}
		g := chart.Group{Title: map[string]string{
			"uniform": chart.Thousands(f.keys) + " keys, uniform",
			"zipf":    chart.Thousands(f.keys) + " keys, Zipf 1.1",
			"hot":     chart.Thousands(hotKeys) + " hot keys",
		}[t.Workload]}
		for _, s := range all {
			if f.hits.Has(s.name, t.name(), "ns") {
				g.Bars = append(g.Bars, bar(s.name, f.hits.Median(s.name, t.name(), "ns")))
			}
		}
		c.Groups = append(c.Groups, g)
	}
	return c
}

func (f *findings) bytesChart() chart.Bars {
	c := chart.Bars{File: "memory-bytes", Title: "Memory of a record", Unit: "bytes per key: 16-byte key and 64-byte value included (less is better)"}
	g := chart.Group{Title: chart.Thousands(f.grownTo) + " keys"}
	for _, s := range all {
		if s.name == otterTick || s.name == exact || !f.grown.Has(s.name, "grow", "bytes") {
			continue // the first two take the same as their twins
		}
		b := bar(s.name, f.grown.Median(s.name, "grow", "bytes"))
		if s.name == slack10 {
			b.Label = "slidingttl"
		}
		g.Bars = append(g.Bars, b)
	}
	c.Groups = []chart.Group{g}
	return c
}

func bar(name string, v float64) chart.Bar {
	return chart.Bar{Label: name, Value: v, Own: name == slack10 || name == observed || name == exact}
}
