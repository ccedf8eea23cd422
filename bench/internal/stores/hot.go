package stores

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	hotKeys      = 2000
	hotRoom      = hotKeys / 10
	hotStaleness = 10 * time.Second

	hotBare  = "zipf: bare read"
	hotOtter = "zipf: otter over the bare read"
	hotTier  = "zipf: slidingttl over a hot tier"
)

// hotField is a store with and without a tier.
type hotField struct {
	store       string
	reads       [2]int // of each contender in a round, for each of readers
	quick, full int    // rounds
	run         func(p runner.Plan, use func(address string, operations func() (float64, error)) error) error
}

var hotFields = []hotField{
	{store: "couchbase", reads: [2]int{2000, 8000}, quick: 3, full: 32, run: onNode},
	{store: "dynamodb", reads: [2]int{300, 800}, quick: 2, full: 16, run: onDynamoDBLocal},
}

// hotContenders read the same records, which the first has put.
func hotContenders() []contender {
	var all []contender
	for store, open := range map[string]func(context.Context, string) (bare, error){"couchbase": bareCollection, "dynamodb": bareItemsOf} {
		all = append(all,
			contender{name: hotBare + ", " + store, zipf: true, open: func(ctx context.Context, address string) (way, error) {
				b, err := open(ctx, address)
				return way{get: b.get, put: b.put, spent: b.spent}, err
			}},
			contender{name: hotOtter + ", " + store, zipf: true, open: func(ctx context.Context, address string) (way, error) {
				b, err := open(ctx, address)
				if err != nil {
					return way{}, err
				}
				return b.inOtter()
			}},
			contender{name: hotTier + ", " + store, zipf: true, open: func(ctx context.Context, address string) (way, error) {
				b, err := open(ctx, address)
				if err != nil {
					return way{}, err
				}
				return b.inTier()
			}})
	}
	return all
}

// bare is a store's client and driver.
type bare struct {
	d     driver.Driver[session]
	get   func(ctx context.Context, key string) (session, error)
	put   func(ctx context.Context, key string) error
	spent func() spent // by the driver, where it knows
}

func bareCollection(_ context.Context, address string) (bare, error) {
	c, d, err := openCollection(address, 0)
	if err != nil {
		return bare{}, err
	}
	s, err := slidingttl.New(d, policy(10), nil)
	return bare{d: d, get: bareLookup(c), put: insert(s), spent: func() spent { return spent{} }}, err
}

func bareItemsOf(ctx context.Context, address string) (bare, error) {
	client, d, err := openTable(ctx, address)
	if err != nil {
		return bare{}, err
	}
	s, err := slidingttl.New(d, policy(10), nil)
	b := &bareTable{client: client}
	return bare{d: d, get: b.read, put: insert(s), spent: func() spent {
		// Consistent reads of a small item, which the tier makes, take one unit each.
		units := d.Stats()
		return spent{trips: units.ReadUnits + units.TouchUnits + float64(units.Refused)}
	}}, err
}

func none(context.Context, string) error { return nil }

// inOtter is a cache of the same size and staleness with nothing else.
func (b bare) inOtter() (way, error) {
	var loads atomic.Int64
	cache, err := otter.New(&otter.Options[string, session]{
		MaximumSize:      hotRoom,
		ExpiryCalculator: otter.ExpiryWriting[string, session](hotStaleness),
	})
	if err != nil {
		return way{}, err
	}
	load := otter.LoaderFunc[string, session](func(ctx context.Context, key string) (session, error) {
		loads.Add(1)
		return b.get(ctx, key)
	})
	return way{
		get:   func(ctx context.Context, key string) (session, error) { return cache.Get(ctx, key, load) },
		put:   none,
		spent: func() spent { return spent{trips: float64(loads.Load())} },
	}, nil
}

// inTier is slidingttl with what is read most in memory.
func (b bare) inTier() (way, error) {
	h, err := hot.New(b.d, hot.Bounds{Records: hotRoom, Staleness: hotStaleness}, nil)
	if err != nil {
		return way{}, err
	}
	s, err := slidingttl.New(h, policy(10), nil)
	return way{get: s.Get, put: none, spent: b.spent}, err
}

// onNode runs a node of couchbasetest, which counts operations, in a process of its own.
func onNode(_ runner.Plan, use func(string, func() (float64, error)) error) error {
	return runner.With("hot", []string{nodeName}, func(n []*runner.Worker) error {
		s, err := n[0].Do(task{})
		if err != nil {
			return err
		}
		return use(fmt.Sprintf("couchbase://127.0.0.1:%.0f", s["port"]), func() (float64, error) {
			s, err := n[0].Do(task{})
			return s["operations"], err
		})
	})
}

func onDynamoDBLocal(p runner.Plan, use func(string, func() (float64, error)) error) error {
	server, err := dynamodbtest.Run(context.Background())
	if err != nil {
		p.Log("NOT RUN: %v", err)
		return nil
	}
	defer server.Close()
	return use(server.Endpoint, nil)
}

// Hot is the field of tiers in memory over a store.
func Hot() runner.Suite {
	return runner.Suite{
		Name:        "hot",
		Contestants: []runner.Contestant{client(hotContenders()), node()},
		Run: func(p runner.Plan) (runner.Report, error) {
			report := runner.Report{Title: "A hot tier: reads without a trip", Text: fmt.Sprintf(`Records of about 500 bytes, %d on each store, read by Zipf with exponent 1.1; room for %d in memory, which are
answered for %v at most. Trips are those that the node has counted, or by the units that DynamoDB Local says it consumed, and of
otter alone its loads. What its hit rate allows is the bare client's rate by the trips that a read takes.`, hotKeys, hotRoom, hotStaleness)}
			for _, f := range hotFields {
				err := f.run(p, func(address string, operations func() (float64, error)) error {
					return f.measure(p, address, operations, &report)
				})
				if err != nil {
					return report, err
				}
			}
			return report, nil
		},
	}
}

func (f *hotField) measure(p runner.Plan, address string, operations func() (float64, error), report *runner.Report) error {
	names := []string{hotBare, hotOtter, hotTier}
	results := new(runner.Results)
	err := runner.With("hot", []string{clientName}, func(workers []*runner.Worker) error {
		do := func(name string, t task) (runner.Sample, error) {
			t.Contender, t.Address = name+", "+f.store, address
			if operations == nil || name != hotTier {
				return workers[0].Do(t)
			}
			before, err := operations()
			if err != nil {
				return nil, err
			}
			s, err := workers[0].Do(t)
			if err != nil {
				return nil, err
			}
			after, err := operations()
			s["trips"] = (after - before) / s["all-reads"]
			return s, err
		}
		for _, name := range names { // to open, fill and warm up
			if _, err := do(name, task{Prefix: "record-", Keys: hotKeys, Readers: 16, Reads: f.reads[1] / 16}); err != nil {
				return err
			}
		}
		rounds := runner.Pick(p, f.full, f.quick)
		for round := range rounds {
			for i, n := range readers {
				for _, name := range runner.Shuffled(names, round) {
					t := task{Readers: n, Reads: f.reads[i] / n}
					s, err := do(name, t)
					if err != nil {
						return err
					}
					results.Add(name, t.name(), s)
				}
			}
		}
		p.Log("hot: %s: %d rounds", f.store, rounds)
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range readers {
		at := task{Readers: n}.name()
		table := runner.Table{
			Title: fmt.Sprintf("%s, readers at once: %d", f.store, n),
			Head:  []string{"way", "reads/s", "p50, µs", "p99, µs", "allocations", "trips per read"},
		}
		for _, name := range names {
			m := func(measure string) float64 { return results.Median(name, at, measure) }
			trips := fmt.Sprintf("%.2f", results.Mean(name, at, "trips"))
			if name == hotBare {
				trips = "1.00"
			}
			table.Rows = append(table.Rows, []string{strings.TrimPrefix(name, "zipf: "), fmt.Sprintf("%.0f", 1e9/m("ns")),
				fmt.Sprintf("%.1f", m("p50")), fmt.Sprintf("%.0f", m("p99")), fmt.Sprintf("%.0f", m("allocs")), trips})
		}
		report.Tables = append(report.Tables, table)
		trips := results.Mean(hotTier, at, "trips")
		report.Figures = append(report.Figures,
			runner.Figure{
				Name:  fmt.Sprintf("hot/%s/%d/reads-vs-what-hits-allow", f.store, n),
				Value: allowed(results, at),
				Op:    ">=", Bound: 0.8,
			},
			runner.Figure{
				Name:  fmt.Sprintf("hot/%s/%d/trips-vs-otter", f.store, n),
				Value: trips / results.Mean(hotOtter, at, "trips"),
				Op:    "<=", Bound: 1.2,
			})
	}
	return nil
}

// allowed is the tier's rate as a part of what its hit rate allows: the bare client's by
// the trips that a read takes. It is the median over the rounds, for both differ by round.
func allowed(r *runner.Results, at string) float64 {
	bare, tier, trips := r.All(hotBare, at, "ns"), r.All(hotTier, at, "ns"), r.All(hotTier, at, "trips")
	parts := make([]float64, len(tier))
	for i := range tier {
		parts[i] = bare[i] * trips[i] / tier[i]
	}
	return runner.Median(parts)
}
