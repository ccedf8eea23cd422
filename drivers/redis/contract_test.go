package redis_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// configurations are the layouts other than the default, which real servers test. Each runs the
// whole contract in virtual time.
var configurations = map[string]redis.Options{
	"prefix": {Prefix: `{app}:*?[a]\:`},
	"codec":  {Codec: reversed{}, Retain: 90 * time.Minute},
}

// reversed is JSON with its bytes reversed.
type reversed struct{}

func (reversed) Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return turned(b), err
}

func (reversed) Decode(b []byte, into any) error { return json.Unmarshal(turned(b), into) }

func turned(b []byte) []byte {
	b = bytes.Clone(b)
	for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
		b[i], b[j] = b[j], b[i]
	}
	return b
}

var lacks = map[drivertest.Feature]string{
	drivertest.Local:  "the store is a server",
	drivertest.Mender: "a header is the driver's own, and of no other form",
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	drivertest.Run(t, real(s.Option(), s.Client(t)))
}

func TestContractInCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	loadScripts(t, c.Client(t))
	h := real(c.Option(), c.Client(t))
	if !allCases {
		h.Cases = inCluster
	}
	single := h.Open
	h.Open = func(t testing.TB) *drivertest.Backend {
		b := single(t)
		for i := range 64 { // a connection to each node
			if _, err := b.Driver.Get(t.Context(), fmt.Sprint("never ", i)); !errors.Is(err, driver.ErrNotFound) {
				t.Fatal(err)
			}
		}
		return b
	}
	drivertest.Run(t, h)
}

// loadScripts loads the scripts into every node. Otherwise each is sent twice, and a gate would
// stop the first attempt, which does nothing.
func loadScripts(t *testing.T, client rueidis.Client) {
	d := open[profile](t, client, redis.Options{})
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for i := range 64 { // keys on all nodes
		key := fmt.Sprint("known ", i)
		_, err := d.Insert(t.Context(), key, profile{}, life, now)
		ok(t, "Insert", err)
		m, err := d.Overwrite(t.Context(), key, profile{}, life, anAccess(), now)
		ok(t, "Overwrite", err)
		_, err = d.Touch(t.Context(), key, m, m.Life, now)
		ok(t, "Touch", err)
		_, _, err = d.ReadTouch(t.Context(), key, nil, anAccess(), now)
		ok(t, "ReadTouch", err)
		ok(t, "Delete", d.Delete(t.Context(), key))
	}
}

// allCases makes a cluster run the whole contract.
var allCases bool

// inCluster chooses the cases that a cluster can change: each call reaches the node with the
// key, and a batch, a scan and a Check reach all nodes. TestContract tests what one node does.
func inCluster(name string) bool {
	group, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{
		"harness", "get", "insert", "replace", "touch", "delete", "remove", "overwrite", "readtouch",
		"batch", "scan", "raw", "check", "context", "fault", "late", "resent", "hostile",
	}, group)
}

func TestContractInVirtualTime(t *testing.T) {
	for name, opts := range configurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			drivertest.Run(t, virtual(opts))
		})
	}
}

var users atomic.Int64

// notApart are the lacks of a server whose clock cannot differ from the driver's.
func notApart() map[drivertest.Feature]string {
	all := maps.Clone(lacks)
	all[drivertest.Apart] = "TestContractApart sets the clock of a server"
	return all
}

// real runs cases in parallel on one server or cluster, each with its own user and proxy. admin
// is a client with all rights.
func real(option rueidis.ClientOption, admin rueidis.Client) drivertest.Harness {
	return drivertest.Harness{
		Lacks:    notApart(),
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
			option := option
			option.Username, option.Password = user, "any"
			client := redistest.NewClient(t, gated(gate, proxy.Option(option)))
			d := open[drivertest.Value](t, client, redis.Options{})
			return &drivertest.Backend{
				Driver: d,
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, client, redis.Options{Retain: retain})
				},
				Plant:   plant(client, redis.Options{}),
				Malform: malform(client, redis.Options{}, d),
				Fail: func() func() {
					allow("-@all", "+@connection")
					return func() { allow("+@all") }
				},
				Own:  func(err error) bool { return own(err, "NOPERM") },
				Hang: proxy.Hang,
				Gate: gate,
				Again: func() driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, admin, redis.Options{})
				},
				Hostile: loadHostile(admin, redis.Options{}),
			}
		},
	}
}

// virtual runs each case on a miniredis of its own.
func virtual(opts redis.Options) drivertest.Harness {
	opts.MaxSkew = 1e6 * time.Hour
	return drivertest.Harness{
		// The server's clock stands still while the driver's runs. A real server tests that
		// they agree.
		Cases:    func(name string) bool { return name != "clock/agrees" },
		Lacks:    notApart(),
		Parallel: true,
		Open: func(t testing.TB) *drivertest.Backend {
			server := redistest.StartVirtual(t)
			proxy, gate := redistest.NewProxy(t), new(drivertest.Gate)
			option := proxy.Option(server.Option())
			client := asking{redistest.NewClient(t, gated(gate, option)), redistest.NewClient(t, option)}
			other := sync.OnceValue(func() rueidis.Client { return server.Client(t) })
			d := open[drivertest.Value](t, client, opts)
			last := d
			return &drivertest.Backend{
				Driver: d,
				Now:    server.Now,
				Wait: func(by time.Duration) {
					server.Advance(by)
					for _, d := range []*redis.Driver[drivertest.Value]{d, last} {
						ok(t, "Check", d.Check(context.Background(), 0)) // asks for the time
					}
				},
				Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
					opts := opts
					opts.Retain = retain
					last = open[drivertest.Value](t, client, opts)
					return last
				},
				Plant:   plant(client, opts),
				Malform: malform(client, opts, d),
				Fail: func() func() {
					server.Fail("BUSY doing nothing")
					return func() { server.Fail("") }
				},
				Own:  func(err error) bool { return own(err, "BUSY") },
				Hang: proxy.Hang,
				Gate: gate,
				Again: func() driver.Driver[drivertest.Value] {
					return open[drivertest.Value](t, other(), opts)
				},
				Hostile: loadHostile(client, opts),
			}
		},
	}
}

func open[T any](t testing.TB, client rueidis.Client, opts redis.Options) *redis.Driver[T] {
	t.Helper()
	d, err := redis.New[T](client, &opts)
	ok(t, "New", err)
	return d
}

// own reports whether err is the server's own, with that code.
func own(err error, code string) bool {
	var answer *rueidis.RedisError
	return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), code)
}

// malform writes a record with a word as created_at in its header.
func malform(client rueidis.Client, opts redis.Options, d *redis.Driver[drivertest.Value]) func(context.Context, string, drivertest.Value) error {
	return func(ctx context.Context, key string, v drivertest.Value) error {
		now := driver.Floor(time.Now())
		if _, err := d.Insert(ctx, key, v, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			return err
		}
		whole, err := client.Do(ctx, client.B().Get().Key(opts.Prefix+key).Build()).ToString()
		if err != nil {
			return err
		}
		return client.Do(ctx, client.B().Set().Key(opts.Prefix+key).Value(whole[:5]+"yesterday......"+whole[20:]).Build()).Error()
	}
}

// plant writes a record in the form of opts as another program would.
func plant(client rueidis.Client, opts redis.Options) func(context.Context, string, drivertest.Value, driver.Life) error {
	return func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
		encode := json.Marshal
		if opts.Codec != nil {
			encode = opts.Codec.Encode
		}
		value, err := encode(v)
		if err != nil {
			return err
		}
		text := string(value)
		if life.CreatedAt != 0 {
			text = fmt.Sprintf("\x00sl1 %015d %015d %016x %s", life.CreatedAt, life.ExpiresAt, 0, text)
		}
		set := client.B().Set().Key(opts.Prefix + key).Value(text)
		if life.ExpiresAt == 0 {
			return client.Do(ctx, set.Build()).Error()
		}
		return client.Do(ctx, set.PxatMillisecondsTimestamp(int64(life.ExpiresAt)).Build()).Error()
	}
}
