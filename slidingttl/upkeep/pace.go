package upkeep

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// pace limits its callers to a number of units a second, which may change, and holds them during a pause.
type pace struct {
	now    func() (perSecond float64, paused bool) // zero: no limit
	turn   chan struct{}                           // held by the one caller that waits for tokens
	tokens *rate.Limiter                           // in thousandths of a unit, for a cost may be a fraction
	is     float64                                 // the units a second of tokens
}

const (
	thousandths = 1000
	steerEvery  = 100 * time.Millisecond // how soon a change of the limits is seen

	fewestOfPage, mostOfPage = 20, 500
)

// newPace returns the pace of o for the limit that of selects.
func newPace(o *Options, of func(Limits) float64) *pace {
	now := func() (float64, bool) {
		limits, paused := o.limits()
		return of(limits), paused
	}
	return &pace{now: now, turn: make(chan struct{}, 1)}
}

// limits returns the limits of now.
func (o *Options) limits() (l Limits, paused bool) {
	if o.Steer == nil {
		return o.Limits, false
	}
	l, paused = o.Steer()
	for _, n := range []float64{l.Records, l.Writes, l.Cost} {
		paused = paused || !(n >= 0) || math.IsInf(n, 1)
	}
	return l, paused
}

// page returns about how many records to ask for now. Small pages read evenly, but each is a trip.
func (o *Options) page() int {
	limits, _ := o.limits()
	switch {
	case o.Page != 0:
		return o.Page
	case limits.Records == 0:
		return mostOfPage
	}
	return int(min(max(limits.Records/20, fewestOfPage), mostOfPage))
}

// set makes it perSecond units a second. A burst is the units of a fiftieth of a second, or one unit,
// so that live traffic sees no long bursts.
func (p *pace) set(perSecond float64) {
	if p.is == perSecond {
		return
	}
	p.is = perSecond
	limit, burst := rate.Limit(perSecond*thousandths), max(thousandths, int(min(perSecond*thousandths/50, math.MaxInt32)))
	if p.tokens == nil {
		p.tokens = rate.NewLimiter(limit, burst)
		return
	}
	p.tokens.SetLimit(limit)
	p.tokens.SetBurst(burst)
}

// wait returns when n more units may be spent.
func (p *pace) wait(ctx context.Context, n float64) error {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for left := int(math.Ceil(n * thousandths)); ; {
		perSecond, paused := p.now()
		delay := steerEvery
		switch {
		case paused:
		case perSecond == 0 || left <= 0:
			return ctx.Err()
		default:
			p.set(perSecond)
			now, part := time.Now(), min(left, p.tokens.Burst())
			if r := p.tokens.ReserveN(now, part); r.DelayFrom(now) > steerEvery { // the limits may have changed by then
				r.CancelAt(now)
			} else {
				delay, left = r.DelayFrom(now), left-part
			}
		}
		if err := driver.Sleep(ctx, delay); err != nil {
			return err
		}
	}
}

// follower lets writes be made at a rate beside which live calls wait little longer than without them. Evenly
// spaced writes do not wait for each other, so that their own trips do not show how long others wait: a few of the
// writes, the probes, are made at random moments, and see the store as a live call does. At first the probes are
// the only writes, and show what a trip takes without the rest.
type follower struct {
	mu    sync.Mutex
	rate  float64         // writes a second, probes included
	left  float64         // of the interval to the next write that is not a probe
	first []time.Duration // the trips of the first probes, until limit is known
	limit time.Duration   // that followAbove of the probes may exceed; zero: not known yet
	since time.Time
	made  int  // writes since then
	used  bool // in the second before, at least half of rate was used
}

const (
	followFloor  = 20.0 // writes a second, at which a walk begins, and below which it would not end
	followFirst  = 1200 // probes: a minute
	followProbes = 10.0 // a second after them, or
	followShare  = 0.05 // of the writes, if that is more
	followAbove  = 0.05 // the share of the first probes that took longer than the trip which limit follows from
	followGrowth = 1.15 // by which that trip may grow. Simulated, p99 of live calls then grows by 1.1 to 1.3
	followStep   = 0.03
)

func newFollower() *follower { return &follower{rate: followFloor, left: 1} }

// most returns the lesser of the writes a second that f and the ceiling allow.
func (f *follower) most(ceiling float64) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ceiling != 0 {
		f.rate = min(f.rate, ceiling)
	}
	return f.rate
}

// next returns the distance of the next write from the one before, in means of that distance, and whether it is
// a probe.
func (f *follower) next() (distance float64, probe bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.since) >= time.Second {
		f.used = float64(f.made) > f.rate/2*now.Sub(f.since).Seconds()
		f.since, f.made = now, 0
	}
	f.made++
	probes := 1.0
	if f.limit != 0 {
		probes = min(1, max(followProbes/f.rate, followShare))
	}
	random, even := rand.ExpFloat64()/probes, f.left/(1-probes)
	if probes == 1 || random < even {
		f.left -= random * (1 - probes)
		return random, true
	}
	f.left = 1
	return even, false
}

// trip notes what a probe took, and whether the store failed.
func (f *follower) trip(took time.Duration, failed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.limit == 0:
		if !failed {
			f.first = append(f.first, took)
		}
		if n := len(f.first); n == followFirst {
			slices.Sort(f.first)
			f.limit = 1 + time.Duration(followGrowth*float64(f.first[int(float64(n)*(1-followAbove))]))
			f.first = nil
		}
	case failed || took > f.limit:
		f.rate = max(followFloor, f.rate*(1-followStep*(1-followAbove)))
	case f.used:
		f.rate *= 1 + followStep*followAbove
	}
}
