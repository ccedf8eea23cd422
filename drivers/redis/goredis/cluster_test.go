package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	slidingredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A cluster's NewClient may give its nodes other options than the cluster's.
func TestNewClientOfNodes(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for name, change := range map[string]func(*redis.Options){
		"ClientSideCache": func(o *redis.Options) { o.ClientSideCacheConfig = &redis.ClientSideCacheConfig{} },
		"ReadTimeout":     func(o *redis.Options) { o.ReadTimeout = -1 },
		"PoolSize":        func(o *redis.Options) { o.PoolSize = 1 },
		"":                func(*redis.Options) {},
	} {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Option().InitAddress, NewClient: func(o *redis.Options) *redis.Client {
			change(o)
			return redis.NewClient(o)
		}})
		t.Cleanup(func() { _ = c.Close() })
		d := open[string](t, c, slidingredis.Options{})
		_, get := d.Get(t.Context(), "k")
		if errors.Is(get, driver.ErrNotFound) {
			get = nil
		}
		_, segments := d.Segments(t.Context(), 1)
		for call, err := range map[string]error{"Get": get, "Segments": segments, "Check": d.Check(t.Context(), 0), "Delete": d.Delete(t.Context(), "k")} {
			if (name != "") != errors.Is(err, driver.ErrInvalid) || name == "" && err != nil || err != nil && !strings.Contains(err.Error(), name) {
				t.Errorf("%s by nodes with another %q: %v", call, name, err)
			}
		}
	}
}

// No call asks for the commands that a server has: go-redis asks any node, which may be silent, and all other
// calls wait for its answer.
func TestCommandsAreNotAsked(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[string](t, connect(t, &redis.UniversalOptions{Addrs: cluster.Option().InitAddress}), slidingredis.Options{})
	was := insert(t, d, "k")
	for _, call := range calls(d, was) {
		_ = call(t.Context()) // whatever the one before has left
	}
	_, err := d.GetMulti(t.Context(), []string{"k", "l"})
	ok(t, "GetMulti", err)
	ok(t, "Check", d.Check(t.Context(), 0))
	for _, n := range cluster.Nodes {
		stats, err := connect(t, &redis.UniversalOptions{Addrs: []string{n.Addr}}).Info(t.Context(), "commandstats").Result()
		ok(t, "INFO", err)
		if strings.Contains(stats, "cmdstat_command") {
			t.Errorf("a node was asked for COMMAND")
		}
	}
}

// A Get that asks for the time waits for no pipeline of a batch.
func TestGetBesideBatch(t *testing.T) {
	server := redistest.Start(t)
	hold := &held{begun: make(chan struct{}, 10), end: make(chan struct{})}
	c := connect(t, &redis.UniversalOptions{Addrs: []string{server.Addr}, PoolSize: 4})
	insert(t, open[string](t, c, slidingredis.Options{}), "k")
	c.AddHook(hold)
	d := open[string](t, c, slidingredis.Options{})
	var batch sync.WaitGroup
	batch.Go(func() {
		if _, err := d.GetMulti(t.Context(), []string{"with the time", "a", "b", "c"}); err != nil {
			t.Errorf("GetMulti: %v", err)
		}
	})
	<-hold.begun
	got := make(chan error, 1)
	other := open[string](t, c, slidingredis.Options{}) // has not asked for the time
	go func() {
		_, err := other.Get(t.Context(), "k")
		got <- err
	}()
	select {
	case err := <-got:
		ok(t, "Get beside a batch that takes its time", err)
	case <-time.After(10 * time.Second):
		t.Error("a Get waits for a batch")
	}
	close(hold.end)
	batch.Wait()
}

// Walks of a cluster share a node's bound: reads by key find connections beside many.
func TestWalksShareABound(t *testing.T) {
	cluster := redistest.StartCluster(t)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Option().InitAddress, PoolSize: 4})
	t.Cleanup(func() { _ = c.Close() })
	hold := held{begun: make(chan struct{}, 10), end: make(chan struct{})}
	c.OnNewNode(func(node *redis.Client) { node.AddHook(&hold) })
	d := open[string](t, c, slidingredis.Options{})
	insert(t, d, "k")
	segments, err := d.Segments(t.Context(), 1)
	ok(t, "Segments", err)
	var walks sync.WaitGroup
	walk := func(ctx context.Context) (err error) {
		for at := segments[0]; at != "" && err == nil; {
			var page driver.Page
			page, err = d.Scan(ctx, at, 100)
			at = page.Next
		}
		return err
	}
	walks.Go(func() { ok(t, "a walk", walk(t.Context())) })
	<-hold.begun
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	walks.Go(func() {
		if err := walk(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a walk beside one that takes the node's share: %v", err)
		}
	})
	<-ctx.Done()
	if n := len(hold.begun); n > 0 {
		t.Errorf("%d pipelines more than the node's share", n)
	}
	close(hold.end)
	walks.Wait()
}

// held is a hook that holds pipelines of three commands back until end is closed.
type held struct {
	breaker
	begun, end chan struct{}
}

func (held) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (h *held) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) == 3 {
			h.begun <- struct{}{}
			<-h.end
		}
		return next(ctx, cmds)
	}
}

// The first write of a process, and one half a minute after another, waits for no node that is silent beside its own.
func TestLearnBesideSilentNode(t *testing.T) {
	t.Run("rueidis", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		c := cluster.Client(t)
		testLearnBesideSilentNode(t, cluster, func() *slidingredis.Driver[string] {
			d, err := slidingredis.New[string](c, nil)
			ok(t, "New", err)
			return d
		})
	})
	t.Run("goredis", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		c := connect(t, &redis.UniversalOptions{Addrs: cluster.Option().InitAddress})
		testLearnBesideSilentNode(t, cluster, func() *slidingredis.Driver[string] { return open[string](t, c, slidingredis.Options{}) })
	})
}

func testLearnBesideSilentNode(t *testing.T, cluster *redistest.Cluster, driverOf func() *slidingredis.Driver[string]) {
	var all []*slidingredis.Driver[string]
	for i := range 12 {
		d := driverOf()
		insert(t, d, fmt.Sprint(i)) // its answer has the time
		all = append(all, d, driverOf())
	}
	silent := cluster.Nodes[1]
	admin := connect(t, &redis.UniversalOptions{Addrs: []string{silent.Addr}})
	ok(t, "CLIENT PAUSE", admin.Do(t.Context(), "CLIENT", "PAUSE", "600000", "ALL").Err())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for _, d := range all { // each asks
		ok(t, "Learn beside a silent node", d.Learn(ctx))
	}
	ok(t, "SHUTDOWN", silent.Close())
}
