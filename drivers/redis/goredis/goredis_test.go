package goredis_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	slidingredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/goredis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

func TestMain(m *testing.M) {
	// The test's own rueidis client of a cluster leaves goroutines that end after some seconds.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

func ok(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// connect returns a go-redis client, which is closed when the test ends.
func connect(t testing.TB, o *redis.UniversalOptions) redis.UniversalClient {
	t.Helper()
	c := redis.NewUniversalClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func open[T any](t testing.TB, c redis.UniversalClient, opts slidingredis.Options) *slidingredis.Driver[T] {
	t.Helper()
	d, err := goredis.New[T](c, &opts)
	ok(t, "New", err)
	return d
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	drivertest.Run(t, harness([]string{s.Addr}, s.Client(t), nil))
}

func TestContractInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	loadScripts(t, connect(t, &redis.UniversalOptions{Addrs: c.Option().InitAddress}))
	drivertest.Run(t, harness(c.Option().InitAddress, c.Client(t), func(name string) bool {
		group, _, _ := strings.Cut(name, "/")
		return slices.Contains([]string{
			"harness", "get", "insert", "replace", "touch", "delete", "remove", "overwrite", "readtouch",
			"batch", "scan", "raw", "check", "context", "fault", "late", "resent", "hostile",
		}, group)
	}))
}

// loadScripts loads the scripts into every node. Otherwise each is sent twice, and a gate would
// stop the first attempt, which does nothing.
func loadScripts(t *testing.T, c redis.UniversalClient) {
	d := open[string](t, c, slidingredis.Options{})
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	a := driver.Access{At: now, Keep: 1e7, Stored: 1e7, Most: 1e8, Step: time.Millisecond}
	for i := range 64 { // keys on all nodes
		key := fmt.Sprint("known ", i)
		_, err := d.Insert(t.Context(), key, "v", life, now)
		ok(t, "Insert", err)
		m, err := d.Overwrite(t.Context(), key, "v", life, a, now)
		ok(t, "Overwrite", err)
		_, err = d.Touch(t.Context(), key, m, m.Life, now)
		ok(t, "Touch", err)
		_, _, err = d.ReadTouch(t.Context(), key, nil, a, now)
		ok(t, "ReadTouch", err)
		ok(t, "Delete", d.Delete(t.Context(), key))
	}
}

var users atomic.Int64

// harness runs cases in parallel, each with its own user and proxy. admin has all rights.
func harness(addresses []string, admin rueidis.Client, cases func(string) bool) drivertest.Harness {
	return drivertest.Harness{
		Cases: cases,
		Lacks: map[drivertest.Feature]string{
			drivertest.Local:  "the store is a server",
			drivertest.Mender: "a header is the driver's own, and of no other form",
			drivertest.Apart:  "is tested with the driver",
		},
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			user := fmt.Sprint("case", users.Add(1))
			allow := func(rules ...string) {
				for _, n := range admin.Nodes() {
					ok(t, "ACL SETUSER", n.Do(context.Background(), n.B().AclSetuser().Username(user).Rule(rules...).Build()).Error())
				}
			}
			allow("on", "nopass", "~*", "&*", "+@all")
			proxy, gate := redistest.NewProxy(t), new(drivertest.Gate)
			dial := proxy.Option(rueidis.ClientOption{}).DialCtxFn
			gated := connect(t, &redis.UniversalOptions{
				Addrs: addresses, Username: user, Password: "any",
				Dialer: func(ctx context.Context, _, address string) (net.Conn, error) {
					conn, err := dial(ctx, address, new(net.Dialer), nil)
					if err != nil {
						return nil, err
					}
					return gate.Conn(conn, writes)
				},
			})
			again := connect(t, &redis.UniversalOptions{Addrs: addresses})
			d := open[drivertest.Value](t, gated, slidingredis.Options{})
			return &drivertest.Backend{
				Driver: d,
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, gated, slidingredis.Options{Retain: retain})
				},
				Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
					return plant(ctx, again, key, v, life)
				},
				Malform: func(ctx context.Context, key string, _ drivertest.Value) error {
					return again.Set(ctx, key, "\x00sl1 yesterday...... 000000000000000 0000000000000000 {}", 0).Err()
				},
				Fail: func() func() {
					allow("-@all", "+@connection")
					return func() { allow("+@all") }
				},
				Own: func(err error) bool {
					own, ok := errors.AsType[redis.Error](err)
					return ok && strings.HasPrefix(own.Error(), "NOPERM")
				},
				Hang: proxy.Hang,
				Gate: gate,
				Again: func() driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, again, slidingredis.Options{})
				},
				Hostile: func(ctx context.Context, r drivertest.HostileRecord) error {
					if r.Guarded || r.Alien {
						return errors.ErrUnsupported
					}
					life := driver.Life{CreatedAt: driver.Instant(r.CreatedAt), ExpiresAt: driver.Instant(r.ExpiresAt.UnixMilli())}
					return plant(ctx, again, r.Key, drivertest.Value{Text: strings.Repeat("x", r.Size)}, life)
				},
			}
		},
	}
}

// writes reports whether a client sends a command that may write.
func writes(sent []byte) bool {
	for _, command := range []string{"EVALSHA", "EVAL", "DEL", "SET"} {
		if bytes.Contains(sent, []byte("\r\n"+command+"\r\n")) {
			return true
		}
	}
	return false
}

// plant writes a record as another program would.
func plant(ctx context.Context, c redis.UniversalClient, key string, v drivertest.Value, life driver.Life) error {
	value, err := json.Marshal(v)
	if err != nil {
		return err
	}
	text := string(value)
	if life.CreatedAt != 0 {
		text = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", life.CreatedAt, life.ExpiresAt, 0, text)
	}
	if life.ExpiresAt == 0 {
		return c.Set(ctx, key, text, 0).Err()
	}
	return c.Do(ctx, "SET", key, text, "PXAT", int64(life.ExpiresAt)).Err()
}

// calls returns the writing calls, on a live record that was read as was.
func calls(d *slidingredis.Driver[string], was driver.Meta) map[string]func(context.Context) error {
	now := driver.Floor(time.Now())
	later := driver.Life{CreatedAt: was.CreatedAt, ExpiresAt: was.ExpiresAt.Add(time.Hour)}
	a := driver.Access{At: now, Keep: 1e7, Stored: 1e7, Most: 1e8, Step: time.Millisecond}
	return map[string]func(context.Context) error{
		"Insert": func(ctx context.Context) error {
			_, err := d.Insert(ctx, "new", "v", later, now)
			return err
		},
		"Replace": func(ctx context.Context) error {
			_, err := d.Replace(ctx, "k", "v", was, later, now)
			return err
		},
		"Overwrite": func(ctx context.Context) error {
			_, err := d.Overwrite(ctx, "k", "v", later, a, now)
			return err
		},
		"Touch": func(ctx context.Context) error {
			_, err := d.Touch(ctx, "k", was, later, now)
			return err
		},
		"Remove": func(ctx context.Context) error { return d.Remove(ctx, "k", was, now) },
		"Delete": func(ctx context.Context) error { return d.Delete(ctx, "k") },
	}
}

func insert(t testing.TB, d *slidingredis.Driver[string], key string) driver.Meta {
	t.Helper()
	now := driver.Floor(time.Now())
	m := driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute)}}
	var err error
	m.Version, err = d.Insert(t.Context(), key, "v", m.Life, now)
	ok(t, "Insert", err)
	return m
}

// A write whose answer is lost is not sent again, though the client has MaxRetries by default.
func TestWritesAreSentOnce(t *testing.T) {
	for name := range calls(nil, driver.Meta{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, proxy := redistest.Start(t), redistest.NewProxy(t)
			dial := proxy.Option(rueidis.ClientOption{}).DialCtxFn
			var sent atomic.Int64
			c := connect(t, &redis.UniversalOptions{
				Addrs: []string{server.Addr},
				Dialer: func(ctx context.Context, _, address string) (net.Conn, error) {
					conn, err := dial(ctx, address, new(net.Dialer), nil)
					return counting{conn, &sent}, err
				},
			})
			d := open[string](t, c, slidingredis.Options{})
			was := insert(t, d, "k")
			_ = calls(d, was)[name](t.Context()) // the server knows the script then
			ok(t, "FLUSHDB", c.FlushDB(t.Context()).Err())
			was = insert(t, d, "k")
			before := sent.Load()
			proxy.Lose(1)
			if err := calls(d, was)[name](t.Context()); !errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("a write whose answer is lost: %v; want %v", err, driver.ErrAmbiguous)
			}
			if n := sent.Load() - before; n != 1 {
				t.Errorf("it was sent %d times; want once", n)
			}
		})
	}
}

// counting counts the scripts that are sent.
type counting struct {
	net.Conn
	sent *atomic.Int64
}

func (c counting) Write(p []byte) (int, error) {
	c.sent.Add(int64(bytes.Count(bytes.ToUpper(p), []byte("\r\nEVALSHA\r\n"))))
	return c.Conn.Write(p)
}

// A write whose context ends while its connection is set up is not sent afterwards, when its caller has left.
func TestWritesAreNotSentLate(t *testing.T) {
	server := redistest.Start(t)
	other := open[string](t, connect(t, &redis.UniversalOptions{Addrs: []string{server.Addr}}), slidingredis.Options{})
	was := insert(t, other, "k")
	for name := range calls(nil, driver.Meta{}) {
		proxy, setup := redistest.NewProxy(t), make(chan struct{}, 1)
		dial := proxy.Option(rueidis.ClientOption{}).DialCtxFn
		var sent atomic.Int64
		c := connect(t, &redis.UniversalOptions{
			Addrs: []string{server.Addr},
			Dialer: func(ctx context.Context, _, address string) (net.Conn, error) {
				conn, err := dial(ctx, address, new(net.Dialer), nil)
				return begun{counting{conn, &sent}, setup}, err
			},
		})
		ended := make(ends, 1)
		c.AddHook(ended)
		answer := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		release := proxy.Hang()
		go func() { answer <- calls(open[string](t, c, slidingredis.Options{}), was)[name](ctx) }()
		<-setup
		cancel()
		if err := <-answer; !errors.Is(err, context.Canceled) {
			t.Errorf("%s that is given up: %v; want %v", name, err, context.Canceled)
		}
		release()
		if err := <-ended; !errors.Is(err, context.Canceled) || sent.Load() != 0 {
			t.Errorf("%s is sent %d times after its caller has left: %v", name, sent.Load(), err)
		}
	}
}

// begun is a connection that tells of the first of its writes.
type begun struct {
	counting
	told chan struct{}
}

func (b begun) Write(p []byte) (int, error) {
	select {
	case b.told <- struct{}{}:
	default:
	}
	return b.counting.Write(p)
}

// ends is a hook that tells how scripts end.
type ends chan error

func (ends) DialHook(next redis.DialHook) redis.DialHook { return next }

func (ends) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (e ends) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "evalsha" {
			e <- err
		}
		return err
	}
}

// Writes that the server holds back leave connections for reads, and end with their contexts.
func TestReadsWhileWritesArePaused(t *testing.T) {
	for name, o := range map[string]redis.UniversalOptions{"PoolSize": {PoolSize: 4}, "MaxActiveConns": {PoolSize: 20, MaxActiveConns: 4}} {
		t.Run(name, func(t *testing.T) { testReadsWhileWritesArePaused(t, o) })
	}
}

func testReadsWhileWritesArePaused(t *testing.T, o redis.UniversalOptions) {
	server := redistest.Start(t)
	o.Addrs = []string{server.Addr}
	d := open[string](t, connect(t, &o), slidingredis.Options{})
	was := insert(t, d, "k")
	admin := connect(t, &redis.UniversalOptions{Addrs: []string{server.Addr}})
	ok(t, "CLIENT PAUSE", admin.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE").Err())
	writes, cancel := context.WithCancel(t.Context())
	const touches = 20
	ended := make(chan error, touches)
	for range touches {
		go func() { ended <- calls(d, was)["Touch"](writes) }()
	}
	for blocked := 0; blocked < 2; { // half of the pool
		_, after, _ := strings.Cut(admin.Info(t.Context(), "clients").Val(), "blocked_clients:")
		_, _ = fmt.Sscan(after, &blocked)
		time.Sleep(time.Millisecond)
	}
	ctx, late := context.WithTimeout(t.Context(), 20*time.Second)
	defer late()
	for range 100 {
		_, err := d.Get(ctx, "k")
		ok(t, "Get", err)
	}
	cancel()
	for range touches {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a touch that was given up: %v", err)
		}
	}
	ok(t, "CLIENT UNPAUSE", admin.Do(t.Context(), "CLIENT", "UNPAUSE").Err())
}

// Not found is the server's answer. A client that cannot load the cluster's state has none: go-redis
// then returns redis.Nil, the error of a key that does not exist.
func TestClusterWithoutAddresses(t *testing.T) {
	cluster := redistest.StartCluster(t)
	addresses := cluster.Option().InitAddress
	was := insert(t, open[string](t, connect(t, &redis.UniversalOptions{Addrs: addresses}), slidingredis.Options{}), "k")
	for _, n := range cluster.Nodes {
		admin := connect(t, &redis.UniversalOptions{Addrs: []string{n.Addr}})
		ok(t, "CONFIG SET", admin.Do(t.Context(), "CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint").Err())
	}
	d := open[string](t, connect(t, &redis.UniversalOptions{Addrs: addresses}), slidingredis.Options{})
	all := calls(d, was)
	all["Get"] = func(ctx context.Context) error { _, err := d.Get(ctx, "k"); return err }
	all["GetMulti"] = func(ctx context.Context) error { _, err := d.GetMulti(ctx, []string{"k"}); return err }
	all["Raw"] = func(ctx context.Context) error { _, err := d.Raw(ctx, "k"); return err }
	all["Check"] = func(ctx context.Context) error { return d.Check(ctx, 0) }
	for name, call := range all {
		if err := call(t.Context()); err == nil || errors.Is(err, driver.ErrNotFound) || errors.Is(err, redis.Nil) ||
			errors.Is(err, driver.ErrAmbiguous) || !strings.Contains(err.Error(), "addresses") {
			t.Errorf("%s of a record that the client has no way to: %v; want an error that says so", name, err)
		}
	}
}

// A call ends with its context while the client loads the cluster's state from a node that is silent.
func TestContextWhileTheStateLoads(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, "Listen", err)
	defer silent.Close()
	address := silent.Addr().String()
	d := open[string](t, connect(t, &redis.UniversalOptions{Addrs: []string{address, address}, DialTimeout: time.Hour, ReadTimeout: time.Hour}), slidingredis.Options{})
	all := calls(d, driver.Meta{Life: driver.Life{CreatedAt: 1, ExpiresAt: driver.Floor(time.Now()).Add(time.Hour)}, Version: 1})
	all["Get"] = func(ctx context.Context) error { _, err := d.Get(ctx, "k"); return err }
	all["GetMulti"] = func(ctx context.Context) error { _, err := d.GetMulti(ctx, []string{"a", "b"}); return err }
	all["Check"] = func(ctx context.Context) error { return d.Check(ctx, 0) }
	all["Segments"] = func(ctx context.Context) error { _, err := d.Segments(ctx, 1); return err }
	for name, call := range all {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		ended := make(chan error, 1)
		go func() { ended <- call(ctx) }()
		select {
		case err := <-ended:
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("%s: %v; want %v", name, err, context.DeadlineExceeded)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s does not return when its context ends", name)
		}
		cancel()
	}
}

// A read asks for the server's time at the node that it reads from: another one may be silent.
func TestGetBesideSilentNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c := connect(t, &redis.UniversalOptions{Addrs: cluster.Option().InitAddress, ReadTimeout: time.Minute})
	insert(t, open[string](t, c, slidingredis.Options{}), "k")
	var silent *redistest.Server
	for _, n := range cluster.Nodes {
		if admin := connect(t, &redis.UniversalOptions{Addrs: []string{n.Addr}}); silent == nil && admin.Get(t.Context(), "k").Err() != nil {
			silent = n
			ok(t, "CLIENT PAUSE", admin.Do(t.Context(), "CLIENT", "PAUSE", "600000", "ALL").Err())
		}
	}
	for range 30 { // each driver asks with its first read
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err := open[string](t, c, slidingredis.Options{}).Get(ctx, "k")
		ok(t, "Get beside a silent node", cmp.Or(err, ctx.Err()))
		cancel()
	}
	ok(t, "SHUTDOWN", silent.Close())
}

func TestNewRefuses(t *testing.T) {
	one := []string{"127.0.0.1:1"}
	for name, c := range map[string]redis.UniversalClient{
		"nil":        nil,
		"no client":  (*redis.Client)(nil),
		"no cluster": (*redis.ClusterClient)(nil),
		"a ring":     redis.NewRing(&redis.RingOptions{}),
		"pool":       redis.NewClient(&redis.Options{Addr: one[0], PoolSize: 1}),
		"timeout":    redis.NewClient(&redis.Options{Addr: one[0], ReadTimeout: -1}),
		"replica":    redis.NewClusterClient(&redis.ClusterOptions{Addrs: one, ReadOnly: true}),
		"slots":      redis.NewFailoverClusterClient(&redis.FailoverOptions{MasterName: "m", SentinelAddrs: one}),
		"cache":      redis.NewClient(&redis.Options{Addr: one[0], ClientSideCacheConfig: &redis.ClientSideCacheConfig{}}),
		"a cache":    redis.NewClient(&redis.Options{Addr: one[0], ClientSideCache: redis.NewLocalCache(redis.CacheConfig{})}),
		"conns":      redis.NewClient(&redis.Options{Addr: one[0], MaxActiveConns: 1}),
		"write":      redis.NewClient(&redis.Options{Addr: one[0], WriteTimeout: -1}),
		"writes":     redis.NewClusterClient(&redis.ClusterOptions{Addrs: one, WriteTimeout: -1}),
	} {
		if _, err := goredis.New[string](c, nil); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v; want %v", name, err, driver.ErrInvalid)
		}
		if !strings.HasPrefix(name, "n") {
			_ = c.Close()
		}
	}
}
