package upkeep

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// AuditReport is what state the records of a store are in.
type AuditReport struct {
	Totals
	Policy string          `json:"policy"`
	States map[State]Share `json:"states"` // of all records; they add up to all

	// Immortal are the records that live for ever unless somebody reads them: neither
	// an expiry nor created_at, or a created_at and no cap.
	Immortal Share `json:"immortal"`

	// Problems are the reasons of the malformed ones, the same words for the same
	// reason, at most 100 of them.
	Problems map[string]int64 `json:"problems,omitempty"`

	// Doubts are what is implausible of the records that are, with the unit in which it
	// would not be.
	Doubts map[string]int64 `json:"doubts,omitempty"`

	// Faults are why the store does not act on the expiries of records that are read
	// all the same, and so will not delete them: for Mend.
	Faults map[string]int64 `json:"faults,omitempty"`

	// Examples are three records of each state but Slides, by KeyHash, or as many as there are.
	Examples map[State][]string `json:"examples,omitempty"`

	// Deaths are when the records that are alive die if nobody reads them: the
	// shares of all records whose life ends within that time and after the one before.
	Deaths []Deaths `json:"deaths"`

	// Bytes is the size of the records, as far as the store tells.
	Bytes int64 `json:"bytes,omitempty"`

	Sample *Sample `json:"sample,omitempty"` // nil: all was looked at
}

// Deaths is a bin of a histogram.
type Deaths struct {
	Within string `json:"within"` // "7d"; "later"; "never"
	Share
}

// Counts are in one slice, so that they are summed, and bounded, together.
const (
	immortal   = int(states)
	firstBin   = immortal + 1
	auditCount = firstBin + bins
)

// audited is what an audit collects.
type audited struct {
	Totals
	Counts   []int64
	Clusters map[int][]int64 // by segment, of a sample
	Problems map[string]int64
	Doubts   map[string]int64
	Faults   map[string]int64
	Examples map[State][]string
	Bytes    int64
}

func (a *audited) add(page *audited) {
	a.Counts = sum(a.Counts, page.Counts)
	for i, c := range page.Clusters {
		if a.Clusters == nil {
			a.Clusters = make(map[int][]int64)
		}
		a.Clusters[i] = sum(a.Clusters[i], c)
	}
	a.Problems = count(a.Problems, page.Problems)
	a.Doubts = count(a.Doubts, page.Doubts)
	a.Faults = count(a.Faults, page.Faults)
	a.Bytes += page.Bytes
	for state, hashes := range page.Examples {
		for _, hash := range hashes {
			a.example(state, hash)
		}
	}
}

// example notes a record of that state: the least hashes stay, whoever met them first.
func (a *audited) example(state State, hash string) {
	if a.Examples == nil {
		a.Examples = make(map[State][]string)
	}
	all := append(a.Examples[state], hash)
	slices.Sort(all)
	all = slices.Compact(all)
	a.Examples[state] = all[:min(len(all), mostExamples)]
}

const mostExamples = 3

// KeyHash stands for a key where keys are not shown: the first 8 bytes of its SHA-256, in
// hexadecimal. It finds a key again, and so gives away one that can be guessed.
func KeyHash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:8])
}

func sum(a, b []int64) []int64 {
	if len(a) == 0 { // as of a shard that has not begun
		a = make([]int64, len(b))
	}
	for i, n := range b {
		a[i] += n
	}
	return a
}

const mostProblems = 100

// count adds b to a, with what is too much to name as "other".
func count(a, b map[string]int64) map[string]int64 {
	for name, n := range b {
		if a == nil {
			a = make(map[string]int64)
		}
		if _, ok := a[name]; !ok && len(a) >= mostProblems {
			name = "other"
		}
		a[name] += n
	}
	return a
}

// Audit tells what state the records of s are in under policy p. It writes nothing.
//
// Its report is good also where an error is returned, for the records looked at until
// then.
func Audit(ctx context.Context, s driver.Scanner, p slidingttl.Policy, opts *LookOptions) (*AuditReport, error) {
	o, err := checked(opts)
	if err != nil {
		return nil, err
	}
	j, err := newJudge(p, s, &o.Options)
	if err != nil {
		return nil, err
	}
	found, err := looking("audit", j.about(""), &o, auditCount, func(page []driver.Scanned, into *audited) error {
		at := j.now()
		for i := range page {
			r := &page[i]
			t, err := j.terms(r.Key)
			if err != nil {
				return err
			}
			state := j.state(r, t, at)
			into.Counts[state]++
			into.Bytes += int64(r.Size)
			if state != Slides {
				into.example(state, KeyHash(r.Key))
			}
			if o.See != nil {
				o.See(state, r)
			}
			if r.Fault != "" {
				into.Faults = count(into.Faults, map[string]int64{r.Fault: 1})
			}
			switch state {
			case Malformed:
				into.Problems = count(into.Problems, map[string]int64{reason(r.Problem): 1})
			case Implausible:
				into.Doubts = count(into.Doubts, map[string]int64{j.implausible(r.Life, at): 1})
			case NoCreatedAt, NeverExpires, Beyond, Slides:
				bin := binOf(t.death(r.Life), at)
				into.Counts[firstBin+bin]++
				if bin == never {
					into.Counts[immortal]++
				}
			}
		}
		return nil
	}).run(ctx, s)
	return found.report(p, &o), err
}

func (a *audited) counted() *audited { return a }

func (a *audited) report(p slidingttl.Policy, o *LookOptions) *AuditReport {
	if a.Counts == nil {
		a.Counts = make([]int64, auditCount)
	}
	clusters := slices.Collect(maps.Values(a.Clusters))
	all := shares(a.Counts, int(states), clusters)
	r := &AuditReport{
		Totals:   a.Totals,
		Policy:   p.String(),
		States:   make(map[State]Share, states),
		Immortal: all[immortal],
		Problems: a.Problems,
		Doubts:   a.Doubts,
		Faults:   a.Faults,
		Examples: a.Examples,
		Bytes:    a.Bytes,
	}
	for s := range states {
		r.States[s] = all[s]
	}
	for i, s := range all[firstBin:] {
		r.Deaths = append(r.Deaths, Deaths{Within: binName(i), Share: s})
	}
	if len(clusters) > 1 {
		r.Sample = estimate(o.Sample, int(states), clusters)
	}
	return r
}
