package slidingttl_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const hotKeys = 1024

func hot() []string {
	keys := make([]string, hotKeys)
	for i := range keys {
		keys[i] = fmt.Sprintf("session-%08d", i)
	}
	return keys
}

// reads spreads b.N reads of hot keys over GOMAXPROCS goroutines.
func reads(b *testing.B, get func(key string)) {
	keys := hot()
	var start atomic.Uint32
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		i := start.Add(hotKeys / 2)
		for pb.Next() {
			get(keys[i%hotKeys])
			i++
		}
	})
}

// BenchmarkFigureFloor is the map that the figures for a hit are measured
// against: 256 shards behind an RWMutex, an atomic expiry, the system clock.
func BenchmarkFigureFloor(b *testing.B) {
	type record struct {
		value   [64]byte
		expires atomic.Int64
	}
	var shards [256]struct {
		sync.RWMutex
		m map[string]*record
		_ [64]byte
	}
	seed := maphash.MakeSeed()
	for i := range shards {
		shards[i].m = make(map[string]*record)
	}
	for _, k := range hot() {
		r := new(record)
		r.expires.Store(time.Now().Add(time.Hour).UnixMilli())
		shards[maphash.String(seed, k)%256].m[k] = r
	}
	var sink atomic.Int64
	reads(b, func(key string) {
		s := &shards[maphash.String(seed, key)%256]
		s.RLock()
		r := s.m[key]
		s.RUnlock()
		if r.expires.Load() <= time.Now().UnixMilli() {
			sink.Add(1)
		}
		_ = r.value
	})
}

// BenchmarkFigureHit is Store.Get of a live key on the memory driver: not due, with
// slack, and exact, where the first read of a key in a millisecond touches.
func BenchmarkFigureHit(b *testing.B) {
	for _, slack := range []time.Duration{3 * time.Minute, 0} {
		b.Run(fmt.Sprintf("slack=%v", slack), func(b *testing.B) {
			d, err := memory.New[[64]byte](nil)
			if err != nil {
				b.Fatal(err)
			}
			defer d.Close()
			s, err := slidingttl.New(d, withSlack(session, slack), nil)
			if err != nil {
				b.Fatal(err)
			}
			ctx := context.Background()
			for _, k := range hot() {
				if err := s.Insert(ctx, k, [64]byte{}); err != nil {
					b.Fatal(err)
				}
			}
			reads(b, func(key string) {
				if _, err := s.Get(ctx, key); err != nil {
					b.Error(err)
				}
			})
		})
	}
}
