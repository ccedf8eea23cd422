package redis_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/internal/spec/check"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestVectors(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	set := func(ctx context.Context, key, text string, expires int64) error {
		set := client.B().Set().Key(key).Value(text)
		if expires <= 0 {
			return client.Do(ctx, set.Build()).Error()
		}
		return client.Do(ctx, set.PxatMillisecondsTimestamp(expires).Build()).Error()
	}
	t.Run("forms", func(t *testing.T) {
		check.Forms(t, "redis", func(t *testing.T, _ string, retain time.Duration) check.Layout[spec.RedisString] {
			return check.Layout[spec.RedisString]{
				Driver:  open[check.Value](t, client, redis.Options{Retain: retain}),
				Version: func(v driver.Version) string { return fmt.Sprintf("%016x", uint64(v)) },
				Put: func(t *testing.T, key string, s *spec.RedisString) {
					ok(t, "SET", set(t.Context(), key, s.String, s.PExpireTime))
				},
				Read: func(t *testing.T, key string) *spec.RedisString {
					text, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
					ok(t, "GET", err)
					expires, err := client.Do(t.Context(), client.B().Pexpiretime().Key(key).Build()).AsInt64()
					ok(t, "PEXPIRETIME", err)
					return &spec.RedisString{String: text, PExpireTime: expires}
				},
			}
		})
	})
	s := check.Store{
		Driver: open[check.Value](t, client, redis.Options{}),
		Plant: func(ctx context.Context, key string, v check.Value, expires driver.Instant) error {
			return set(ctx, key, fmt.Sprintf(`{"v":%q}`, v.V), int64(expires))
		},
	}
	t.Run("decisions", s.Decisions)
	t.Run("histories", s.Histories)
}
