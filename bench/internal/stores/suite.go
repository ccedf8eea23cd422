package stores

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

// field is a store and what is measured on it.
type field struct {
	suite, title string
	text         string // %d: the keys of each contender
	contenders   []contender
	full, quick  extent
	targets      func(f *field, r *runner.Results) []runner.Figure
	units        bool // the store bills capacity units
	cpu          bool // it tells the processor time of its server
}

// extent is how much is measured. Each generation makes some rounds, with connections and
// records of its own. The contenders open and fill the store in turns from the first to the
// last and from the last to the first: who comes first has an advantage of some per cent.
type extent struct {
	generations, rounds int
	keys                int    // of each contender
	reads               [2]int // of each contender in a round, for each of readers
}

var readers = [2]int{1, 16}

// Couchbase is the field of ways to read on Couchbase.
func Couchbase() runner.Suite {
	f := &field{
		suite:      "couchbase",
		title:      "Couchbase: reads that keep their document alive",
		contenders: couchbaseContenders,
		full:       extent{4, 128, 512, [2]int{128, 512}},
		quick:      extent{1, 32, 128, [2]int{32, 256}},
		text: `Documents of about 500 bytes, %d for each contestant, on one couchbasetest node in a
process of its own, over loopback; readers take the keys in turn. Writes are the mutations that
the node has counted. With
slack no touch is due; a touch in the same second as the last one changes nothing.`,
		targets: func(f *field, r *runner.Results) []runner.Figure {
			return []runner.Figure{
				f.throughput(r, bareName, 16, "vs-bare", 0.95),
				f.throughput(r, naiveName, 16, "vs-naive", 1.25),
				f.ratio(r, observed, own10, 1, "observed-throughput-vs-not", 1/1.05),
				f.ratio(r, observed, own10, 16, "observed-throughput-vs-not", 1/1.05),
				f.allocs(r, 1.10),
			}
		},
	}
	return runner.Suite{
		Name:        f.suite,
		Contestants: []runner.Contestant{client(f.contenders), node()},
		Run:         f.onNode,
	}
}

// onNode measures on a Couchbase node of its own.
func (f *field) onNode(p runner.Plan) (report runner.Report, err error) {
	err = runner.With(f.suite, []string{nodeName}, func(n []*runner.Worker) error {
		s, err := n[0].Do(task{})
		if err != nil {
			return err
		}
		mutations := func() (runner.Sample, error) {
			s, err := n[0].Do(task{})
			return runner.Sample{"writes": s["mutations"]}, err
		}
		report, err = f.measure(p, fmt.Sprintf("couchbase://127.0.0.1:%.0f", s["port"]), mutations)
		return err
	})
	return report, err
}

// DynamoDB is the field of ways to read on DynamoDB.
func DynamoDB() runner.Suite {
	f := &field{
		suite:      "dynamodb",
		title:      "DynamoDB: reads that keep their item alive",
		contenders: dynamodbContenders,
		full:       extent{4, 20, 512, [2]int{100, 208}},
		quick:      extent{1, 20, 128, [2]int{16, 32}},
		units:      true,
		text: `Items of about 500 bytes, %d for each contestant, in one table of DynamoDB Local, eventually
consistent; readers take the keys in turn. Units are those that DynamoDB Local says it consumed; a
refused write counts as one. With slack no touch is due.`,
		targets: func(f *field, r *runner.Results) []runner.Figure {
			return []runner.Figure{
				f.throughput(r, bareName, 1, "vs-bare", 0.95),
				f.throughput(r, bareName, 16, "vs-bare", 0.95),
				f.allocs(r, 1.15),
			}
		},
	}
	return runner.Suite{
		Name:        f.suite,
		Contestants: []runner.Contestant{client(f.contenders)},
		Run: func(p runner.Plan) (runner.Report, error) {
			server, err := dynamodbtest.Run(context.Background())
			if err != nil {
				p.Log("NOT RUN: %v", err)
				why, _, _ := strings.Cut(err.Error(), ":")
				return runner.Report{Title: f.title, Text: "Not run: " + why + " found no DynamoDB Local; see its documentation for what it needs."}, nil
			}
			defer server.Close()
			return f.measure(p, server.Endpoint, nil)
		},
	}
}

// measure lets the contenders take turns. counts is what the store has done so far by its own
// count, by measure, where it has one.
func (f *field) measure(p runner.Plan, address string, counts func() (runner.Sample, error)) (runner.Report, error) {
	e := runner.Pick(p, f.full, f.quick)
	results := new(runner.Results)
	for generation := range e.generations {
		p.Log("%s: generation %d of %d", f.suite, generation+1, e.generations)
		err := runner.With(f.suite, []string{clientName}, func(workers []*runner.Worker) error {
			return f.rounds(e, generation, workers[0], address, counts, results)
		})
		if err != nil {
			return runner.Report{}, err
		}
	}
	return f.report(results, e.keys), nil
}

// rounds measures one generation.
func (f *field) rounds(e extent, generation int, w *runner.Worker, address string, counts func() (runner.Sample, error), results *runner.Results) error {
	contenders := slices.Clone(f.contenders)
	if generation%2 == 1 {
		slices.Reverse(contenders)
	}
	for i, c := range contenders { // to open and fill
		prefix := fmt.Sprintf("session-%d-%d-", generation, i)
		if _, err := w.Do(task{Contender: c.name, Address: address, Prefix: prefix, Keys: e.keys, Readers: 16, Reads: 10}); err != nil {
			return err
		}
	}
	for round := range e.rounds {
		for i, n := range readers {
			for _, c := range runner.Shuffled(contenders, generation*e.rounds+round) {
				t := task{Contender: c.name, Address: address, Readers: n, Reads: e.reads[i] / n}
				s, err := counted(w, t, counts)
				if err != nil {
					return err
				}
				results.Add(c.name, t.name(), s)
			}
		}
	}
	return nil
}

// counted does a task and puts what the store did meanwhile into its sample, for each read.
func counted(w *runner.Worker, t task, counts func() (runner.Sample, error)) (runner.Sample, error) {
	if counts == nil {
		return w.Do(t)
	}
	before, err := counts()
	if err != nil {
		return nil, err
	}
	s, err := w.Do(t)
	if err != nil {
		return nil, err
	}
	after, err := counts()
	for measure := range after {
		s[measure] = (after[measure] - before[measure]) / s["all-reads"]
	}
	return s, err
}

// throughput is ours as a multiple of another's.
func (f *field) throughput(r *runner.Results, other string, readers int, name string, bound float64) runner.Figure {
	return f.ratio(r, own10, other, readers, "throughput-"+name, bound)
}

// ratio is the throughput of one as a multiple of another's.
func (f *field) ratio(r *runner.Results, one, other string, readers int, name string, bound float64) runner.Figure {
	t := task{Readers: readers}
	return runner.Figure{
		Name:  fmt.Sprintf("%s/get/%d/%s", f.suite, readers, name),
		Value: r.Ratio(other, one, t.name(), "ns"),
		Op:    ">=", Bound: bound,
	}
}

func (f *field) allocs(r *runner.Results, bound float64) runner.Figure {
	return runner.Figure{
		Name:  f.suite + "/get/allocs-vs-bare",
		Value: r.Ratio(own10, bareName, "1", "allocs"),
		Op:    "<=", Bound: bound,
	}
}

func (f *field) report(r *runner.Results, keys int) runner.Report {
	report := runner.Report{Title: f.title, Text: fmt.Sprintf(f.text, keys), Figures: f.targets(f, r)}
	bars := chart.Bars{File: f.suite, Title: f.title, Unit: "µs per read, median (less is better)"}
	for _, n := range readers {
		at := task{Readers: n}.name()
		title := "1 reader"
		if n > 1 {
			title = fmt.Sprintf("%d readers at once", n)
		}
		t := runner.Table{Title: title, Head: []string{"way", "reads/s", "p50, µs", "p99, µs", "allocations", "writes per read"}}
		if f.units {
			t.Head = append(t.Head, "read units", "write units")
		}
		if f.cpu {
			t.Head = append(t.Head, "server CPU, µs")
		}
		g := chart.Group{Title: title}
		for _, c := range f.contenders {
			m := func(measure string) float64 { return r.Median(c.name, at, measure) }
			mean := func(measure string) float64 { return r.Mean(c.name, at, measure) }
			row := []string{c.name, fmt.Sprintf("%.0f", 1e9/m("ns")), fmt.Sprintf("%.0f", m("p50")), fmt.Sprintf("%.0f", m("p99")),
				fmt.Sprintf("%.0f", m("allocs")), fmt.Sprintf("%.2f", mean("writes"))}
			if f.units {
				row = append(row, fmt.Sprintf("%.2f", mean("rcu")), fmt.Sprintf("%.2f", mean("wcu")))
			}
			if f.cpu {
				row = append(row, fmt.Sprintf("%.1f", m("server-cpu")))
			}
			t.Rows = append(t.Rows, row)
			g.Bars = append(g.Bars, chart.Bar{Label: c.name, Value: m("p50"), Own: strings.HasPrefix(c.name, "slidingttl")})
		}
		report.Tables = append(report.Tables, t)
		bars.Groups = append(bars.Groups, g)
	}
	report.Charts = []chart.Bars{bars}
	return report
}
