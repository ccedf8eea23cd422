package cosmos

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// BenchmarkGet is a Get whose touch is not due beside the read that it makes, by hand: what
// the SDK adds to azcosmos.
func BenchmarkGet(b *testing.B) {
	account := cosmostest.Start(b)
	shape, err := New[session](&azcosmos.ContainerClient{}, nil)
	if err != nil {
		b.Fatal(err)
	}
	container := account.Container(b, shape.Properties(""))
	d, err := New[session](container, nil)
	if err != nil {
		b.Fatal(err)
	}
	s, err := slidingttl.New[session](d, sliding, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close(b.Context()) }()
	if err := s.Insert(b.Context(), "k", session{User: "ann", Note: strings.Repeat("n", 1<<10)}); err != nil {
		b.Fatal(err)
	}
	key := azcosmos.NewPartitionKeyString("k")
	ways := map[string]func() error{
		"bare ReadItem": func() error {
			res, err := container.ReadItem(b.Context(), key, "k", nil)
			if err != nil {
				return err
			}
			var v session
			return json.Unmarshal(res.Value, &v)
		},
		"Store.Get": func() error {
			_, err := s.Get(b.Context(), "k")
			return err
		},
	}
	for _, workers := range []int{1, 16} {
		for name, get := range ways {
			b.Run(name+"/"+map[int]string{1: "1 goroutine", 16: "16 goroutines"}[workers], func(b *testing.B) {
				b.ReportAllocs()
				var failed atomic.Value
				b.SetParallelism(workers)
				start := time.Now()
				if workers == 1 {
					for b.Loop() {
						if err := get(); err != nil {
							b.Fatal(err)
						}
					}
				} else {
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							if err := get(); err != nil {
								failed.Store(err)
							}
						}
					})
				}
				if err := failed.Load(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(b.N)/time.Since(start).Seconds(), "gets/s")
			})
		}
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
