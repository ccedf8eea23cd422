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

	// Readers bounds the values that are read at once. Zero: 16.
	Readers int
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

// HarvestReport is the result of a Harvest.
type HarvestReport struct {
	Totals
	Applied bool   `json:"applied"` // else it was a dry run
	Policy  string `json:"policy"`

	Since driver.Instant `json:"since"` // deaths before it were left to an earlier harvest; zero: none

	// Until is the time up to which deaths were considered. It is the next harvest's Since
	// if this one is Done.
	Until driver.Instant `json:"until"`

	Idle        int64 `json:"idle"`        // handed over, dead of idleness
	Age         int64 `json:"age"`         // handed over, dead of age
	Earlier     int64 `json:"earlier"`     // dead, and left to an earlier harvest
	Alive       int64 `json:"alive"`       // or dead for less than Grace
	PastCap     int64 `json:"past_cap"`    // past the policy's cap, and left: their expiry is still to come
	Ended       int64 `json:"ended"`       // past the cap, and ended by PastCap
	Malformed   int64 `json:"malformed"`   // not handed over: their life cannot be read
	Implausible int64 `json:"implausible"` // not handed over: times that make no sense, as if in another unit
	Lost        int64 `json:"lost"`        // dead, and removed or overwritten before they were read

	Problems map[string]int64 `json:"problems,omitempty"` // malformed records by reason

	// Again has the hashes of the keys of records that were not handed over because they could not be read:
	// at most 10,000 dead ones, and at most 10,000 that are malformed, or have an implausible
	// expiry that has passed. The next harvest's HarvestOptions.Again must have them.
	Again []string `json:"again,omitempty"`
}

func (r *HarvestReport) add(page *HarvestReport) {
	r.Until = max(r.Until, page.Until)
	r.tallies().add(page.tallies())
	r.Again = append(r.Again, page.Again...)
}

func (r *HarvestReport) restart() { r.tallies().restart(&r.Totals) }

func (r *HarvestReport) tallies() tallies {
	return tallies{"harvest under " + r.Policy + dry(r.Applied), []tally{
		{&r.Idle, would(r.Applied, "harvested") + ": dead of idleness", wrote},
		{&r.Age, would(r.Applied, "harvested") + ": dead of age", wrote},
		{&r.Earlier, "left to an earlier harvest", rare},
		{&r.Alive, "alive, or dead not long enough", usual},
		{&r.PastCap, "left: past the cap, with an expiry that is still to come", rare},
		{&r.Ended, would(r.Applied, "ended") + ": past the cap, for the next harvest", rare | wrote},
		{&r.Malformed, "left: malformed", rare},
		{&r.Implausible, "left: implausible, see audit", rare},
		{&r.Lost, "lost: gone before they were read", rare},
	}, []reasons{{&r.Problems, "malformed because", usual}}}
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
// Together with an error, the report is valid for the records handed over until then.
func Harvest(ctx context.Context, d Harvested, p slidingttl.Policy, opts *HarvestOptions) (*HarvestReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, err := o.judge(p, d)
	if err != nil {
		return nil, err
	}
	h := &harvester{wait: firstWait, d: d, opts: &o, judge: j, waits: map[int]int{}, results: map[int]*HarvestReport{}, again: map[string]bool{}}
	for _, hash := range o.Again {
		h.again[hash] = true
	}
	h.readers = newWriter(d, &WriteOptions{Options: o.Options, Writers: o.Readers, Apply: o.Bury != nil})
	if h.ends, _ = d.(ender); o.PastCap && h.ends == nil {
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
		var before HarvestReport
		if err := json.Unmarshal(o.Resume.State, &before); err == nil && before.Until != 0 {
			h.until = before.Until
		}
	}
	look := job[HarvestReport, *HarvestReport]{
		name:    "harvest",
		about:   about(j, fmt.Sprintf(", since %d, grace %v, past cap %v, apply %v", o.Since, o.Grace, o.PastCap, o.Bury != nil)),
		opts:    o.Options,
		cost:    h.readers.cost,
		add:     (*HarvestReport).add,
		restart: (*HarvestReport).restart,
		wrote:   h.readers.tried.Load,
		visit:   h.visit,
		flush:   h.flush,
		finish:  h.finish,
	}
	report, err := look.run(ctx, d)
	report.Since, report.Until, report.Applied, report.Policy = o.Since, h.until, o.Bury != nil, h.judge.Policies()
	return &report, err
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
		atLeastZero("HarvestOptions.Readers", &o.Readers, 16),
	)
}

func (r *HarvestReport) malformed(err error) {
	r.Malformed++
	r.Problems = verdict.Count(r.Problems, map[string]int64{verdict.Reason(err): 1})
}

// String returns the report as several lines of text.
func (r *HarvestReport) String() string {
	dead := "dead by " + r.Until.Time().Format(time.RFC3339)
	if r.Since != 0 {
		dead += "\nand not by " + r.Since.Time().Format(time.RFC3339) + ", to which an earlier harvest came"
	}
	return r.tallies().text(&r.Totals, dead)
}
