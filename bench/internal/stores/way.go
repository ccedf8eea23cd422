package stores

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	idleTimeout = 30 * time.Minute
	maxLifetime = 12 * time.Hour
)

func policy(slackPercent time.Duration) slidingttl.Policy {
	return slidingttl.Policy{IdleGrace: idleTimeout, MaxLifetime: maxLifetime, Slack: idleTimeout * slackPercent / 100}
}

// session is a record of a usual size, about 500 bytes.
type session struct {
	User   string   `json:"user" dynamodbav:"user"`
	Email  string   `json:"email" dynamodbav:"email"`
	Roles  []string `json:"roles" dynamodbav:"roles"`
	Locale string   `json:"locale" dynamodbav:"locale"`
	Cart   []item   `json:"cart" dynamodbav:"cart"`
}

type item struct {
	SKU   string  `json:"sku" dynamodbav:"sku"`
	Count int     `json:"count" dynamodbav:"count"`
	Price float64 `json:"price" dynamodbav:"price"`
}

func aSession() session {
	s := session{User: "user-4711", Email: "someone@example.com", Roles: []string{"customer", "beta", "newsletter"}, Locale: "de-AT"}
	for i := range 8 {
		s.Cart = append(s.Cart, item{"SKU-00" + strconv.Itoa(i), i + 1, 19.9})
	}
	return s
}

// way is one way to read a record and keep it alive.
type way struct {
	get   func(ctx context.Context, key string) (session, error)
	put   func(ctx context.Context, key string) error
	spent func() spent
}

// spent is what a way has cost the store since it was opened. A way's store may know
// only a part of it.
type spent struct {
	writes                float64
	readUnits, writeUnits float64
	trips                 float64
}

// bill sums up what many requests at once have cost.
type bill struct {
	mu  sync.Mutex // guards sum
	sum spent
}

func (b *bill) add(s spent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sum.writes += s.writes
	b.sum.readUnits += s.readUnits
	b.sum.writeUnits += s.writeUnits
}

func (b *bill) spent() spent {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sum
}

// keepsConnections is an HTTP client that holds one for each of many readers.
func keepsConnections() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	return &http.Client{Transport: transport}
}

// contender is a way and how it is opened on the store at an address.
type contender struct {
	name string
	open func(ctx context.Context, address string) (way, error)
	zipf bool // takes keys by Zipf and not in turn
}

// The names are the same on both stores.
const (
	bareName   = "bare read, never touches"
	naiveName  = "naive: read, then touch"
	atOnceName = "unconditional get-and-touch"
	exactName  = "slidingttl, exact"
	own1       = "slidingttl, slack 1 %"
	own10      = "slidingttl, slack 10 %"
	observed   = "slidingttl, slack 10 %, observed"
)

// task is reads by some readers at once.
type task struct {
	Contender      string
	Address        string
	Prefix         string // of the keys
	Keys           int
	Readers, Reads int // by each
}

func (t task) name() string { return strconv.Itoa(t.Readers) }

// clientName is the process that all contenders are in. Their differences are small beside
// those that memory and scheduling make between processes.
const clientName = "client"

func client(all []contender) runner.Contestant {
	return runner.Serving(clientName, func() (func(task) (runner.Sample, error), error) {
		readers := make(map[string]*reader)
		for _, c := range all {
			readers[c.name] = &reader{contender: c}
		}
		return func(t task) (runner.Sample, error) { return readers[t.Contender].do(t) }, nil
	})
}

// reader reads as a contender does.
type reader struct {
	contender
	way  way
	keys []string
	next int
}

// do opens the way, with the first task, and reads.
func (r *reader) do(t task) (runner.Sample, error) {
	ctx := context.Background()
	if r.way.get == nil {
		var err error
		if r.way, err = r.open(ctx, t.Address); err != nil {
			return nil, err
		}
		for i := range t.Keys {
			r.keys = append(r.keys, t.Prefix+strconv.Itoa(i))
			if err := r.way.put(ctx, r.keys[i]); err != nil {
				return nil, err
			}
		}
		if r.zipf {
			r.keys = drawn(r.keys)
		}
	}
	first := r.next
	if _, err := r.read(ctx, t.Readers, max(t.Reads/8, 1)); err != nil { // wakes caches and connections
		return nil, err
	}
	var before, after runtime.MemStats
	spentBefore := r.way.spent()
	runtime.ReadMemStats(&before)
	began := time.Now()
	took, err := r.read(ctx, t.Readers, t.Reads)
	all := time.Since(began)
	runtime.ReadMemStats(&after)
	cost := r.way.spent()
	if err != nil {
		return nil, err
	}
	n := float64(len(took))
	slices.Sort(took)
	return runner.Sample{
		"all-reads": float64(r.next - first), // those not timed included
		"ns":        float64(all.Nanoseconds()) / n,
		"p50":       took[len(took)/2].Seconds() * 1e6,
		"p99":       runner.Quantile(took, 0.99).Seconds() * 1e6,
		"allocs":    float64(after.Mallocs-before.Mallocs) / n,
		"writes":    (cost.writes - spentBefore.writes) / n,
		"rcu":       (cost.readUnits - spentBefore.readUnits) / n,
		"wcu":       (cost.writeUnits - spentBefore.writeUnits) / n,
		"trips":     (cost.trips - spentBefore.trips) / n,
	}, nil
}

// drawn is a long list of keys drawn from these, by Zipf with exponent 1.1.
func drawn(keys []string) []string {
	z := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, uint64(len(keys)-1))
	list := make([]string, 1<<16)
	for i := range list {
		list[i] = keys[z.Uint64()]
	}
	return list
}

// read makes some reads by each of some readers and returns how long each read took.
func (r *reader) read(ctx context.Context, readers, reads int) ([]time.Duration, error) {
	took := make([]time.Duration, readers*reads)
	failed := make([]error, readers)
	want := aSession().User
	var group sync.WaitGroup
	for reader := range readers {
		group.Go(func() {
			for n := range reads {
				at := reader*reads + n
				start := time.Now()
				s, err := r.way.get(ctx, r.keys[(r.next+at)%len(r.keys)])
				took[at] = time.Since(start)
				if err == nil && s.User != want {
					err = fmt.Errorf("read the session of %q", s.User)
				}
				if err != nil {
					failed[reader] = err
					return
				}
			}
		})
	}
	group.Wait()
	r.next += len(took)
	return took, errors.Join(failed...)
}
