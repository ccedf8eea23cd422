package stores

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/scs/redisstore"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	ownredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
)

const (
	redisNaive    = "GET and PEXPIRE in one pipeline"
	redisAtOnce   = "GETEX"
	redisOther    = "bare read by go-redis"
	redisTwoTrips = "slidingttl, exact, in two trips"
	zipfNaive     = "zipf: GET and PEXPIRE in one pipeline"
	zipfSCS       = "zipf: scs redisstore, find and commit"
	zipfOwn       = "zipf: slidingttl, slack 10 %"
)

// brief is the policy of the zipf contenders: so short that, as in a long run, some of
// the reads are due.
var brief = slidingttl.Policy{IdleGrace: 2 * time.Minute, MaxLifetime: maxLifetime, Slack: 12 * time.Second}

var redisContenders = []contender{
	{name: bareName, open: bareRedis(bareGET)},
	{name: redisOther, open: goRedis},
	{name: redisNaive, open: bareRedis(getAndPEXPIRE(idleTimeout))},
	{name: redisAtOnce, open: bareRedis(getEX)},
	{name: exactName, open: ownRedis(policy(0), asItIs)},
	{name: redisTwoTrips, open: ownRedis(policy(0), func(d driver.Driver[session]) driver.Driver[session] { return twoTrips{d} })},
	{name: own10, open: ownRedis(policy(10), asItIs)},
	{name: zipfNaive, open: bareRedis(getAndPEXPIRE(brief.IdleGrace)), zipf: true},
	{name: zipfSCS, open: scsOnRedis, zipf: true},
	{name: zipfOwn, open: ownRedis(brief, asItIs), zipf: true},
}

// Redis is the field of ways to read on Redis.
func Redis() runner.Suite {
	f := &field{
		suite:      "redis",
		title:      "Redis: reads that keep their record alive",
		contenders: redisContenders,
		full:       extent{4, 64, 512, [2]int{256, 2048}},
		quick:      extent{1, 24, 128, [2]int{64, 512}},
		cpu:        true,
		text: `Records of 256 bytes, %d for each contestant, on one redis-server over loopback, by rueidis
but for scs and where the name says go-redis; readers take the keys in turn, or by Zipf with exponent 1.1 where the name says so. Writes
are the commands by which the server has moved an expiry. Without slack every read is due, and foreseen;
"in two trips" reads and touches one after the other all the same. With slack no touch is due, but for
zipf, where idle timeout and slack are 2 min and 12 s, so that touches come as in a long run. Server CPU is
the processor time of redis-server for a read, by its own INFO: client and server share the machine's
processors here, so that throughput tells what both cost together, and this what a server can serve.`,
		targets: func(f *field, r *runner.Results) []runner.Figure {
			beside := func(name, own, other string, readers int) runner.Figure {
				return runner.Figure{
					Name:  fmt.Sprintf("redis/%s/%d/throughput-vs-%s", strings.Split(name, " ")[0], readers, strings.Split(name, " ")[1]),
					Value: r.Ratio(other, own, task{Readers: readers}.name(), "ns"),
				}
			}
			ratio := func(name, own, other string, readers int, bound float64) runner.Figure {
				figure := beside(name, own, other, readers)
				figure.Op, figure.Bound = ">=", bound
				return figure
			}
			server := func(name, own, other string, bound float64) runner.Figure {
				at := task{Readers: 16}.name()
				figure := runner.Figure{
					Name:  fmt.Sprintf("redis/%s/16/server-cpu-vs-%s", strings.Split(name, " ")[0], strings.Split(name, " ")[1]),
					Value: r.Mean(own, at, "server-cpu") / r.Mean(other, at, "server-cpu"), // due reads come in bursts
				}
				if bound > 0 {
					figure.Op, figure.Bound = "<=", bound
				}
				return figure
			}
			return []runner.Figure{
				ratio("not-due bare", own10, bareName, 1, 0.95),
				ratio("not-due bare", own10, bareName, 16, 0.95),
				ratio("due getex", exactName, redisAtOnce, 1, 0.5),
				ratio("due getex", exactName, redisAtOnce, 16, 0.5),
				ratio("due pipeline", exactName, redisNaive, 1, 0.5),
				ratio("due pipeline", exactName, redisNaive, 16, 0.5),
				server("not-due get", own10, bareName, 1.05),
				server("zipf pipeline", zipfOwn, zipfNaive, 0.8),
				server("bare pipeline", bareName, redisNaive, 0), // below which no read can come
				server("due getex", exactName, redisAtOnce, 0),
				ratio("zipf scs", zipfOwn, zipfSCS, 1, 2),
				ratio("zipf scs", zipfOwn, zipfSCS, 16, 2),
				// What a read could reach at most that cost nothing beside its command.
				// What the client of the driver's costs and saves beside the usual one.
				beside("bare go-redis", bareName, redisOther, 1),
				beside("bare go-redis", bareName, redisOther, 16),
				server("bare go-redis", bareName, redisOther, 0),
				{Name: "redis/bare/allocs", Value: r.Median(bareName, "1", "allocs")},
				{Name: "redis/bare/allocs-go-redis", Value: r.Median(redisOther, "1", "allocs")},
				beside("bare scs", bareName, zipfSCS, 1),
				beside("bare scs", bareName, zipfSCS, 16),
				{
					Name:  "redis/due/1/p50-one-trip-vs-two",
					Value: r.Ratio(exactName, redisTwoTrips, "1", "p50"),
					Op:    "<=", Bound: 0.65,
				},
				{
					Name:  "redis/not-due/allocs-over-bare",
					Value: r.Median(own10, "1", "allocs") - r.Median(bareName, "1", "allocs"),
					Op:    "<=", Bound: 3,
				},
			}
		},
	}
	return runner.Suite{
		Name:        f.suite,
		Contestants: []runner.Contestant{client(f.contenders)},
		Run: func(p runner.Plan) (runner.Report, error) {
			server, err := redistest.Run(context.Background())
			if err != nil {
				p.Log("NOT RUN: %v", err)
				return runner.Report{Title: f.title, Text: "Not run: there is no redis-server on the PATH."}, nil
			}
			defer server.Close()
			admin, err := rueidis.NewClient(server.Option())
			if err != nil {
				return runner.Report{}, err
			}
			defer admin.Close()
			return f.measure(p, server.Addr, func() (runner.Sample, error) { return counters(admin) })
		},
	}
}

// counters are how many commands have set an expiry, as the server counts them, and its
// processor time in microseconds.
func counters(admin rueidis.Client) (runner.Sample, error) {
	text, err := admin.Do(context.Background(), admin.B().Info().Section("cpu", "commandstats").Build()).ToString()
	sum := runner.Sample{"writes": 0, "server-cpu": 0}
	for line := range strings.Lines(text) {
		var n float64
		for _, name := range []string{"set", "psetex", "setex", "getex", "pexpire", "pexpireat"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%g", &n); err == nil {
				sum["writes"] += n
			}
		}
		for _, name := range []string{"user", "sys"} {
			if _, err := fmt.Sscanf(line, "used_cpu_"+name+":%g", &n); err == nil {
				sum["server-cpu"] += n * 1e6
			}
		}
	}
	return sum, err
}

// smallSession is one of 256 bytes.
func smallSession() session {
	s := aSession()
	s.Cart, s.Email = s.Cart[:3], "somebody.withaname@mail.example.com"
	return s
}

type redisGet func(ctx context.Context, key string) (session, error)

// ownRedis is slidingttl, over the driver as wrap makes it.
func ownRedis(p slidingttl.Policy, wrap func(driver.Driver[session]) driver.Driver[session]) func(context.Context, string) (way, error) {
	return func(_ context.Context, address string) (way, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
		if err != nil {
			return way{}, err
		}
		d, err := ownredis.New[session](client, nil)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(wrap(d), p, nil)
		if err != nil {
			return way{}, err
		}
		return way{
			get:   s.Get,
			put:   func(ctx context.Context, key string) error { return s.Insert(ctx, key, smallSession()) },
			spent: func() spent { return spent{} },
		}, nil
	}
}

func asItIs(d driver.Driver[session]) driver.Driver[session] { return d }

// twoTrips hides that the driver can read and touch in one.
type twoTrips struct{ driver.Driver[session] }

// bareRedis is what a program does by itself: it stores the value alone, with a TTL.
func bareRedis(get func(rueidis.Client) redisGet) func(context.Context, string) (way, error) {
	return func(_ context.Context, address string) (way, error) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}})
		if err != nil {
			return way{}, err
		}
		return way{
			get: get(client),
			put: func(ctx context.Context, key string) error {
				b, err := json.Marshal(smallSession())
				if err != nil {
					return err
				}
				return client.Do(ctx, client.B().Set().Key(key).Value(string(b)).PxMilliseconds(idleTimeout.Milliseconds()).Build()).Error()
			},
			spent: func() spent { return spent{} },
		}, nil
	}
}

// goRedis is the bare read by the client that most programs have.
func goRedis(_ context.Context, address string) (way, error) {
	client := goredis.NewClient(&goredis.Options{Addr: address})
	return way{
		get: func(ctx context.Context, key string) (s session, err error) {
			b, err := client.Get(ctx, key).Bytes()
			if err != nil {
				return s, err
			}
			return s, json.Unmarshal(b, &s)
		},
		put: func(ctx context.Context, key string) error {
			b, err := json.Marshal(smallSession())
			if err != nil {
				return err
			}
			return client.Set(ctx, key, b, idleTimeout).Err()
		},
		spent: func() spent { return spent{} },
	}, nil
}

// decoded is the session that a command has answered with.
func decoded(res rueidis.RedisResult) (s session, err error) {
	b, err := res.AsBytes()
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

func bareGET(client rueidis.Client) redisGet {
	return func(ctx context.Context, key string) (session, error) {
		return decoded(client.Do(ctx, client.B().Get().Key(key).Build()))
	}
}

func getAndPEXPIRE(idle time.Duration) func(rueidis.Client) redisGet {
	return func(client rueidis.Client) redisGet {
		return func(ctx context.Context, key string) (session, error) {
			res := client.DoMulti(ctx, client.B().Get().Key(key).Build(), client.B().Pexpire().Key(key).Milliseconds(idle.Milliseconds()).Build())
			if err := res[1].Error(); err != nil {
				return session{}, err
			}
			return decoded(res[0])
		}
	}
}

func getEX(client rueidis.Client) redisGet {
	return func(ctx context.Context, key string) (session, error) {
		return decoded(client.Do(ctx, client.B().Getex().Key(key).PxMilliseconds(idleTimeout.Milliseconds()).Build()))
	}
}

// scsOnRedis does what scs's middleware does with an idle timeout for every request: it
// finds the session and commits it with a new expiry.
func scsOnRedis(_ context.Context, address string) (way, error) {
	pool := &redis.Pool{MaxIdle: 32, Dial: func() (redis.Conn, error) { return redis.Dial("tcp", address) }}
	store := redisstore.New(pool)
	commit := func(key string, b []byte) error { return store.Commit(key, b, time.Now().Add(brief.IdleGrace)) }
	return way{
		get: func(_ context.Context, key string) (s session, err error) {
			b, found, err := store.Find(key)
			if err == nil && !found {
				err = errors.New("no session")
			}
			if err != nil {
				return s, err
			}
			if err := json.Unmarshal(b, &s); err != nil {
				return s, err
			}
			return s, commit(key, b)
		},
		put: func(_ context.Context, key string) error {
			b, err := json.Marshal(smallSession())
			if err != nil {
				return err
			}
			return commit(key, b)
		},
		spent: func() spent { return spent{} },
	}, nil
}
