package redis_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestCheck(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		name    string
		prepare func(f *fixture)
		want    string // in the error's text; empty: none
	}{
		{"as it comes", func(*fixture) {}, ""},
		{"memory short, nothing evicted", func(f *fixture) { f.command(t, "CONFIG", "SET", "maxmemory", "100mb") }, ""},
		{"a policy without a limit", func(f *fixture) { f.command(t, "CONFIG", "SET", "maxmemory-policy", "volatile-lru") }, ""},
		{"evicts what has a TTL", func(f *fixture) {
			f.command(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-ttl")
		}, "maxmemory-policy is volatile-ttl"},
		{"evicts anything", func(f *fixture) {
			f.command(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lfu")
		}, "maxmemory-policy is allkeys-lfu"},
		{"a replica", func(f *fixture) { f.command(t, "REPLICAOF", "127.0.0.1", "1") }, "server is a replica"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, redis.Options{})
			c.prepare(f)
			err := f.d.Check(t.Context(), 90*day)
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check: %v", err)
			case c.want != "" && (!errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check: %v; want %q", err, c.want)
			}
		})
	}
}

func TestCheckClock(t *testing.T) {
	server := redistest.StartVirtual(t)
	server.Advance(time.Hour)
	err := open[profile](t, server.Client(t), redis.Options{}).Check(t.Context(), 0)
	if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "system clock") || !strings.Contains(err.Error(), "behind the server's") {
		t.Errorf("Check an hour behind the server: %v", err)
	}
	ok(t, "Check", open[profile](t, server.Client(t), redis.Options{MaxSkew: 2 * time.Hour}).Check(t.Context(), 0))
}

func TestCheckInCluster(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	ok(t, "Check", d.Check(t.Context(), 0))
	one := cluster.Nodes[1].Client(t)
	for _, n := range one.Nodes() {
		ok(t, "CONFIG SET", n.Do(t.Context(), n.B().ConfigSet().ParameterValue().ParameterValue("maxmemory", "100mb").ParameterValue("maxmemory-policy", "volatile-random").Build()).Error())
	}
	if err := d.Check(t.Context(), 0); err == nil || !strings.Contains(err.Error(), "maxmemory-policy of the node with slots ") {
		t.Errorf("Check of a cluster whose nodes evict: %v", err)
	}
}

func TestOptions(t *testing.T) {
	client := redistest.StartVirtual(t).Client(t)
	if _, err := redis.New[profile](nil, nil); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New without a client: %v", err)
	}
	if _, err := redis.New[map[string]big.Int](client, nil); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "big.Int by pointer") {
		t.Errorf("a T that JSON does not keep: %v", err)
	}
	if _, err := redis.New[profile](client, &redis.Options{MaxSkew: -1}); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("New with a negative MaxSkew: %v", err)
	}
	d := open[func()](t, client, redis.Options{})
	life := driver.Life{CreatedAt: 1, ExpiresAt: 2}
	if _, err := d.Insert(t.Context(), "a", func() {}, life, 1); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("Insert of what JSON cannot hold: %v", err)
	}
	for _, l := range []driver.Life{{CreatedAt: -1, ExpiresAt: 2}, {CreatedAt: 1, ExpiresAt: 1e15}, {CreatedAt: driver.MaxInstant, ExpiresAt: 2}} {
		if _, err := open[int](t, client, redis.Options{}).Insert(t.Context(), "a", 1, l, 1); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("Insert with life %+v: %v", l, err)
		}
	}
}

// readmeRights are the permissions that the README names.
func readmeRights(t testing.TB) []string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	ok(t, "README", err)
	_, rules, _ := strings.Cut(string(readme), "**Permissions** of an ACL user: `")
	rules, _, _ = strings.Cut(rules, "`")
	return strings.Fields(rules)
}

// Check reports each right that a user lacks, and leaves nothing behind.
func TestCheckRights(t *testing.T) {
	f := newFixture(t, redis.Options{Prefix: "p:"})
	rights := readmeRights(t)
	for i, right := range rights {
		if right == "+@connection" || right == "+cluster|slots" {
			continue
		}
		f.command(t, append([]string{"ACL", "SETUSER", right, "on", "nopass", "~p:*"}, slices.Delete(slices.Clone(rights), i, i+1)...)...)
		option := f.server.Option()
		option.Username, option.Password = right, "any"
		err := open[profile](t, redistest.NewClient(t, option), redis.Options{Prefix: "p:"}).Check(t.Context(), 0)
		if !errors.Is(err, driver.ErrRefused) || !strings.Contains(strings.ToLower(err.Error()), right[1:]) {
			t.Errorf("Check without %s: %v; want that right", right, err)
		}
	}
	if n, err := f.command(t, "DBSIZE").AsInt64(); n != 0 {
		t.Errorf("Check leaves %d keys, %v", n, err)
	}
	f.command(t, "CONFIG", "SET", "maxmemory", "1")
	ok(t, "Check when memory is full", f.d.Check(t.Context(), 0))
}

// Check names each command that the server lacks: hosted servers rename some.
func TestCheckWithoutCommand(t *testing.T) {
	server, err := exec.LookPath(cmp.Or(os.Getenv("REDISTEST_SERVER"), "redis-server"))
	ok(t, "LookPath", err)
	for _, right := range readmeRights(t) {
		name := strings.ToUpper(strings.TrimPrefix(right, "+"))
		if name == "@CONNECTION" || name == "CLUSTER|SLOTS" || name == "INFO" { // the server's start is seen by INFO
			continue
		}
		without := filepath.Join(t.TempDir(), "server")
		ok(t, "WriteFile", os.WriteFile(without, fmt.Appendf(nil, "#!/bin/sh\nexec %s \"$@\" --rename-command %s ''\n", server, name), 0o755))
		t.Setenv("REDISTEST_SERVER", without)
		err := open[profile](t, redistest.Start(t).Client(t), redis.Options{}).Check(t.Context(), 0)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("Check without %s: %v; want an error that names it", name, err)
		}
	}
}

// A right of the command alone is no right on the keys: a selector may give it on others, or to read.
func TestCheckSelectors(t *testing.T) {
	f := newFixture(t, redis.Options{})
	const most = "+get +getrange +strlen +del +persist +pexpireat +pexpiretime +evalsha_ro +eval_ro +time +scan +info +@connection "
	for i, rules := range []string{
		most + "%R~s:* +set +setrange (~s:*,+eval,+evalsha)",
		most + "~s:* +eval +evalsha (~s:*,+set) (%R~s:*,+setrange)",
	} {
		user := fmt.Sprint("u", i)
		words := []string{"ACL", "SETUSER", user, "on", "nopass"}
		for _, rule := range strings.Fields(rules) {
			words = append(words, strings.ReplaceAll(rule, ",", " "))
		}
		f.command(t, words...)
		option := f.server.Option()
		option.Username, option.Password = user, "any"
		d := open[profile](t, redistest.NewClient(t, option), redis.Options{Prefix: "s:"})
		if err := d.Check(t.Context(), 0); !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "SETRANGE") {
			t.Errorf("Check of a user with %s: %v; want %v, and SETRANGE", rules, err, driver.ErrRefused)
		}
	}
}

// A client of one server that belongs to a cluster would see a part of the records as all.
func TestSingleClientOfCluster(t *testing.T) {
	option := redistest.StartCluster(t).Option()
	option.InitAddress, option.ForceSingleClient = option.InitAddress[:1], true
	d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
	from, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	_, err = d.Scan(t.Context(), from[0], 10)
	for call, err := range map[string]error{"Scan": err, "Check": d.Check(t.Context(), 0)} {
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "client is one of a single server") {
			t.Errorf("%s by a client of one node: %v; want %v that names the client", call, err, driver.ErrInvalid)
		}
	}
}

// A client that asks replicas is refused, in one sentence.
func TestCheckClientOfReplica(t *testing.T) {
	d := open[profile](t, redistest.Start(t).StartReplica(t).Client(t), redis.Options{})
	if err := d.Check(t.Context(), 0); !errors.Is(err, driver.ErrInvalid) || strings.Count(err.Error(), "must ask primaries") != 1 {
		t.Errorf("Check: %v; want %v, once", err, driver.ErrInvalid)
	}
}

// The permissions that the README names are enough.
func TestPermissions(t *testing.T) {
	f := newFixture(t, redis.Options{Prefix: "p:"})
	f.command(t, append([]string{"ACL", "SETUSER", "app", "on", "nopass", "~p:*"}, readmeRights(t)...)...)
	option := f.server.Option()
	option.Username, option.Password = "app", "any"
	f.d = open[profile](t, redistest.NewClient(t, option), redis.Options{Prefix: "p:"})
	ok(t, "Check", f.d.Check(t.Context(), 0))
	for _, name := range []string{"Insert", "Replace", "Touch", "Remove", "Delete"} {
		was := f.record(t, secret).Meta
		ok(t, name, calls(f.d, was)[name](t.Context()))
		ok(t, "Delete", f.d.Delete(t.Context(), secret))
	}
	f.command(t, "SET", "p:theirs", `{"name":"theirs"}`)
	now := driver.Floor(time.Now())
	e, err := f.d.Get(t.Context(), "theirs")
	ok(t, "Get", err)
	_, err = f.d.Touch(t.Context(), "theirs", e.Meta, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Minute)}, now)
	ok(t, "Touch that adopts", err)
	if _, touched, err := f.d.ReadTouch(t.Context(), "theirs", nil, anAccess(), now); err != nil || !touched {
		t.Errorf("ReadTouch: %t, %v", touched, err)
	}
	_, err = f.d.Raw(t.Context(), "theirs")
	ok(t, "Raw", err)
	if all, _, _ := scanned(t, f.d, 1, 10); len(all) != 2 {
		t.Errorf("scanned: %+v", all)
	}
}

// A write to a slot without a node was certainly not executed.
func TestSlotWithoutNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		option := n.Option()
		option.ForceSingleClient = true
		admin := redistest.NewClient(t, option)
		ok(t, "CONFIG SET", admin.Do(t.Context(), admin.B().Arbitrary("CONFIG", "SET", "cluster-require-full-coverage", "no").Build()).Error())
		if err := admin.Do(t.Context(), admin.B().Arbitrary("CLUSTER", "DELSLOTS", "15495").Build()).Error(); err != nil && !strings.Contains(err.Error(), "already unassigned") {
			t.Fatal(err)
		}
	}
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	_, err := d.Insert(t.Context(), "{a}", profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	if !errors.Is(err, rueidis.ErrNoSlot) || errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("Insert: %v; want %v, not ambiguous", err, rueidis.ErrNoSlot)
	}
}

// A cluster that tells no addresses is refused by name.
func TestCheckClusterWithoutAddresses(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	for _, n := range cluster.Nodes {
		option := n.Option()
		option.ForceSingleClient = true
		admin := redistest.NewClient(t, option)
		ok(t, "CONFIG SET", admin.Do(t.Context(), admin.B().Arbitrary("CONFIG", "SET", "cluster-preferred-endpoint-type", "unknown-endpoint").Build()).Error())
	}
	if err := d.Check(t.Context(), 0); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "cluster-preferred-endpoint-type") {
		t.Errorf("Check: %v; want %v and the setting", err, driver.ErrInvalid)
	}
}

// refusing is a client of a server that answers INFO and TIME, and refuses all else.
type refusing struct {
	wire.Client
	text string
}

func (refusing) Nodes(context.Context) (map[string]wire.Client, error) { return nil, nil }

func (c refusing) Do(_ context.Context, cmd wire.Command) wire.Answer {
	word := func(s string) wire.Answer { return wire.Answer{Kind: wire.String, String: []byte(s)} }
	switch cmd.Words[0] {
	case "INFO":
		return word("role:master")
	case "TIME":
		return wire.Answer{Kind: wire.Array, Array: []wire.Answer{word(fmt.Sprint(time.Now().Unix())), word("0")}}
	}
	return wire.Answer{Kind: wire.Refused, Err: errors.New(c.text)}
}

// Check passes over refusals that end by themselves, and over no other.
func TestCheckForgives(t *testing.T) {
	for text, forgiven := range map[string]bool{
		"OOM command not allowed when used memory > 'maxmemory'.": true,
		"LOADING Redis is loading the dataset in memory":          true,
		"BUSY Redis is busy running a script.":                    true,
		"NOREPLICAS Not enough good replicas to write.":           true,
		"MISCONF Redis is configured to save RDB snapshots":       true,
		"CLUSTERDOWN The cluster is down":                         true,
		"TRYAGAIN Multiple keys request during rehashing of slot": true,
		"NOSCRIPT No matching script.":                            true,
		"MOVED 1 127.0.0.1:1":                                     false,
		"ERR unknown command":                                     false,
		"ERR OOM":                                                 false,
		"NOPERM this user has no permissions":                     false,
	} {
		d, err := redis.Over[profile](refusing{text: text}, nil)
		ok(t, "Over", err)
		if err := d.Check(t.Context(), 0); (err == nil) != forgiven {
			t.Errorf("Check where the server says %q: %v", text, err)
		}
	}
}
