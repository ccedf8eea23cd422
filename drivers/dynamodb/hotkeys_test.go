package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// shared is a table's state in memory, with DynamoDB's resolution, for runs of more
// operations than an emulator can take. It hides that it is local, so that stores treat
// it like DynamoDB.
type shared struct{ driver.Driver[session] }

func (shared) Resolution() time.Duration { return time.Second }

// load is reads of many keys, few of them hot, by app servers that share a table.
type load struct {
	keys, stores int
	rate         int // reads a second
	length       time.Duration
}

type outcome struct {
	reads, written, born, early uint64
}

// run runs l on virtual time. Each read uses a random store. A key that is found dead is created
// again. early counts the keys found dead before the time that a read had promised.
func (l load) run(t testing.TB, p slidingttl.Policy) (o outcome) {
	t.Helper()
	ctx := context.Background()
	m, err := memory.New[session](nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close() }()
	clock := handsAt(base)
	stores := make([]*slidingttl.Store[session], l.stores)
	for i := range stores {
		if stores[i], err = slidingttl.New(driver.Driver[session](shared{m}), p, &slidingttl.Options[session]{Now: clock.Now}); err != nil {
			t.Fatal(err)
		}
	}
	type record struct {
		name          string
		born, promise driver.Instant
	}
	rng := rand.New(rand.NewPCG(4, 2))
	zipf := rand.NewZipf(rng, 1.1, 1, uint64(l.keys-1))
	records := make([]record, l.keys)
	for i := range records {
		records[i].name = fmt.Sprint("k", i)
	}
	const perMilli = 1000
	for read := range l.rate * int(l.length/time.Second) {
		now := base + driver.Instant(read*perMilli/l.rate)
		clock.now.Store(int64(now))
		r := &records[zipf.Uint64()]
		s := stores[rng.IntN(len(stores))]
		_, err := s.Get(ctx, r.name)
		switch {
		case err == nil:
			o.reads++
		case !errors.Is(err, slidingttl.ErrNotFound):
			t.Fatal(err)
		default:
			if now < r.promise {
				o.early++
			}
			if err := s.Insert(ctx, r.name, session{}); err != nil {
				t.Fatal(err)
			}
			o.born++
			r.born = now
		}
		r.promise = p.Deadline(r.born, now)
	}
	for _, s := range stores {
		o.written += s.Stats().Touched
		if err := s.Close(ctx); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// hotKeys is less than a hundredth of the load of BenchmarkFigureHotKeys, for a shorter time.
var hotKeys = load{keys: 400, stores: 8, rate: 60, length: 40 * time.Minute}

func TestHotKeys(t *testing.T) {
	o := hotKeys.run(t, policy)
	t.Logf("%+v: a write for each %.1f reads", o, float64(o.reads)/float64(o.written))
	if o.early > 0 {
		t.Errorf("%d keys were dead before a promised deadline", o.early)
	}
	if o.reads < 25*o.written {
		t.Errorf("%d touches for %d reads, want at most one for 25", o.written, o.reads)
	}
}

// BenchmarkFigureHotKeys reports reads per touch, of 100,000 keys at 10,000 reads a
// second over two hours of virtual time, idle 30 minutes, slack 3. Run it once:
// -benchtime 1x.
func BenchmarkFigureHotKeys(b *testing.B) {
	for b.Loop() {
		o := load{keys: 100_000, stores: 8, rate: 10_000, length: 2 * time.Hour}.run(b, policy)
		if o.early > 0 {
			b.Errorf("%d keys were dead before a promised deadline", o.early)
		}
		b.ReportMetric(float64(o.reads)/float64(o.written), "reads/touch")
		b.ReportMetric(float64(o.reads)/float64(o.written+o.born), "reads/write")
		b.ReportMetric(float64(o.early), "early")
	}
}
