package survey

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/slidingttl/slidingttl/internal/verdict"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// LookOptions adjusts an operation that writes nothing.
type LookOptions struct {
	upkeep.Options

	// Sample, if not zero, reads about this share of the records, between 0 and 1. It draws
	// 64 segments at random, of as many as the share needs. The report's bounds then hold
	// for all its shares together, with a confidence of 99 %.
	//
	// If the store cannot be split into so many segments, the *InvalidError gives the least
	// share.
	Sample float64

	// See is called, concurrently, for each record that an Audit reads, with its state. The
	// key may be a secret. Nil: not called.
	See func(verdict.State, *driver.Scanned)

	// ToFor returns the policy of a key after the change of a Diff, as PolicyFor does that before.
	// Nil: one for all.
	ToFor func(key string) slidingttl.Policy

	// Seed is the seed of the draw. Zero: a random one.
	Seed uint64
}

// sampled is the number of segments in a sample.
const sampled = 64

func (o *LookOptions) validate() error {
	if !(o.Sample >= 0 && o.Sample < 1) {
		return invalid("LookOptions.Sample", fmt.Sprint(o.Sample), "must be at least 0 and less than 1")
	}
	if o.Sample > 0 && o.Shards > 0 {
		return invalid("LookOptions.Sample", fmt.Sprint(o.Sample), "must be zero with Shards")
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return nil
}

// judge returns the judge of the records of s by p.
func (o *LookOptions) judge(p slidingttl.Policy, s driver.Scanner) (*verdict.Judge, error) {
	return verdict.New(p, o.PolicyFor, s, cmp.Or(o.MaxSkew, time.Minute), o.Now)
}

func invalid(field, value, rule string) error {
	return &driver.InvalidError{Field: field, Value: value, Rule: rule}
}

// drawn is a Scanner of a sample.
type drawn struct {
	driver.Scanner
	opts *LookOptions
}

// Segments implements driver.Scanner.
func (d drawn) Segments(ctx context.Context, _ int) ([]driver.Cursor, error) {
	all, err := d.Scanner.Segments(ctx, int(math.Ceil(sampled/d.opts.Sample)))
	if err != nil {
		return nil, err
	}
	return d.opts.draw(all)
}

// Under returns a Scanner of a sample of the keys that begin with prefix.
func (d drawn) Under(prefix string) driver.Scanner {
	if s, ok := driver.As[interface {
		Under(prefix string) driver.Scanner
	}](d.Scanner); ok {
		d.Scanner = s.Under(prefix)
	}
	return d
}

// draw returns a random sample of the segments.
func (o *LookOptions) draw(all []driver.Cursor) ([]driver.Cursor, error) {
	n := int(math.Round(o.Sample * float64(len(all))))
	if n < sampled/2 {
		return nil, invalid("LookOptions.Sample", fmt.Sprint(o.Sample),
			fmt.Sprintf("must be at least %.2g for this store, which splits into %d segments, for %d of them to be drawn", sampled/2/float64(len(all)), len(all), sampled/2))
	}
	r := rand.New(rand.NewPCG(o.Seed, 0))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:n], nil
}

// look visits the records of s, and notes of each page, in so many Counts, what it finds there.
func look[R any, S interface {
	*R
	Sum() *upkeep.Totals
	counted() *audited
}](ctx context.Context, s driver.Scanner, name, about string, o *LookOptions, counts int, add func(into, page S), page func([]driver.Scanned, S) error) (*R, error) {
	if o.Sample > 0 {
		about += fmt.Sprintf(", sample %v", o.Sample)
		s = drawn{s, o}
	}
	return upkeep.Walk(ctx, s, name, about, &o.Options, add, func(segment int, records []driver.Scanned, into S) error {
		all := into.counted()
		all.Counts = make([]int64, counts)
		if o.Sample > 0 {
			all.Clusters = map[int][]int64{segment: all.Counts}
		}
		return page(records, into)
	})
}

// Share is the number and share of the records of some kind.
type Share struct {
	Count int64   `json:"count"` // among the records read
	Share float64 `json:"share"` // of the records read
	Low   float64 `json:"low"`   // lower bound of the share of all records
	High  float64 `json:"high"`  // upper bound of it
}

// Sample describes the sample that a report is based on.
type Sample struct {
	Segments   int     `json:"segments"`   // in the sample
	Of         float64 `json:"of"`         // their share of the store
	Confidence float64 `json:"confidence"` // of the bounds of all shares together
	Records    float64 `json:"records"`    // estimate of the records in the store
	Low        float64 `json:"low"`        // lower bound of that estimate, with the same confidence of its own
	High       float64 `json:"high"`       // upper bound of it
}

const confidence = 0.99

func total(counts []int64) (n float64) {
	for _, c := range counts {
		n += float64(c)
	}
	return n
}

// shares returns the share of each count in the sum of the first whole of them. clusters
// has the same counts by segment of a sample; empty: all records were read.
func shares(counts []int64, whole int, clusters [][]int64) []Share {
	n := total(counts[:whole])
	out := make([]Share, len(counts))
	for i, c := range counts {
		s := Share{Count: c}
		if n > 0 {
			s.Share = float64(c) / n
		}
		s.Low, s.High = s.Share, s.Share
		switch {
		case len(clusters) > 0 && n == 0:
			s.Low, s.High = 0, 1
		case len(clusters) > 0:
			most := n / effect(i, whole, s.Share, clusters)
			s.Low, s.High = bounds(s.Share, most, (1-confidence)/float64(len(counts)))
		}
		out[i] = s
	}
	return out
}

// effect returns the design effect of a share, at least 1. It says how much more the segments
// differ than if records fell into them at random. If a store splits by ranges of keys,
// neighbours are alike, and a sample is worth less than its size.
func effect(i, whole int, p float64, clusters [][]int64) float64 {
	if p == 0 || p == 1 {
		return 1
	}
	var n, spread float64
	for _, c := range clusters {
		size := total(c[:whole])
		off := float64(c[i]) - p*size
		n += size
		spread += off * off
	}
	m := float64(len(clusters))
	return max(1, spread*m/(m-1)/(n*p*(1-p)))
}

// bounds returns the bounds of a share, of which p was found among n drawn records.
//
// They are wrong with probability alpha at most. If the true share is q, the chance of a
// result as far off as p is at most exp(-n KL(p, q)) on either side; the bounds are where
// this is alpha/2. Normal approximations are too narrow for rare events.
func bounds(p, n, alpha float64) (low, high float64) {
	most := math.Log(2/alpha) / n
	search := func(in, out float64) float64 {
		for range 60 {
			mid := (in + out) / 2
			if divergence(p, mid) <= most {
				in = mid
			} else {
				out = mid
			}
		}
		return out
	}
	return search(p, 0), search(p, 1)
}

// divergence is that of Kullback and Leibler, of two coins.
func divergence(p, q float64) float64 {
	term := func(a, b float64) float64 {
		if a == 0 {
			return 0
		}
		return a * math.Log(a/b)
	}
	return term(p, q) + term(1-p, 1-q)
}

// estimate tells of a sample of that share, how many records the store holds.
func estimate(of float64, whole int, clusters [][]int64) *Sample {
	m := float64(len(clusters))
	var sum, squares float64
	for _, c := range clusters {
		size := total(c[:whole])
		sum += size
		squares += size * size
	}
	mean := sum / m
	deviation := math.Sqrt(max(0, squares/m-mean*mean) * m / (m - 1) / m)
	const t = 2.75 // Student's, two-sided 99 % for 30 degrees of freedom, the fewest there are
	return &Sample{
		Segments:   len(clusters),
		Of:         of,
		Confidence: confidence,
		Records:    sum / of,
		Low:        max(sum, (mean-t*deviation)*m/of),
		High:       (mean + t*deviation) * m / of,
	}
}
