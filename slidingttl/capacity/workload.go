// Package capacity predicts how many touches a policy needs under a workload. It uses a
// formula, which docs/capacity.md derives, and no store.
package capacity

import (
	"fmt"
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Workload describes the long-term use of a store. Its numbers are at most 1e15.
type Workload struct {
	// Keys is the number of keys in use. Required.
	Keys float64

	// Reads is the number of reads a second, of all keys together, at random times.
	// Required.
	Reads float64

	// Skew is the exponent of Zipf's law: the i-th most read key is read in proportion to
	// i to the power of -Skew (1.1 is usual). Zero: all keys are read equally often.
	Skew float64

	// Processes is the number of processes that share the reads. Zero: 1.
	Processes float64

	// Resolution is the step of the store's expiries. Zero: 1 ms.
	Resolution time.Duration
}

func (w Workload) validate() (Workload, error) {
	if w.Processes == 0 {
		w.Processes = 1
	}
	if w.Resolution == 0 {
		w.Resolution = time.Millisecond
	}
	for _, f := range []struct {
		name  string
		v     float64
		least float64
		rule  string
	}{
		{"Keys", w.Keys, 1, "must be from 1 to 1e15"},
		{"Reads", w.Reads, math.SmallestNonzeroFloat64, "must be more than zero, and at most 1e15"},
		{"Skew", w.Skew, 0, "must be from 0 to 1e15"},
		{"Processes", w.Processes, 1, "must be from 1 to 1e15"},
		{"Resolution", float64(w.Resolution), 0, "must not be negative"},
	} {
		if !(f.v >= f.least) || f.v > most && f.name != "Resolution" {
			return w, &slidingttl.InvalidError{Field: "Workload." + f.name, Value: fmt.Sprint(f.v), Rule: f.rule}
		}
	}
	return w, nil
}

// most is what a count may be: float64 has whole numbers up to 9e15.
const most = 1e15

// The exactRanks most read keys are summed one by one. The others are summed by ranges of ranks,
// each longer than the last by the factor rangeGrowth.
const (
	exactRanks  = 1000
	rangeGrowth = 1.01
)

// Touches returns how many touches a second the workload causes under p, without a budget.
// It assumes that the next read of a dead record's key begins a new life.
// docs/capacity.md derives the formula. Input that breaks its rule is an
// *slidingttl.InvalidError.
func (w Workload) Touches(p slidingttl.Policy) (float64, error) {
	touches, _, err := w.rates(p)
	return touches, err
}

// Deaths returns how many lives end a second, by the same formula. An archive gets that many.
func (w Workload) Deaths(p slidingttl.Policy) (float64, error) {
	_, deaths, err := w.rates(p)
	return deaths, err
}

func (w Workload) rates(p slidingttl.Policy) (touches, deaths float64, err error) {
	if err := p.Validate(); err != nil {
		return 0, 0, err
	}
	if w, err = w.validate(); err != nil {
		return 0, 0, err
	}
	weights := 0.0
	w.ranks(func(rank, count float64) { weights += count * math.Pow(rank, -w.Skew) })
	w.ranks(func(rank, count float64) {
		t, d := w.ofKey(p, w.Reads*math.Pow(rank, -w.Skew)/weights)
		touches, deaths = touches+count*t, deaths+count*d
	})
	return touches, deaths, nil
}

// ranks calls f with ranks, and the number of keys that each stands for.
func (w Workload) ranks(f func(rank, count float64)) {
	first := 1.0
	for ; first <= min(w.Keys, exactRanks); first++ {
		f(first, 1)
	}
	for first <= w.Keys {
		next := min(math.Ceil(first*rangeGrowth), math.Floor(w.Keys)+1)
		f((first+next-1)/2, next-first)
		first = next
	}
}

// ofKey returns the touches and the deaths a second of one key, for its reads a second.
//
// A life is a renewal process. Some time after each write a touch is due. The next read, in
// another 1/reads on average, makes it, unless the record is dead by then. A touch in the
// last stretch of a life reaches the cap, and no touch follows.
func (w Workload) ofKey(p slidingttl.Policy, reads float64) (touches, deaths float64) {
	idle, most, slack := p.IdleGrace.Seconds(), p.MaxLifetime.Seconds(), p.Slack.Seconds()
	wait := 1 / reads
	lives := -math.Expm1(-reads * idle) // the chance that a read comes in time
	if p.Promote {
		deaths = 1 / (lives*most + (1-lives)*idle + wait)
		return lives * deaths, deaths
	}
	last := most - idle - slack // the age from which a touch reaches the cap
	if last <= 0 {
		return 0, 1 / (most + wait)
	}
	due := slack - w.share(slack, reads) + w.rounding(reads)
	waited := wait // mean wait for the reads that come in time; spread is its deviation
	spread := wait
	if lives < 1 {
		waited -= idle * (1 - lives) / lives
		spread = math.Sqrt(max(0, wait*wait-idle*idle*(1-lives)/(lives*lives)))
	}
	every := due + waited
	n := last/every + (1+(spread/every)*(spread/every))/2 // touches to the cap, if none comes late
	capped := math.Pow(lives, n)
	touches = n
	if lives < 1 {
		touches = lives * (1 - capped) / (1 - lives)
	}
	life := capped*most + (1-capped)*(slack+idle) + every*(touches-n*capped)
	return touches / (life + wait), 1 / (life + wait)
}

// share returns how much earlier than needed a touch comes, so that processes take turns.
//
// It is the largest of the shares drawn by the processes that read the key in time. Each is
// slack/96 on average, and at most slack/16.
func (w Workload) share(slack, reads float64) float64 {
	drawn := max(1, min(w.Processes, reads*slack/16))
	return slack / 96 * min(6, 1+math.Log(drawn))
}

// rounding returns how much later a touch is due because expiries are rounded up.
//
// That is half a step, or a whole one if the key is read in every step.
func (w Workload) rounding(reads float64) float64 {
	step := w.Resolution.Seconds()
	return step/-math.Expm1(-reads*step) - 1/reads
}
