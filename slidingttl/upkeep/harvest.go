package upkeep

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// HarvestOptions says which dead records are handed over, and to what.
type HarvestOptions struct {
	Options

	// Bury gets dead records, some at a time, in the order of their deaths. When it returns nil
	// they must be safe: then the position is saved, and the store may remove them at any
	// moment. Records of a failed call, and of a call after which the process died, are
	// handed over again. Nil: a dry run.
	Bury func(ctx context.Context, dead []driver.Dead) error

	// Since leaves out records that had died by then. Set it to the report's Until of an
	// earlier harvest that was Done. Zero: all dead records.
	Since driver.Instant

	// Again has the Again of the report whose Until is Since: those records are handed over
	// whenever they died.
	Again []string

	// PastCap ends the lives of records that are past the policy's cap with an expiry in
	// the future. It sets their expiry to now, by compare-and-swap, and a harvest after
	// Grace hands them over like the others. It needs a driver that touches, and leaves a
	// record that the store would not retain for longer than Grace. Without PastCap such
	// records are left, because under another policy they may be alive.
	PastCap bool

	// Grace is how long a record must have been dead. It must exceed twice MaxSkew and the
	// store's resolution: by clocks that far apart, a touch may still move a death, and
	// Store.Retire dates one so far back. Records that the store removes within that time are
	// lost, so the retention must be much longer. Zero: ten minutes.
	Grace time.Duration

	// Batch is about how many records are handed over at once. Zero: 5000.
	Batch int

	// BatchBytes roughly bounds, in bytes, the values that are held for Bury. Zero: 32 MiB.
	BatchBytes int
}

const (
	// Dead records wait, without their values, until so many batches of them have been found, or
	// until the time since the first and the time that reading them will take make up a wait,
	// which grows each time. Then they are handed over in the order of their deaths, so that each
	// day of an archive gets few files. A resumed harvest finds those that waited again, so one
	// that is ended regularly must hand some over before its end.
	waitingBatches = 100
	firstWait      = 10 * time.Second
	longestWait    = 10 * time.Minute

	mostAgain = 10000
)

var harvesting = operation{
	"harvest", "harvest",
	"applied policy since until idle age earlier alive past_cap ended malformed implausible lost problems? again?",
	[]row{
		{"idle", "would be harvested: dead of idleness", wrote},
		{"age", "would be harvested: dead of age", wrote},
		{"earlier", "left to an earlier harvest", rare},
		{"alive", "alive, or dead not long enough", usual},
		{"past_cap", "left: past the cap, with an expiry that is still to come", rare},
		{"ended", "would be ended: past the cap, for the next harvest", rare | wrote},
		{"malformed", "left: malformed", rare},
		{"implausible", "left: implausible, see audit", rare},
		{"lost", "lost: gone before they were read", rare},
		malformedRow,
	},
}

// Harvested is a driver whose records can be listed, and read as they are stored.
type Harvested interface {
	driver.Scanner
	driver.RawReader
}

// Harvest hands over the records of d whose expiry has passed and that d still holds. So
// the store must keep dead records for a while (a retention). Harvest removes nothing: the
// store does, or Reap. The policy p decides what the records died of, and which of the
// others are past their cap.
//
// A record is handed over at least once, each time with the same time of death, whatever
// the policy: its expiry. Harvests that follow each other within the retention, each from
// the Until of the last, miss no record, unless another program writes an expiry that has
// already passed, or the key begins another life first.
//
// The report counts records handed over as dead of "idle"ness and of "age", or in a dry run what would be,
// and others as "earlier" (left to an earlier harvest), "alive", or dead for less than Grace, "past_cap"
// (left: their expiry is still to come), "ended" (by HarvestOptions.PastCap), "malformed" and "implausible"
// (not handed over), and "lost" (dead, and removed or overwritten before they were read).
func Harvest(ctx context.Context, d Harvested, p slidingttl.Policy, opts *HarvestOptions) (*Report, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, err := verdict.New(p, o.PolicyFor, d, o.MaxSkew, o.Now)
	if err != nil {
		return nil, err
	}
	h := &harvester{wait: firstWait, d: d, opts: &o, judge: j, waits: map[int]int{}, results: map[int]*Report{}, again: map[string]bool{}}
	for _, hash := range o.Again {
		h.again[hash] = true
	}
	h.readers = newWriter(d, &WriteOptions{Options: o.Options, Writers: atOnce, Apply: o.Bury != nil})
	if h.ends, _ = d.(rewriter); o.PastCap && h.ends == nil {
		return nil, invalid("HarvestOptions.PastCap", "true", "requires a driver with Touch")
	}
	skew := 2 * min(o.MaxSkew, math.MaxInt64/4)
	if h.ends != nil {
		skew += h.ends.Resolution()
	}
	if o.Grace <= skew {
		return nil, invalid("HarvestOptions.Grace", o.Grace.String(), fmt.Sprintf("must exceed %v: twice MaxSkew, and the store's resolution", skew))
	}
	h.until = h.judge.Now().Add(-o.Grace)
	if o.Resume != nil {
		// A later Until would leave a gap: what died meanwhile may lie in a part that this
		// harvest has already read.
		var before Report
		if err := json.Unmarshal(o.Resume.State, &before); err == nil && before.Until != 0 {
			h.until = before.Until
		}
	}
	about := about(j, fmt.Sprintf(", since %d, grace %v, past cap %v, apply %v", o.Since, o.Grace, o.PastCap, o.Bury != nil))
	look := harvesting.writing(about, &WriteOptions{Options: o.Options}, h.readers, nil)
	look.visit, look.flush, look.finish = h.visit, h.flush, h.finish
	report, err := look.run(ctx, d)
	report.Since, report.Until = o.Since, h.until
	return harvesting.end(&report, o.Bury != nil, j.Policies()), err
}

func (o *HarvestOptions) validate() error {
	if o.Shards > 0 {
		return invalid("Options.Shards", fmt.Sprint(o.Shards), "must be zero: a harvest has one Until")
	}
	if o.Prefix != "" {
		return invalid("Options.Prefix", strconv.Quote(o.Prefix), "must be empty: a harvest has one Until for all keys")
	}
	return cmp.Or(
		o.Options.validate(),
		atLeastZero("HarvestOptions.Grace", &o.Grace, 10*time.Minute),
		atLeastZero("HarvestOptions.Batch", &o.Batch, 5000),
		atLeastZero("HarvestOptions.BatchBytes", &o.BatchBytes, 32<<20),
	)
}
