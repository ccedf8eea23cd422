package redis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// BenchmarkGet times a read: by the client alone, by the driver, and by a store, with 16
// goroutines.
func BenchmarkGet(b *testing.B) {
	const keys = 512
	server := redistest.Start(b)
	client := server.Client(b)
	d := open[profile](b, client, redis.Options{})
	open := func(p slidingttl.Policy) *slidingttl.Store[profile] {
		s, err := slidingttl.New[profile](d, p, nil)
		ok(b, "New", err)
		b.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	}
	policy := slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour}
	exact := open(policy)
	policy.Slack = 3 * time.Minute
	slack := open(policy)
	for i := range keys {
		ok(b, "Insert", slack.Insert(b.Context(), fmt.Sprint(i), profile{"someone"}))
	}
	for _, way := range []struct {
		name string
		get  func(ctx context.Context, key string) error
	}{
		{"client", func(ctx context.Context, key string) error {
			var p profile
			v, err := client.Do(ctx, client.B().Get().Key(key).Build()).AsBytes()
			if err != nil {
				return err
			}
			return json.Unmarshal(v[54:], &p)
		}},
		{"driver", func(ctx context.Context, key string) error {
			_, err := d.Get(ctx, key)
			return err
		}},
		{"not due", func(ctx context.Context, key string) error {
			_, err := slack.Get(ctx, key)
			return err
		}},
		{"due", func(ctx context.Context, key string) error {
			_, err := exact.Get(ctx, key)
			return err
		}},
		{"driver, due", func(ctx context.Context, key string) error {
			at := driver.Ceil(time.Now())
			_, _, err := d.ReadTouch(ctx, key, nil, driver.Access{At: at, Keep: 2e6, Stored: 2e6, Most: 4e7}, at)
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := way.get(context.Background(), fmt.Sprint(next.Add(1)%keys)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
