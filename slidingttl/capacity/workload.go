// Package capacity predicts how many touches a policy needs under a workload. It uses a
// formula, which docs/capacity.md derives, and no store.
package capacity

import (
	"fmt"
	"math"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// Workload is how a store is used, in the long run.
type Workload struct {
	// Keys is how many are in use. Required.
	Keys float64

	// Reads is how many there are a second, of all keys together, at random
	// times. Required.
	Reads float64

	// Skew is how unlike the keys are: the i-th most read one is read in proportion
	// to i to the power of -Skew (Zipf's law; 1.1 is usual). Zero: all alike.
	Skew float64

	// Processes is how many share the reads. Zero: 1.
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
		{"Keys", w.Keys, 1, "must be at least 1"},
		{"Reads", w.Reads, math.SmallestNonzeroFloat64, "must be more than zero"},
		{"Skew", w.Skew, 0, "must not be negative"},
		{"Processes", w.Processes, 1, "must be at least 1"},
		{"Resolution", float64(w.Resolution), 0, "must not be negative"},
	} {
		if !(f.v >= f.least) || math.IsInf(f.v, 1) {
			return w, &slidingttl.InvalidError{Field: "Workload." + f.name, Value: fmt.Sprint(f.v), Rule: f.rule}
		}
	}
	return w, nil
}

// exactRanks are the most read keys, which are summed one by one; those behind them by
// ranges of ranks, each longer than the last by rangeGrowth.
const (
	exactRanks  = 1000
	rangeGrowth = 1.01
)

// Touches returns how many touches a second the workload causes under p, without a budget.
// It assumes that a dead record is written anew at the next read of its key.
// docs/capacity.md derives the formula. Input that breaks its rule is an
// *slidingttl.InvalidError.
func (w Workload) Touches(p slidingttl.Policy) (float64, error) {
	touches, _, err := w.rates(p)
	return touches, err
}

// Deaths returns how many lives end a second, by the same formula: what an archive has to take.
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

// ranks calls f with ranks and how many keys each stands for.
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

// ofKey is the touches a second of one key that is read so often, and the lives of it that end.
//
// A life is a renewal process: some time after each write a touch is due, and the
// next read, in another 1/reads on average, makes it; unless it comes too late, and the
// record is dead. What is written in the last stretch of a life reaches to the cap,
// and no touch follows.
func (w Workload) ofKey(p slidingttl.Policy, reads float64) (touches, deaths float64) {
	idle, most, slack := p.IdleGrace.Seconds(), p.MaxLifetime.Seconds(), p.Slack.Seconds()
	wait := 1 / reads
	lives := -math.Expm1(-reads * idle) // the chance that a read comes in time
	if p.Promote {
		deaths = 1 / (lives*most + (1-lives)*idle + wait)
		return lives * deaths, deaths
	}
	last := most - idle - slack // when in a life a touch reaches to the cap
	if last <= 0 {
		return 0, 1 / (most + wait)
	}
	due := slack - w.share(slack, reads) + w.rounding(reads)
	waited := wait // by those that come in time, whose spread is
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

// share is by how much of the slack a touch comes before it is needed, so that the
// processes take turns: the largest of the shares drawn by those that read the key in
// time, of which each is slack/96 on average and none more than slack/16.
func (w Workload) share(slack, reads float64) float64 {
	drawn := max(1, min(w.Processes, reads*slack/16))
	return slack / 96 * min(6, 1+math.Log(drawn))
}

// rounding is how much later a touch is due because expiries are rounded up: by half a
// step, or by a whole one where the key is read in every step.
func (w Workload) rounding(reads float64) float64 {
	step := w.Resolution.Seconds()
	return step/-math.Expm1(-reads*step) - 1/reads
}
