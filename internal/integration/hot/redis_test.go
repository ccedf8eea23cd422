package hot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// A cluster's client waits for five seconds before it closes the connection by which it began.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// bounds hold for longer than any test lasts: what is seen in time was pushed.
var bounds = hot.Bounds{Records: 1000, Staleness: 24 * time.Hour}

// The contract holds over Redis where the tier is told of what others write, and that the
// server is down, in place of being late.
func TestContract(t *testing.T) {
	drivertest.Run(t, drivertest.Harness{
		// miniredis's clock stands still while the driver's goes on.
		Cases:    func(name string) bool { return name != "clock/agrees" },
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			server := redistest.StartVirtual(t)
			proxy := redistest.NewProxy(t)
			client := redistest.NewClient(t, proxy.Option(server.Option()))
			var inner *redis.Driver[drivertest.Value] // the last one, which is the one in use
			over := func(retain time.Duration) *hot.Driver[drivertest.Value] {
				var err error
				inner, err = redis.New[drivertest.Value](client, &redis.Options{MaxSkew: 1e6 * time.Hour, Retain: retain})
				ok(t, "redis.New", err)
				h, err := hot.New(inner, bounds, &hot.Options[drivertest.Value]{LateDeletes: true, Now: server.Now})
				ok(t, "hot.New", err)
				return h
			}
			h := over(0)
			return &drivertest.Backend{
				Driver: h,
				Now:    server.Now,
				Wait: func(by time.Duration) {
					server.Advance(by)
					ok(t, "Check", inner.Check(context.Background(), 0)) // asks for the time
				},
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] { return over(retain) },
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					defer h.Forget(key)
					return plant(ctx, client, key, v, life)
				},
				Malform: func(ctx context.Context, key string, _ drivertest.Value) error {
					defer h.Forget(key)
					return client.Do(ctx, client.B().Set().Key(key).Value("\x00sl1 yesterday...... 000000000000000 0000000000000000 {}").Build()).Error()
				},
				Fail: func() func() {
					h.ForgetAll()
					server.Fail("BUSY doing nothing")
					return func() { server.Fail("") }
				},
				Own: func(err error) bool {
					var answer *rueidis.RedisError
					return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "BUSY")
				},
				Hang: func() func() {
					h.ForgetAll()
					return proxy.Hang()
				},
			}
		},
		Lacks: map[drivertest.Feature]string{
			drivertest.Local:   "the store is a server",
			drivertest.Copies:  "a value is handed out as it is held",
			drivertest.Mender:  "a header is the driver's own, and of no other form",
			drivertest.Gated:   "nothing stands between this driver and its server that stops a single write",
			drivertest.Apart:   "the server's clock is the machine's",
			drivertest.Hostile: "no loader writes these records here",
		},
	})
}

// plant writes a record as another program would.
func plant(ctx context.Context, client rueidis.Client, key string, v drivertest.Value, life driver.Life) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := string(value)
	if life.CreatedAt != 0 {
		text = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", life.CreatedAt, life.ExpiresAt, 0, text)
	}
	set := client.B().Set().Key(key).Value(text)
	if life.ExpiresAt == 0 {
		return client.Do(ctx, set.Build()).Error()
	}
	return client.Do(ctx, set.PxatMillisecondsTimestamp(int64(life.ExpiresAt)).Build()).Error()
}

// announced is a tier that tells when it has forgotten.
type announced struct {
	*hot.Driver[string]
	forgot chan string
}

func (a announced) Forget(key string) {
	a.Driver.Forget(key)
	a.forgot <- key
}

// A deletion by another process is pushed, and seen from then on, though what was held was
// good for a day. In a cluster each node tells of its own keys.
func TestPushed(t *testing.T) {
	t.Run("one server", func(t *testing.T) { testPushed(t, redistest.Start(t).Option()) })
	t.Run("cluster", func(t *testing.T) { testPushed(t, redistest.StartCluster(t).Option()) })
}

func testPushed(t *testing.T, server rueidis.ClientOption) {
	policy := slidingttl.Policy{IdleGrace: time.Hour, MaxLifetime: 24 * time.Hour, Slack: 10 * time.Minute}
	open := func(d driver.Driver[string]) *slidingttl.Store[string] {
		s, err := slidingttl.New(d, policy, nil)
		ok(t, "slidingttl.New", err)
		t.Cleanup(func() { ok(t, "Close", s.Close(context.Background())) })
		return s
	}
	const keys = 24 // enough for each of three nodes to have some
	var pushed redis.Invalidations
	opts := &redis.Options{Prefix: "link:"}
	inner, err := redis.New[string](redistest.NewClient(t, pushed.Track(server)), opts)
	ok(t, "redis.New", err)
	h, err := hot.New(inner, bounds, nil)
	ok(t, "hot.New", err)
	tier := announced{h, make(chan string, 10*keys)}
	pushed.Tell(opts.Prefix, tier)
	plain, err := redis.New[string](redistest.NewClient(t, server), opts)
	ok(t, "redis.New", err)
	here, elsewhere := open(h), open(plain)

	held := make(map[string]bool)
	for n := range keys {
		key := fmt.Sprint("a", n)
		held[key] = true
		ok(t, "Insert", elsewhere.Insert(t.Context(), key, "kept"))
		for range 10 {
			if v, err := here.Get(t.Context(), key); err != nil || v != "kept" {
				t.Fatalf("Get: %q, %v", v, err)
			}
		}
	}
	if s := h.Stats(); s.Misses != keys || s.Hits != 9*keys {
		t.Errorf("%+v; want %d misses and %d hits", s, keys, 9*keys)
	}
	for key := range held {
		ok(t, "Delete elsewhere", elsewhere.Delete(t.Context(), key))
	}
	late := time.After(20 * time.Second)
	for len(held) > 0 {
		select {
		case key := <-tier.forgot:
			if v, err := here.Get(t.Context(), key); !errors.Is(err, slidingttl.ErrNotFound) {
				t.Errorf("Get after the push: %q, %v", v, err)
			}
			delete(held, key)
		case <-late:
			t.Fatalf("not told of %v", held)
		}
	}
}
