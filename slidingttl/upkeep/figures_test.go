package upkeep_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// BenchmarkFigureAdoptPace adopts at 500 records a second for a while, and reads beside
// it: the share of that pace which it keeps, and the 99th percentile of the reads against
// those before, each with as many pauses.
func BenchmarkFigureAdoptPace(b *testing.B) {
	const (
		pace = 500
		n    = 60 * pace
	)
	f := open(b)
	for i := range n {
		f.Add(fmt.Sprint("user:", i), 0, 0)
	}
	f.Add("live", -day, 30*day)
	store, err := slidingttl.New[string](f.Driver, policy, nil)
	ok(b, err)
	reads := func(ctx context.Context) time.Duration {
		var took []time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			for range 100 { // a read takes less than the clock can tell
				_, err := store.Get(b.Context(), "live")
				ok(b, err)
			}
			took = append(took, time.Since(began))
			time.Sleep(time.Millisecond)
		}
		slices.Sort(took)
		return took[len(took)*99/100]
	}
	for b.Loop() {
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
		before := reads(ctx)
		cancel()
		ctx, cancel = context.WithCancel(b.Context())
		beside := make(chan time.Duration)
		go func() { beside <- reads(ctx) }()
		o := applied()
		o.Limits.Writes = pace
		began := time.Now()
		r, err := upkeep.Adopt(b.Context(), f, policy, o)
		took := time.Since(began)
		cancel()
		ok(b, err)
		b.ReportMetric(float64(r.Counts["adopted"])/took.Seconds()/pace, "of-pace")
		b.ReportMetric(float64(<-beside)/float64(before), "p99/p99")
	}
}
