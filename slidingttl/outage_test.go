//go:build !race || night

// The race detector makes what follows eight times slower, and the tests beside it show it the same code with
// fewer records. At night it sees these too.

package slidingttl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// outageShare divides the size of the outages below: a tenth of the keys and readers here, all of
// them at night. shardRounds is how often each key is read while a shard is down.
var (
	outageShare = 10
	shardRounds = 4
)

// An outage is some time in which touches fail, after five seconds in which they succeed, with reads
// throughout. The last failures of three keys, and the rests of 20 keys after a minute and a half,
// are longer than limits.pending: a store that has recovered does not wait for them.
type outage struct {
	lasts      time.Duration
	keys, rate int
	way        func(ctx context.Context) error
	budget     limits
}

// limits bound what an outage may cost.
type limits struct {
	waits   float64 // percent of the reads that wait for their touch
	sent    int64   // touches sent to the store; zero: any
	most    int64   // in flight at once; zero: any
	givenUp uint64
	pending time.Duration // that touches are after it
}

// While touches hang or are refused, reads continue, few touches are sent, and none is given up
// that can still be tried again.
func TestOutage(t *testing.T) {
	const half = 30 * time.Second
	for name, o := range map[string]outage{
		"hang":          {half, 10000, 2000, hangs, limits{waits: 0.6, most: 256, pending: 10 * time.Second}},
		"hang, 20 keys": {90 * time.Second, 20, 60, hangs, limits{waits: 0.6, most: 256, givenUp: 20, pending: 10 * time.Second}},
		"hang, 3 keys":  {half, 3, 60, hangs, limits{waits: 2, most: 256, givenUp: 3, pending: 10 * time.Second}},
		"a tenth hangs": {half, 1000, 200, func(ctx context.Context) error {
			if rand.N(10) == 0 {
				return hangs(ctx)
			}
			return nil
		}, limits{waits: 17, pending: 40 * time.Second}},
		"refused": {half, 10000, 2000, func(context.Context) error { return errDown }, limits{sent: 60, pending: 10 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) { o.play(t) })
		})
	}
}

func (o outage) play(t *testing.T) {
	d, _ := newRemote[int](time.Millisecond)
	d.trip = time.Millisecond
	if o.rate == 2000 {
		o.keys, o.rate = o.keys/outageShare, o.rate/outageShare
	}
	var bad atomic.Bool
	var sent, inFlight, most atomic.Int64
	d.before = func(ctx context.Context, op, key string) error {
		if op != "touch" || !bad.Load() {
			return nil
		}
		sent.Add(1)
		if n := inFlight.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer inFlight.Add(-1)
		return o.way(ctx)
	}
	s, err := slidingttl.New(d, session, nil)
	must(t, err)
	for i := range o.keys {
		must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
	}
	time.Sleep(time.Minute)
	var reads, waited atomic.Int64
	var wg sync.WaitGroup
	traffic := func(length time.Duration) {
		for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(time.Second / time.Duration(o.rate)) {
			wg.Go(func() {
				reads.Add(1)
				if read(t, s, fmt.Sprint(rand.N(o.keys))) >= 90*time.Millisecond {
					waited.Add(1)
				}
			})
		}
	}
	traffic(5 * time.Second)
	reads.Store(0)
	waited.Store(0)
	bad.Store(true)
	traffic(o.lasts)
	if share := 100 * float64(waited.Load()) / float64(reads.Load()); share > o.budget.waits {
		t.Errorf("%.2f %% of the reads wait, want at most %v %%", share, o.budget.waits)
	}
	bad.Store(false)
	back := time.Now()
	for s.Stats().Pending > 0 && time.Since(back) < 5*time.Minute {
		traffic(100 * time.Millisecond)
	}
	if took := time.Since(back); took > o.budget.pending {
		t.Errorf("touches wait for %v after the outage", took)
	}
	wg.Wait()
	must(t, s.Close(t.Context()))
	st := s.Stats()
	accounted(t, st)
	if n := sent.Load(); o.budget.sent > 0 && n > o.budget.sent {
		t.Errorf("%d touches sent, want at most %d", n, o.budget.sent)
	}
	if n := most.Load(); o.budget.most > 0 && n > o.budget.most {
		t.Errorf("%d touches in flight, want at most %d", n, o.budget.most)
	}
	if n := st.TouchFails - st.Retried + st.Shed; n > o.budget.givenUp {
		t.Errorf("%d touches given up, want at most %d", n, o.budget.givenUp)
	}
}

// steady reads each of keys every 30 s, with a grace of a minute, and returns how many reads missed
// a record that should exist.
func steady(t *testing.T, d *remote[int], keys, readers, rounds int, counts func(key string) bool) (lost int64) {
	s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, nil)
	must(t, err)
	for i := range keys {
		must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
	}
	var missing atomic.Int64
	var wg sync.WaitGroup
	for g := range readers {
		wg.Go(func() {
			for range rounds {
				for i := g; i < keys; i += readers {
					began, key := time.Now(), fmt.Sprint(i)
					if _, err := s.Get(t.Context(), key); err != nil {
						if counts(key) {
							missing.Add(1)
						}
						_ = s.Upsert(t.Context(), key, i)
					}
					time.Sleep(600*time.Millisecond - time.Since(began))
				}
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_ = s.Close(ctx)
	return missing.Load()
}

// A store whose touches take longer than reads wait, but do not fail, loses nothing.
func TestSlowStoreLosesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		d.before = func(ctx context.Context, op, _ string) error {
			if op == "touch" {
				return sleep(ctx, 150*time.Millisecond)
			}
			return nil
		}
		if lost := steady(t, d, 10000/outageShare, 200/outageShare, 5, all); lost > 0 {
			t.Errorf("%d reads found nothing", lost)
		}
	})
}

// One shard of ten that refuses touches does not affect the others.
func TestOneShardDown(t *testing.T) {
	for name, way := range map[string]func(context.Context) error{
		"hangs": hangs, "refuses": func(context.Context) error { return errDown },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(t *testing.T) {
				d, _ := newRemote[int](time.Millisecond)
				d.trip = time.Millisecond
				d.before = func(ctx context.Context, op, key string) error {
					if op == "touch" && strings.HasSuffix(key, "0") {
						return way(ctx)
					}
					return nil
				}
				if lost := steady(t, d, 10000/outageShare, 200/outageShare, shardRounds, func(key string) bool { return !strings.HasSuffix(key, "0") }); lost > 0 {
					t.Errorf("%d reads of the other shards found nothing", lost)
				}
			})
		})
	}
}

// Hanging touches leave a client's connections to its reads, once they have timed out.
func TestHungTouchesLeaveConnections(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, _ := newRemote[int](time.Millisecond)
		pool := make(chan struct{}, 20)
		var bad atomic.Bool
		d.before = func(ctx context.Context, op, _ string) error {
			select {
			case pool <- struct{}{}:
				defer func() { <-pool }()
			case <-ctx.Done():
				return ctx.Err()
			}
			if op == "touch" && bad.Load() {
				return hangs(ctx)
			}
			return sleep(ctx, 2*time.Millisecond)
		}
		s, err := slidingttl.New(d, session, nil)
		must(t, err)
		const keys = 1000
		for i := range keys {
			must(t, s.Insert(t.Context(), fmt.Sprint(i), i))
		}
		time.Sleep(time.Minute)
		bad.Store(true)
		var first, after atomic.Int64
		var wg sync.WaitGroup
		began := time.Now()
		for time.Since(began) < time.Minute {
			wg.Go(func() {
				at := time.Since(began)
				switch slow := read(t, s, fmt.Sprint(rand.N(keys))) > 90*time.Millisecond; {
				case slow && at < 10*time.Second:
					first.Add(1)
				case slow:
					after.Add(1)
				}
			})
			time.Sleep(5 * time.Millisecond)
		}
		bad.Store(false)
		wg.Wait()
		must(t, s.Close(t.Context()))
		if first.Load() > 1050 || after.Load() > 0 {
			t.Errorf("%d reads were slow in the first 10 s, want 1000; %d after, want none", first.Load(), after.Load())
		}
	})
}

// The due reads of a store in good health wait for their touches, however many there are.
func TestCrowdIsTouched(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		d, under := newRemote[int](time.Millisecond)
		d.trip = 2500 * time.Microsecond
		s := open(t, d, session, nil)
		keys := 20000 / outageShare
		for i := range keys {
			plant(under, fmt.Sprint(i), 20*time.Minute)
		}
		var wg sync.WaitGroup
		var quick atomic.Int64
		for g := range 500 {
			wg.Go(func() {
				for i := g; i < keys; i += 500 {
					if read(t, s, fmt.Sprint(i)) < 10*time.Millisecond {
						quick.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if quick.Load() > 0 {
			t.Errorf("%d of %d due reads did not wait for their touch", quick.Load(), keys)
		}
	})
}
