package redis_test

import (
	"cmp"
	"context"
	"flag"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestMain(m *testing.M) {
	// Cases on a real server wait for its clock, so many wait at once.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	// A client of a cluster leaves goroutines that sleep for seconds and then end: one that
	// refreshes the cluster's topology, and those that close unused connections.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

type profile struct {
	Name string `json:"name"`
}

// secret is a key that must be in no error's text.
const secret = "s3ss10n-t0k3n"

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// clients returns a client of each node alone.
func clients(t *testing.T, cluster *redistest.Cluster) (all []rueidis.Client) {
	t.Helper()
	for _, n := range cluster.Nodes {
		option := n.Option()
		option.ForceSingleClient = true
		all = append(all, redistest.NewClient(t, option))
	}
	return all
}

// counting is a client that counts its trips: how often it waits for an answer.
type counting struct {
	rueidis.Client
	trips atomic.Int64
}

func (c *counting) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	c.trips.Add(1)
	return c.Client.Do(ctx, cmd)
}

func (c *counting) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	c.trips.Add(1)
	return c.Client.DoMulti(ctx, multi...)
}

// during returns how many trips f makes.
func (c *counting) during(f func()) int64 {
	before := c.trips.Load()
	f()
	return c.trips.Load() - before
}

// fixture is a server and a driver.
type fixture struct {
	server *redistest.Server
	proxy  *redistest.Proxy // between the driver and the server
	client *counting
	d      *redis.Driver[profile]
}

func newFixture(t testing.TB, opts redis.Options) *fixture {
	t.Helper()
	f := &fixture{server: redistest.Start(t), proxy: redistest.NewProxy(t)}
	option := f.proxy.Option(f.server.Option())
	option.PipelineMultiplex = -1 // one connection, which is open when answers are lost
	f.client = &counting{Client: redistest.NewClient(t, option)}
	f.d = open[profile](t, f.client, opts)
	ok(t, "Learn", f.d.Learn(t.Context()))
	return f
}

// command executes words on the server, without the driver.
func (f *fixture) command(t testing.TB, words ...string) rueidis.RedisResult {
	t.Helper()
	res := f.client.Client.Do(t.Context(), f.client.B().Arbitrary(words...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%s: %v", words[0], err)
	}
	return res
}

// record inserts a record that lives for ten minutes.
func (f *fixture) record(t testing.TB, key string) driver.Entry[profile] {
	t.Helper()
	now := driver.Floor(time.Now())
	e := driver.Entry[profile]{Value: profile{"kept"}, Meta: driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute)}}}
	var err error
	e.Version, err = f.d.Insert(t.Context(), key, e.Value, e.Life, now)
	ok(t, "Insert", err)
	return e
}

// calls returns the writing calls, on a live record that was read as was.
func calls(d *redis.Driver[profile], was driver.Meta) map[string]func(context.Context) error {
	now := driver.Floor(time.Now())
	later := driver.Life{CreatedAt: cmp.Or(was.CreatedAt, now), ExpiresAt: was.ExpiresAt.Add(time.Hour)}
	return map[string]func(context.Context) error{
		"Insert": func(ctx context.Context) error {
			_, err := d.Insert(ctx, secret+"new", profile{}, later, now)
			return err
		},
		"Replace": func(ctx context.Context) error {
			_, err := d.Replace(ctx, secret, profile{}, was, later, now)
			return err
		},
		"Overwrite": func(ctx context.Context) error {
			_, err := d.Overwrite(ctx, secret, profile{}, later, anAccess(), now)
			return err
		},
		"Touch": func(ctx context.Context) error {
			_, err := d.Touch(ctx, secret, was, later, now)
			return err
		},
		"Remove": func(ctx context.Context) error { return d.Remove(ctx, secret, was, now) },
		"Delete": func(ctx context.Context) error { return d.Delete(ctx, secret) },
	}
}

// anAccess now keeps a record for an hour, and none longer than a day.
func anAccess() driver.Access {
	const hour = driver.Instant(3600 * 1000)
	return driver.Access{At: driver.Ceil(time.Now()), Keep: hour, Stored: hour, Most: 24 * hour, Step: time.Millisecond}
}
