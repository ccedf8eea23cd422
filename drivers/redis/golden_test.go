package redis_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/internal/golden"
)

// TestGolden writes keys with the value of GET and the expiry of PEXPIRETIME, -1 for none. It
// needs a real server: miniredis parses a header's digits as octal if none of them is an 8 or a
// 9, as for some instants in 2049.
func TestGolden(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client(t)
	golden.Run(t, func(t *testing.T, layout string, retain time.Duration) golden.Store {
		opts := redis.Options{Prefix: map[string]string{"prefix": "{app}:"}[layout], Retain: retain}
		return golden.Store{
			Driver: open[golden.Value](t, client, opts),
			Plant: func(raw json.RawMessage) error {
				var stored struct {
					Key, Value  string
					PExpireTime int64
				}
				if err := json.Unmarshal(raw, &stored); err != nil {
					return err
				}
				set := client.B().Set().Key(stored.Key).Value(stored.Value)
				if stored.PExpireTime < 0 {
					return client.Do(t.Context(), set.Build()).Error()
				}
				return client.Do(t.Context(), set.PxatMillisecondsTimestamp(stored.PExpireTime).Build()).Error()
			},
		}
	})
}
