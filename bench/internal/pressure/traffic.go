package pressure

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// fleet is the processes that share a store, and what has been promised to their
// callers.
type fleet struct {
	w      *wire
	under  *memory.Driver[int]
	policy slidingttl.Policy
	nodes  []node

	mu       sync.Mutex // guards the rest
	promised map[string]driver.Instant
	died     []driver.Instant // the expiries of those that died early
	took     []time.Duration  // by each read, if it is not nil
}

// start opens nodes processes over an empty store, with a budget each.
func start(s strategy, nodes int, leg time.Duration, p slidingttl.Policy, budget float64) (*fleet, error) {
	under, err := memory.New[int](nil)
	if err != nil {
		return nil, err
	}
	f := &fleet{w: newWire(under, leg), under: under, policy: p, promised: make(map[string]driver.Instant)}
	for range nodes {
		n, err := s.open(f.w, p, budget)
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, n)
	}
	return f, nil
}

// stop closes all, and counts those that are left with less than was promised.
func (f *fleet) stop() (err error) {
	for _, n := range f.nodes {
		err = errors.Join(err, n.close())
	}
	for key, p := range f.promised {
		if e := f.w.expires[key]; e < p {
			f.died = append(f.died, e)
		}
	}
	return errors.Join(err, f.under.Close())
}

// early is how many records died early that had until from, or more.
func (f *fleet) early(from time.Time) (n float64) {
	for _, e := range f.died {
		if e >= driver.Floor(from) {
			n++
		}
	}
	return n
}

func (f *fleet) waiting() (n int) {
	for _, node := range f.nodes {
		n += node.waiting()
	}
	return n
}

// read reads key on n, and creates it where it is dead.
func (f *fleet) read(n node, key string) {
	f.mu.Lock()
	promised := f.promised[key]
	f.mu.Unlock()
	began := time.Now()
	err := n.get(key)
	took := time.Since(began)
	if errors.Is(err, driver.ErrNotFound) {
		if driver.Ceil(began) < promised {
			f.w.mu.Lock()
			e := f.w.expires[key]
			f.w.mu.Unlock()
			f.mu.Lock()
			f.died = append(f.died, e)
			f.mu.Unlock()
		}
		began, err = time.Now(), n.insert(key)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.promised[key] = max(f.promised[key], driver.Floor(began).Add(f.policy.IdleGrace))
	}
	if f.took != nil {
		f.took = append(f.took, took)
	}
}

// traffic is reads at random times of random keys at random nodes, for some time. It
// returns once each has its answer.
func (f *fleet) traffic(r *rand.Rand, next func() uint64, rate int, length time.Duration) {
	var reads sync.WaitGroup
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(time.Duration(r.ExpFloat64() * float64(time.Second) / float64(rate)))
		n, key := f.nodes[r.IntN(len(f.nodes))], strconv.FormatUint(next(), 10)
		reads.Go(func() { f.read(n, key) })
	}
	reads.Wait()
}

// populate stores keys that nobody was promised, as if they had been read at some time.
func (f *fleet) populate(r *rand.Rand, keys int) error {
	now := driver.Floor(time.Now())
	for k := range keys {
		life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Duration(r.Int64N(int64(f.policy.IdleGrace+f.policy.Slack)))) + 1}
		if _, err := f.under.Insert(context.Background(), strconv.Itoa(k), 0, life, now); err != nil {
			return err
		}
		f.w.expires[strconv.Itoa(k)] = life.ExpiresAt
	}
	return nil
}

// latencies are the p99 and the maximum of what reads took, in ms.
func (f *fleet) latencies() runner.Sample {
	slices.Sort(f.took)
	ms := func(d time.Duration) float64 { return d.Seconds() * 1000 }
	return runner.Sample{
		"p50": ms(runner.Quantile(f.took, 0.5)),
		"p99": ms(runner.Quantile(f.took, 0.99)),
		"max": ms(f.took[len(f.took)-1]),
	}
}
