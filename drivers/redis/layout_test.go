package redis

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hashTouch is lua/readtouch.lua for a record that is a hash.
const hashTouch = `
local key, argv = KEYS[1], ARGV
local record = redis.call('HMGET', key, 'v', 'c', 'e', 'n')
local expiry = record[3]
if not expiry or expiry >= argv[2] then
  return record
end
local time = redis.call('TIME')
if expiry + 0 <= math.max(argv[1], time[1] * 1000 + math.floor(time[2] / 1000)) then
  return record
end
local to, limit = argv[3], record[2] + argv[4]
if limit < to + 0 then
  to = string.format('%015.0f', limit)
  if expiry >= to then
    return record
  end
end
redis.call('HSET', key, 'e', to)
redis.call('PEXPIREAT', key, to + 0)
record[3] = to
return record`

// BenchmarkLayout compares a record's string with a hash of value, created_at, expiry and
// version: the bytes of a key, and the server's time for a read and for a due read in one trip,
// by the server's count, the least of several rounds. It measures GETEX too.
func BenchmarkLayout(b *testing.B) {
	const keys, rounds = 1000, 20
	ctx := b.Context()
	option := redistest.Start(b).Option()
	option.PipelineMultiplex = -1
	client := redistest.NewClient(b, option)
	d, err := New[string](client, nil)
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(err)
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	value := strings.Repeat("x", 254)
	record, err := d.record(value, driver.Meta{Life: life, Version: kit.NewVersion(math.MaxUint64)})
	must(err)
	hash := &script{wire.Command{Words: []string{"EVALSHA", "", "1"}}, wire.Command{Words: []string{"EVAL", hashTouch, "1"}}}
	for _, s := range []*script{readTouchScript, hash} {
		s.byHash.Words[1], err = client.Do(ctx, client.B().ScriptLoad().Script(s.byText.Words[1]).Build()).ToString()
		must(err)
	}
	stat := func(section, field, within string) (n float64) {
		text, err := client.Do(ctx, client.B().Info().Section(section).Build()).ToString()
		must(err)
		_, rest, _ := strings.Cut(parseInfo(text)[field], within)
		_, err = fmt.Sscanf(rest, "%g", &n)
		must(err)
		return n
	}
	key := func(i int) string { return fmt.Sprint("key", i) }
	// pipeline sends a command for each key and returns the server's time for each.
	pipeline := func(name string, cmd func(key string) rueidis.Completed) float64 {
		must(client.Do(ctx, client.B().ConfigResetstat().Build()).Error())
		cmds := make(rueidis.Commands, keys)
		for i := range cmds {
			cmds[i] = cmd(key(i))
		}
		for _, res := range client.DoMulti(ctx, cmds...) {
			must(res.Error())
		}
		return stat("commandstats", "cmdstat_"+name, "usec_per_call=")
	}
	at, b1 := now, client.B()
	due := func(s *script) func(string) rueidis.Completed {
		return func(key string) rueidis.Completed {
			return b1.Evalsha().Sha1(s.byHash.Words[1]).Numkeys(1).Key(key).Arg(decimal(now), padded(at+4e6), padded(at+4e6), "40000000", "0", "").Build()
		}
	}
	for _, layout := range []struct {
		name, put, read string
		write, get      func(key string) rueidis.Completed
		touch           *script
	}{
		{
			"string", "set", "get",
			func(key string) rueidis.Completed { return b1.Set().Key(key).Value(record).Build() },
			func(key string) rueidis.Completed { return b1.Get().Key(key).Build() },
			readTouchScript,
		}, {
			"hash", "hset", "hmget",
			func(key string) rueidis.Completed {
				return b1.Hset().Key(key).FieldValue().FieldValue("v", value).FieldValue("c", padded(life.CreatedAt)).
					FieldValue("e", padded(life.ExpiresAt)).FieldValue("n", "9f86d081884c7d65").Build()
			},
			func(key string) rueidis.Completed { return b1.Hmget().Key(key).Field("v", "c", "e", "n").Build() },
			hash,
		},
	} {
		b.Run(layout.name, func(b *testing.B) {
			must(client.Do(ctx, b1.Flushall().Build()).Error())
			before := stat("memory", "used_memory", "")
			pipeline(layout.put, layout.write)
			pipeline("pexpireat", func(key string) rueidis.Completed {
				return b1.Pexpireat().Key(key).MillisecondsTimestamp(int64(life.ExpiresAt)).Build()
			})
			b.ReportMetric((stat("memory", "used_memory", "")-before)/keys, "B/key")
			read, touch, getex := 1e9, 1e9, 1e9
			for range rounds {
				read = min(read, pipeline(layout.read, layout.get))
				at += 1000
				touch = min(touch, pipeline("evalsha", due(layout.touch)))
				if layout.name == "string" {
					getex = min(getex, pipeline("getex", func(key string) rueidis.Completed {
						return b1.Getex().Key(key).PxMilliseconds(3600000).Build()
					}))
					b.ReportMetric(getex, "µs/GETEX")
				}
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(read, "µs/read")
			b.ReportMetric(touch, "µs/due-read")
		})
	}
}
