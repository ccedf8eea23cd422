package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	slidingredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A batch returns what the answering nodes of a cluster have, although another node is silent until the
// batch's context ends.
func TestBatchBesideSilentNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[string](t, connect(t, &redis.UniversalOptions{Addrs: cluster.Option().InitAddress, ReadTimeout: time.Minute}), slidingredis.Options{})
	var keys []string
	for i := range 2600 { // more than four pipelines, all with keys of the silent node
		key := fmt.Sprint(i)
		keys = append(keys, key)
		insert(t, d, key)
	}
	admins := make([]redis.UniversalClient, len(cluster.Nodes))
	for i, n := range cluster.Nodes {
		admins[i] = connect(t, &redis.UniversalOptions{Addrs: []string{n.Addr}})
	}
	calls := func(node int) (n int) {
		stats, err := admins[node].Info(t.Context(), "commandstats").Result()
		ok(t, "INFO", err)
		_, stats, _ = strings.Cut(stats, "cmdstat_get:calls=")
		_, _ = fmt.Sscan(strings.ReplaceAll(stats, ",", " "), &n)
		return n
	}
	const silent = 1
	var want []string
	for _, key := range keys {
		if admins[silent].Get(t.Context(), key).Err() != nil {
			want = append(want, key) // MOVED
		}
	}
	slices.Sort(want)
	before := calls(0) + calls(2)
	ok(t, "CLIENT PAUSE", admins[silent].Do(t.Context(), "CLIENT", "PAUSE", "600000", "ALL").Err())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found map[string]driver.Entry[string]
	ended := make(chan error, 1)
	go func() {
		var err error
		found, err = d.GetMulti(ctx, keys)
		ended <- err
	}()
	// Both answer all GETs, and cancel comes after their answers.
	for n, hung := 0, time.Now().Add(20*time.Second); n < len(want); time.Sleep(time.Millisecond) {
		if time.Now().After(hung) {
			t.Fatalf("the nodes that answer were asked for %d of %d keys", n, len(want))
		}
		n = calls(0) + calls(2) - before
	}
	for _, key := range want {
		_, err := d.Get(t.Context(), key)
		ok(t, "Get", err)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("GetMulti beside a silent node: %v; want %v", err, context.Canceled)
	}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("GetMulti beside a silent node has %d records; the other nodes have %d", len(got), len(want))
	}
	ok(t, "SHUTDOWN", cluster.Nodes[silent].Close()) // so that abandoned pipelines end
}
