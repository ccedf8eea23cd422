package pressure

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

// fleet is the processes that share a store, and what has been promised to their
// callers.
type fleet struct {
	w      *wire
	closes func() error // of the store
	policy slidingttl.Policy
	nodes  []node

	mu       sync.Mutex // guards the rest
	promised map[string]driver.Instant
	died     []driver.Instant // the expiries of those that died early
	took     []time.Duration  // by each read, if it is not nil
}

// start opens the processes of t over an empty store, with a budget each.
func start(s strategy, t task, leg time.Duration, p slidingttl.Policy) (*fleet, error) {
	under, closes, err := t.store()
	if err != nil {
		return nil, err
	}
	f := &fleet{w: newWire(under, leg), closes: closes, policy: p, promised: make(map[string]driver.Instant)}
	for range t.Nodes {
		n, err := s.open(f.w, p, t.Budget)
		if err != nil {
			return nil, err
		}
		f.nodes = append(f.nodes, n)
	}
	return f, nil
}

// store is one in memory, or the Redis that t names.
func (t task) store() (driver.Driver[int], func() error, error) {
	if t.Address == "" {
		d, err := memory.New[int](nil)
		return d, d.Close, err
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{t.Address}, SelectDB: t.DB})
	if err != nil {
		return nil, nil, err
	}
	if err := client.Do(context.Background(), client.B().Flushdb().Build()).Error(); err != nil {
		return nil, nil, err
	}
	d, err := redis.New[int](client, nil)
	return d, func() error { client.Close(); return nil }, err
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
	return errors.Join(err, f.closes())
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
		if _, err := f.w.Driver.Insert(context.Background(), strconv.Itoa(k), 0, life, now); err != nil {
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
