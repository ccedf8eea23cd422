package upkeep

import (
	"context"
	"math"
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
	return o.Steer()
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

// follower lets writes be made at a rate at which one takes about as long as when there were few. It begins
// with few, for what the store can take is not known, makes half more each second until writes take longer, and
// then gives way by a quarter and comes back by a twentieth.
type follower struct {
	mu     sync.Mutex
	rate   float64 // writes a second
	grows  float64 // the factor by which rate grows
	began  time.Time
	since  time.Time
	trips  []time.Duration // since then
	little time.Duration   // the least mean of a window in the first minute
}

const (
	followFloor  = 20.0 // writes a second, at which it begins, and below which a walk would not end
	followWindow = time.Second
	followTrips  = 20 // in a window, at the least
	followGrowth = 1.1
	followNoise  = 100 * time.Microsecond // by which a trip may grow in any case
)

// most returns the lesser of the writes a second that f and the ceiling allow.
func (f *follower) most(ceiling float64) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rate == 0 {
		f.rate, f.grows = followFloor, 1.5
	}
	if ceiling != 0 {
		f.rate = min(f.rate, ceiling)
	}
	return f.rate
}

// trip notes what a write took.
func (f *follower) trip(took time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if f.began.IsZero() {
		f.began, f.since = now, now
	}
	f.trips = append(f.trips, took)
	ran := now.Sub(f.since)
	if len(f.trips) < followTrips || ran < followWindow {
		return
	}
	slices.Sort(f.trips)
	made, mean := float64(len(f.trips))/ran.Seconds(), time.Duration(0)
	most := f.trips[:len(f.trips)*99/100] // the rest may be a collection of garbage, and say nothing of the load
	for _, took := range most {
		mean += took / time.Duration(len(most))
	}
	if f.little == 0 || mean < f.little && now.Sub(f.began) < time.Minute {
		f.little = mean
	}
	switch {
	case float64(mean) > followGrowth*float64(f.little)+float64(followNoise):
		f.rate, f.grows = max(followFloor, f.rate*0.75), 1.05
	case made > f.rate*0.8: // a rate that is not used says nothing
		f.rate *= f.grows
	}
	f.since, f.trips = now, f.trips[:0]
}
