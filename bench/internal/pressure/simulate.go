package pressure

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	herdKind     = "herd"
	latencyKind  = "latency"
	recoveryKind = "recovery"
	budgetKind   = "budget"
)

// task is one simulation, or a run on a Redis.
type task struct {
	Kind       string
	Nodes      int
	Idle       time.Duration
	Throttled  time.Duration // how long the store takes no touches
	Keys, Rate int           // reads a second
	Budget     float64       // touches a second of each node
	Full       bool          // it begins with all keys there
	Length     time.Duration
	Address    string // of a Redis, in real time; empty: simulated
	DB         int
}

func (t task) name() string {
	if t.Address != "" {
		t.Address = ""
		return "redis/" + t.name()
	}
	switch t.Kind {
	case herdKind:
		return fmt.Sprintf("%s/%d", t.Kind, t.Nodes)
	case latencyKind:
		return fmt.Sprintf("%s/%v", t.Kind, t.Throttled)
	case recoveryKind:
		return fmt.Sprintf("%s/%v/%v", t.Kind, t.Idle, t.Throttled)
	}
	return fmt.Sprintf("%s/%d/%.3g", t.Kind, t.Nodes, t.Budget)
}

func simulate(s strategy, t task) (runner.Sample, error) {
	switch t.Kind {
	case herdKind:
		return herd(s, t)
	case latencyKind:
		return latency(s, t)
	case recoveryKind:
		return recovery(s, t)
	}
	return budget(s, t)
}

const (
	herdSlack = 30 * time.Second
	herdLeg   = 5 * time.Millisecond
	leg       = 2 * time.Millisecond
)

// herd has all nodes read one key without pause.
func herd(s strategy, t task) (runner.Sample, error) {
	f, err := start(s, t, herdLeg, slidingttl.Policy{IdleGrace: 5 * time.Minute, MaxLifetime: maxLifetime, Slack: herdSlack})
	if err != nil {
		return nil, err
	}
	if err := f.nodes[0].insert("hot"); err != nil {
		return nil, err
	}
	began := time.Now()
	var readers sync.WaitGroup
	for _, n := range f.nodes {
		readers.Go(func() {
			time.Sleep(rand.N(2 * herdLeg))
			for time.Since(began) < t.Length {
				f.read(n, "hot")
			}
		})
	}
	readers.Wait()
	touches, _ := f.w.sent(began, 0)
	err = f.stop()
	return runner.Sample{
		"writes-per-needed": float64(touches) / (float64(t.Length) / float64(herdSlack)),
		"early":             f.early(began),
	}, err
}

// latency has reads that are all due meet a store that takes no touches, or one that does.
func latency(s strategy, t task) (runner.Sample, error) {
	f, err := start(s, t, herdLeg, slidingttl.Policy{IdleGrace: t.Idle, MaxLifetime: maxLifetime})
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	if err := f.populate(r, t.Keys); err != nil {
		return nil, err
	}
	uniform := func() uint64 { return r.Uint64N(uint64(t.Keys)) }
	f.traffic(r, uniform, t.Rate, t.Length/6)
	f.took = []time.Duration{}
	if t.Throttled > 0 {
		f.w.throttle(true)
		time.AfterFunc(t.Throttled, func() { f.w.throttle(false) })
	}
	f.traffic(r, uniform, t.Rate, t.Length)
	sample := f.latencies()
	return sample, f.stop()
}

// recovery throttles the store for a while and looks for who dies of it thereafter.
func recovery(s strategy, t task) (runner.Sample, error) {
	f, err := start(s, t, leg, slidingttl.Policy{IdleGrace: t.Idle, MaxLifetime: maxLifetime, Slack: t.Idle / 10})
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	if err := f.populate(r, t.Keys); err != nil {
		return nil, err
	}
	zipf := rand.NewZipf(r, 1.1, 1, uint64(t.Keys-1)).Uint64
	f.traffic(r, zipf, t.Rate, t.Idle/2)
	f.w.throttle(true)
	var waited int
	var back, drained time.Time
	var watch sync.WaitGroup
	watch.Go(func() {
		time.Sleep(t.Throttled)
		f.w.throttle(false)
		back, waited = time.Now(), f.waiting()
		if s.name == ownName {
			for f.waiting() > 0 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		drained = time.Now()
	})
	f.traffic(r, zipf, t.Rate, t.Throttled+t.Idle*3/2)
	watch.Wait()
	err = f.stop()
	return runner.Sample{
		"waited":    float64(waited),
		"drained-s": drained.Sub(back).Seconds(),
		"early":     f.early(drained),
		"early-all": f.early(time.Time{}),
	}, err
}

// budget gives the nodes a budget each. Growing slack may double a life.
func budget(s strategy, t task) (runner.Sample, error) {
	f, err := start(s, t, leg, slidingttl.Policy{IdleGrace: t.Idle, MaxLifetime: maxLifetime, Slack: t.Idle / 10, MaxSlack: t.Idle})
	if err != nil {
		return nil, err
	}
	r := rand.New(rand.NewPCG(1, 2))
	if t.Full {
		if err := f.populate(r, t.Keys); err != nil {
			return nil, err
		}
	}
	zipf := rand.NewZipf(r, 1.1, 1, uint64(t.Keys-1)).Uint64
	began := time.Now()
	if t.Full { // a steady state comes first
		f.traffic(r, zipf, t.Rate, t.Length)
		began = time.Now()
	}
	f.traffic(r, zipf, t.Rate, t.Length)
	all := t.Budget * float64(t.Nodes)
	touches, over := f.w.sent(began, all)
	rate := float64(touches) / time.Since(began).Seconds()
	sample := runner.Sample{"touches-per-s": rate, "over": over, "refused": float64(f.w.refused)}
	if all > 0 {
		sample["budgets"] = rate / all
	}
	if err := f.stop(); err != nil {
		return nil, err
	}
	sample["early"] = f.early(time.Time{})
	return sample, nil
}
