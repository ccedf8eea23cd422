package cosmos

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// BenchmarkFigureGet makes a Get whose touch is not due and the read that it makes, by hand, by
// turns, so that what else the machine does falls on both. It reports the median of the read by
// that of the Get: what is left of the client's speed.
func BenchmarkFigureGet(b *testing.B) {
	f := open[session](b, nil)
	f.account.SetTime(time.Time{})
	s, err := slidingttl.New[session](f.Driver, sliding, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(b.Context()) }()
	if err := s.Insert(b.Context(), "k", session{User: "ann", Note: strings.Repeat("n", 1<<10)}); err != nil {
		b.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("k")
	read := func() error {
		res, err := f.container.ReadItem(b.Context(), key, "k", nil)
		if err != nil {
			return err
		}
		var v session
		return json.Unmarshal(res.Value, &v)
	}
	get := func() error {
		_, err := s.Get(b.Context(), "k")
		return err
	}
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("goroutines=%d", workers), func(b *testing.B) {
			var mu sync.Mutex // guards took
			var took [2][]time.Duration
			var group sync.WaitGroup
			for range workers {
				group.Go(func() {
					for range max(1, b.N/workers) {
						for i, call := range []func() error{read, get} {
							start := time.Now()
							err := call()
							lasted := time.Since(start)
							if err != nil {
								b.Error(err)
								return
							}
							mu.Lock()
							took[i] = append(took[i], lasted)
							mu.Unlock()
						}
					}
				})
			}
			group.Wait()
			for i := range took {
				slices.Sort(took[i])
			}
			if n := len(took[1]); n > 0 {
				b.ReportMetric(float64(took[0][n/2])/float64(took[1][n/2]), "of-bare")
			}
		})
	}
}

// An item's way through the driver allocates little beside azcosmos's own.
func TestAllocations(t *testing.T) {
	f := open[session](t, nil)
	f.account.SetTime(time.Time{})
	s, err := slidingttl.New[session](f.Driver, sliding, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close(t.Context()) }()
	if err := s.Insert(t.Context(), "k", session{User: "ann"}); err != nil {
		t.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("k")
	per := func(get func() error) float64 {
		return testing.AllocsPerRun(200, func() {
			if err := get(); err != nil {
				t.Fatal(err)
			}
		})
	}
	bare := per(func() error {
		res, err := f.container.ReadItem(t.Context(), key, "k", nil)
		if err != nil {
			return err
		}
		var v session
		return json.Unmarshal(res.Value, &v)
	})
	own := per(func() error {
		_, err := s.Get(t.Context(), "k")
		return err
	})
	t.Logf("a bare read allocates %.0f times, a Get %.0f times (the server in this process included)", bare, own)
	if own > 1.05*bare {
		t.Errorf("a Get allocates %.0f times, want at most 1.05 times the %.0f of a bare read", own, bare)
	}
}
