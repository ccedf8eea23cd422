package redis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/internal/anyvalue"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// anyValues is how many cases of any value over any record are judged.
var anyValues = 1000

// What is written is read back, or refused by name: any value, over a key of any type.
func TestAnyValue(t *testing.T) {
	server := redistest.StartVirtual(t)
	client := server.Client(t)
	target := func(name string, o redis.Options) anyvalue.Target[anyvalue.Any] {
		o.MaxSkew = 1e6 * time.Hour // the server's clock is moved
		var open []*redis.Driver[anyvalue.Any]
		return anyvalue.Target[anyvalue.Any]{
			Name:  name,
			Shape: anyvalue.Shape{Tag: "json", Flags: []string{"omitempty", "omitzero", "string"}, Leaves: anyvalue.JSON},
			Box:   func(v any) anyvalue.Any { return anyvalue.Any{V: v} },
			Open: func() (driver.Driver[anyvalue.Any], error) {
				d, err := redis.New[anyvalue.Any](client, &o)
				if err == nil {
					open = append(open[max(0, len(open)-1):], d)
					err = d.Check(t.Context(), 0)
				}
				return d, err
			},
			Image: func(v anyvalue.Any) (image anyvalue.Any, err error) {
				b, err := json.Marshal(&v)
				if err == nil {
					err = json.Unmarshal(b, &image)
				}
				return image, err
			},
			Earlier: true,
			Now:     server.Now,
			Advance: func(d time.Duration) {
				server.Advance(d)
				for _, d := range open {
					ok(t, "Check", d.Check(t.Context(), 0)) // learns the time
				}
			},
			Foreign: func(ctx context.Context, key string, r *rand.Rand) (string, error) {
				key = o.Prefix + key
				// They end with 9 because miniredis's Lua takes 0123 for octal.
				meta := fmt.Sprintf("%014d9 %014d9 %016x ", r.Int64N(4e11), r.Int64N(4e11), r.Uint64())
				header := "\x00sl1 " + meta
				commands := [][]string{
					{"RPUSH", key, "a"}, {"HSET", key, "v", "{}"}, {"SADD", key, "a"}, {"ZADD", key, "1", "a"},
					{"SET", key, "{}"}, {"SET", key, "\x00\xff"}, {"SET", key, `{"name":"theirs"}`},
					{"SET", key, header + "{}"}, {"SET", key, header[:r.IntN(len(header)+1)]}, {"SET", key, header[:20]},
					{"SET", key, "\x00sl1 " + "00000000000000x" + meta[15:] + "{}"}, {"SET", key, "\x00sl2 " + meta + "{}"},
				}
				words := commands[r.IntN(len(commands))]
				for _, words := range [][]string{{"DEL", key}, words, {"PEXPIRE", key, "10000000"}} {
					if words[0] == "PEXPIRE" && r.IntN(2) == 0 {
						break
					}
					if err := client.Do(ctx, client.B().Arbitrary(words...).Build()).Error(); err != nil {
						return "", err
					}
				}
				return fmt.Sprintf("%q", words), nil
			},
		}
	}
	anyvalue.Run(t, anyValues, target("plain", redis.Options{}), target("prefix", redis.Options{Prefix: "app:", Retain: time.Hour}))
}
