package stores

import (
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// retained is own10 with a driver that retains the dead.
const retained = "slidingttl, slack 10 %, retaining"

const retention = 24 * time.Hour

// Retain is what it costs a read of the living that the dead are retained. It is measured
// where a read has more to look at then: on other stores nothing of it is read.
func Retain() runner.Suite {
	f := &field{
		suite:      "retain",
		title:      "Couchbase: reads where the dead are retained",
		contenders: []contender{{name: own10, open: onCouchbase(10, 0, nil, nil)}, {name: retained, open: onCouchbase(10, retention, nil, nil)}},
		full:       extent{4, 192, 512, [2]int{128, 512}},
		quick:      extent{1, 32, 128, [2]int{64, 256}},
		text: `Documents of about 500 bytes, %d for each contestant, read as above by drivers with and without
a retention of a day. No touch is due, and nothing is written.`,
		targets: func(f *field, r *runner.Results) (all []runner.Figure) {
			for _, n := range readers {
				at := task{Readers: n}.name()
				all = append(all,
					f.ratio(r, retained, own10, n, "retaining-throughput-vs-not", 0.98),
					runner.Figure{Name: "retain/get/" + at + "/allocs-more", Value: r.Median(retained, at, "allocs") - r.Median(own10, at, "allocs"), Op: "<=", Bound: 0.5},
					runner.Figure{Name: "retain/get/" + at + "/writes", Value: r.Mean(retained, at, "writes"), Op: "<=", Bound: 0})
			}
			return all
		},
	}
	return runner.Suite{Name: f.suite, Contestants: []runner.Contestant{client(f.contenders), node()}, Run: f.onNode}
}
