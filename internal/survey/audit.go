package survey

import (
	"context"
	"maps"
	"slices"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// AuditReport describes the state of a store's records.
type AuditReport struct {
	upkeep.Totals
	Policy string                  `json:"policy"`
	States map[verdict.State]Share `json:"states"` // all records by state

	// Immortal counts the records that live for ever unless they are read. They have no
	// expiry, and either no created_at or a policy without a cap.
	Immortal Share `json:"immortal"`

	findings

	// Deaths is a histogram of when live records die if they are not read. Each bin has
	// the share of all records that die within its time, and after that of the bin before.
	Deaths []Deaths `json:"deaths"`

	// Calendar has the same deaths by equal steps of time. They are not bounded.
	Calendar Calendar `json:"calendar"`

	// Bytes is the size of the records whose size the store reports.
	Bytes int64 `json:"bytes,omitempty"`

	Sample *Sample `json:"sample,omitempty"` // nil: all records were read
}

// findings is what an audit finds besides the states.
type findings struct {
	// Problems counts malformed records by reason, at most 100 reasons.
	Problems map[string]int64 `json:"problems,omitempty"`

	// Doubts counts implausible records by what is implausible, with the unit of time in
	// which it would make sense.
	Doubts map[string]int64 `json:"doubts,omitempty"`

	// Faults counts readable records that the store will not delete, by the reason why it
	// ignores their expiry. Mend corrects them.
	Faults map[string]int64 `json:"faults,omitempty"`

	// Kinds counts the records by what their keys look like. Without it, all are plain.
	Kinds map[string]int64 `json:"kinds,omitempty"`

	// Examples has the KeyHashes of up to three records of each state except Slides.
	Examples map[verdict.State][]string `json:"examples,omitempty"`
}

// Deaths is a bin of a histogram.
type Deaths struct {
	Within string `json:"within"` // "7d"; "later"; "never"
	Share
}

// The counts are in one slice, so that one loop sums and bounds them.
const (
	immortal   = int(verdict.States)
	firstBin   = immortal + 1
	auditCount = firstBin + bins
)

// audited is what an audit collects.
type audited struct {
	upkeep.Totals
	Counts   []int64
	Clusters map[int][]int64 // by segment, of a sample
	findings
	Dying deaths
	Bytes int64
}

func (a *audited) add(page *audited) {
	a.Counts = sum(a.Counts, page.Counts)
	for i, c := range page.Clusters {
		if a.Clusters == nil {
			a.Clusters = make(map[int][]int64)
		}
		a.Clusters[i] = sum(a.Clusters[i], c)
	}
	a.Problems = verdict.Count(a.Problems, page.Problems)
	a.Doubts = verdict.Count(a.Doubts, page.Doubts)
	a.Faults = verdict.Count(a.Faults, page.Faults)
	a.Kinds = verdict.Count(a.Kinds, page.Kinds)
	a.Dying = a.Dying.plus(page.Dying)
	a.Bytes += page.Bytes
	for state, hashes := range page.Examples {
		for _, hash := range hashes {
			a.example(state, hash)
		}
	}
}

// example keeps the least hashes of a state, so that the result does not depend on the order.
func (a *audited) example(state verdict.State, hash string) {
	if a.Examples == nil {
		a.Examples = make(map[verdict.State][]string)
	}
	all := append(a.Examples[state], hash)
	slices.Sort(all)
	all = slices.Compact(all)
	a.Examples[state] = all[:min(len(all), mostExamples)]
}

const mostExamples = 3

func sum(a, b []int64) []int64 {
	if len(a) == 0 { // as of a shard that has not begun
		a = make([]int64, len(b))
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

// Audit reports what state the records of s are in under policy p. It writes nothing.
func Audit(ctx context.Context, s driver.Scanner, p slidingttl.Policy, opts *LookOptions) (*AuditReport, error) {
	o := driver.Given(opts)
	if err := o.validate(); err != nil {
		return nil, err
	}
	j, err := o.judge(p, s)
	if err != nil {
		return nil, err
	}
	step, prefix := stepOf(p), verdict.Prefix(s)
	found, err := look(ctx, s, "audit", "policy "+j.Policies(), &o, auditCount, (*audited).add, func(page []driver.Scanned, into *audited) error {
		at := j.Now()
		into.Dying = make(deaths)
		for i := range page {
			r := &page[i]
			t, err := j.Terms(r.Key)
			if err != nil {
				return err
			}
			state := j.State(r, t, at)
			into.Counts[state]++
			into.Bytes += int64(r.Size)
			if kind := verdict.KindOf(prefix + r.Key); kind != verdict.Plain {
				into.Kinds = verdict.Count(into.Kinds, map[string]int64{kind: 1})
			}
			if state != verdict.Slides {
				into.example(state, verdict.KeyHash(r.Key))
			}
			if o.See != nil {
				o.See(state, r)
			}
			if r.Fault != "" {
				into.Faults = verdict.Count(into.Faults, map[string]int64{r.Fault: 1})
			}
			switch state {
			case verdict.Malformed:
				into.Problems = verdict.Count(into.Problems, map[string]int64{verdict.Reason(r.Problem): 1})
			case verdict.Implausible:
				into.Doubts = verdict.Count(into.Doubts, map[string]int64{j.Implausible(r.Life, at): 1})
			case verdict.NoCreatedAt, verdict.NeverExpires, verdict.Beyond, verdict.Slides:
				into.Dying.count(r.Life, t, step, at)
				bin := binOf(t.Death(r.Life), at)
				into.Counts[firstBin+bin]++
				if bin == never {
					into.Counts[immortal]++
				}
			}
		}
		return nil
	})
	if found == nil {
		return nil, err
	}
	return found.report(j, &o), err
}

func (a *audited) counted() *audited { return a }

func (a *audited) report(j *verdict.Judge, o *LookOptions) *AuditReport {
	if len(a.Counts) == 0 {
		a.Counts = make([]int64, auditCount)
	}
	clusters := slices.Collect(maps.Values(a.Clusters))
	all := shares(a.Counts, int(verdict.States), clusters)
	r := &AuditReport{
		Totals:   a.Totals,
		Policy:   j.Policies(),
		States:   make(map[verdict.State]Share, verdict.States),
		Immortal: all[immortal],
		findings: a.findings,
		Calendar: a.Dying.calendar(stepOf(j.All.Policy), j.Now()),
		Bytes:    a.Bytes,
	}
	for s := range verdict.States {
		r.States[s] = all[s]
	}
	for i, s := range all[firstBin:] {
		r.Deaths = append(r.Deaths, Deaths{Within: edges[i].name, Share: s})
	}
	if len(clusters) > 1 {
		r.Sample = estimate(o.Sample, int(verdict.States), clusters)
	}
	return r
}
