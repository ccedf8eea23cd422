package simulation

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	idleTimeout = 30 * time.Minute
	maxLifetime = 12 * time.Hour
	keys        = 100_000
	// callers are the reads that can be under way at once: enough that at 10,000
	// reads a second none has to wait for another's end.
	callers = 256
)

// task is one simulation.
type task struct {
	Rate   int // reads a second, of all nodes
	Nodes  int
	WarmUp time.Duration // lived through before writes are counted
	Length time.Duration // thereafter
}

func (t task) name() string { return fmt.Sprintf("%d reads/s, %d nodes", t.Rate, t.Nodes) }

// simulate lives through t. It must run in a bubble.
func simulate(s strategy, t task) (runner.Sample, error) {
	slack := s.slack(idleTimeout)
	b := &backend{
		limits:  limits{idleTimeout, maxLifetime},
		legs:    rand.New(rand.NewPCG(3, 4)),
		records: make([]record, keys),
	}
	writers := 1
	if s.apart {
		writers = t.Nodes
	}
	wrote := b.populate(t.Rate, writers, s.every(idleTimeout), slack)
	nodes := make([]node, t.Nodes)
	for i := range nodes {
		var err error
		if nodes[i], err = s.open(b, slack, wrote[i%writers]); err != nil {
			return nil, err
		}
	}

	a := newArrivals(t)
	var warm counts
	time.AfterFunc(t.WarmUp, func() {
		b.mu.Lock()
		warm = b.counts
		b.mu.Unlock()
	})
	var group sync.WaitGroup
	var mu sync.Mutex // guards failed
	var failed error
	for range callers {
		group.Go(func() {
			for {
				at, i, n, ok := a.next()
				if !ok {
					return
				}
				time.Sleep(time.Until(at))
				found, err := nodes[n].get(i)
				if err == nil && !found {
					err = nodes[n].signIn(i)
				}
				if err != nil {
					mu.Lock()
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	group.Wait()
	for _, n := range nodes {
		failed = errors.Join(failed, n.close())
	}
	for i := range b.records {
		b.bury(&b.records[i])
	}
	c := b.counts
	reads, touches := float64(c.reads-warm.reads), float64(c.touches-warm.touches)
	return runner.Sample{
		"reads":           reads,
		"writes-per-read": touches / reads,
		"failed-share":    float64(c.conflicts-warm.conflicts) / max(touches, 1),
		"sign-ins":        float64(c.signIns - warm.signIns),
		"broken-reads":    float64(c.broken),
		"early-s":         c.early.Seconds(),
		"late-s":          c.late.Seconds(),
		"slack-s":         slack.Seconds(),
	}, failed
}

// populate stores records as they would be found at any moment of a long run: of all
// ages, and last written as long ago as writers leave a record unwritten that write
// at most once in every, each knowing only of its own share of the reads. It returns
// when each writer wrote each record.
func (b *backend) populate(rate, writers int, every, slack time.Duration) [][]driver.Instant {
	r := rand.New(rand.NewPCG(5, 6))
	start := now()
	weights := 0.0
	for i := range keys {
		weights += weight(i)
	}
	wrote := make([][]driver.Instant, writers)
	for w := range wrote {
		wrote[w] = make([]driver.Instant, keys)
	}
	for i := range b.records {
		// A writer's reads of this key are so far apart.
		apart := weights / weight(i) / float64(rate) * float64(writers) * float64(time.Second)
		written := driver.Instant(0)
		for w := range wrote {
			// For a while it has nothing to write, and then waits for a read.
			age := r.Float64() * float64(every)
			if r.Float64()*(float64(every)+apart) < apart {
				age = float64(every) + r.ExpFloat64()*apart
			}
			wrote[w][i] = start.Add(-time.Duration(min(age, float64(b.limits.life))))
			written = max(written, wrote[w][i])
		}
		created := min(start.Add(-time.Duration(r.Int64N(int64(b.limits.life)))), written)
		end := created.Add(b.limits.life)
		promised := b.deadline(created, written)
		b.records[i] = record{
			Life:     driver.Life{CreatedAt: created, ExpiresAt: min(promised.Add(slack), end).RoundUp(resolution)},
			promised: promised,
		}
	}
	return wrote
}

const exponent = 1.1

// weight is how often key i is read, by the measure of key 0.
func weight(i int) float64 { return math.Pow(float64(i+1), -exponent) }

// arrivals are the reads to come: when, of which key, at which node.
type arrivals struct {
	mu    sync.Mutex // guards all
	r     *rand.Rand
	zipf  *rand.Zipf
	at    time.Time
	end   time.Time
	apart float64 // nanoseconds, on average
	nodes int
}

func newArrivals(t task) *arrivals {
	r := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	return &arrivals{
		r:     r,
		zipf:  rand.NewZipf(r, exponent, 1, keys-1),
		at:    began,
		end:   began.Add(t.WarmUp + t.Length),
		apart: float64(time.Second) / float64(t.Rate),
		nodes: t.Nodes,
	}
}

func (a *arrivals) next() (at time.Time, key, node int, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = a.at.Add(time.Duration(a.r.ExpFloat64() * a.apart))
	return a.at, int(a.zipf.Uint64()), a.r.IntN(a.nodes), a.at.Before(a.end)
}
