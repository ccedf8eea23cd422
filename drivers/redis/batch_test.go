package redis_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A batch of several pipelines returns what the answering nodes of a cluster have, although another node
// is silent until the batch's context ends.
func TestBatchBesideSilentNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	var keys []string
	for i := range 2600 { // more than four pipelines, all with keys of the silent node
		key := fmt.Sprint(i)
		keys = append(keys, key)
		_, err := d.Insert(t.Context(), key, profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
	}
	var admins []rueidis.Client
	for _, n := range cluster.Nodes {
		option := n.Option()
		option.ForceSingleClient = true
		admins = append(admins, redistest.NewClient(t, option))
	}
	ask := func(admin rueidis.Client, words ...string) string {
		text, err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).ToString()
		ok(t, words[0], err)
		return text
	}
	calls := func(admin rueidis.Client, of string) (n int) {
		_, stats, _ := strings.Cut(ask(admin, "INFO", "commandstats"), "cmdstat_"+of+":calls=")
		_, _ = fmt.Sscan(strings.ReplaceAll(stats, ",", " "), &n)
		return n
	}
	const silent = 1 // so that keys of answering nodes stand before and after its keys
	var want []string
	for _, key := range keys {
		if _, err := admins[silent].Do(t.Context(), admins[silent].B().Get().Key(key).Build()).ToString(); err != nil {
			want = append(want, key) // MOVED
		}
	}
	slices.Sort(want)
	if all, err := d.GetMulti(t.Context(), keys); err != nil || len(all) != len(keys) { // opens the connections
		t.Fatalf("GetMulti: %d of %d, %v", len(all), len(keys), err)
	}
	before := []int{calls(admins[0], "get"), 0, calls(admins[2], "get")}
	ask(admins[silent], "CLIENT", "PAUSE", "600000", "ALL")

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var found map[string]driver.Entry[profile]
	ended := make(chan error, 1)
	go func() {
		var err error
		found, err = d.GetMulti(ctx, keys)
		ended <- err
	}()
	// Both answer all GETs, and cancel comes after their answers.
	for n, hung := 0, time.Now().Add(20*time.Second); n < len(want); { // each turn asks both
		if time.Now().After(hung) {
			t.Fatalf("the nodes that answer were asked for %d of %d keys", n, len(want))
		}
		n = calls(admins[0], "get") - before[0] + calls(admins[2], "get") - before[2]
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
}

// A cluster may have a slot without a node (cluster-require-full-coverage no). A batch has no answer to its keys
// alone.
func TestBatchWithSlotWithoutNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, n := range cluster.Nodes {
		option := n.Option()
		option.ForceSingleClient = true
		admin := redistest.NewClient(t, option)
		ok(t, "CONFIG SET", admin.Do(t.Context(), admin.B().Arbitrary("CONFIG", "SET", "cluster-require-full-coverage", "no").Build()).Error())
		_ = admin.Do(t.Context(), admin.B().Arbitrary("CLUSTER", "DELSLOTS", "15495").Build()) // "already unassigned", where it was heard of
	}
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	keys := []string{"{a}"} // of slot 15495
	for i := range 30 {
		keys = append(keys, fmt.Sprint(i))
		_, err := d.Insert(t.Context(), keys[1+i], profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
	}
	if found, err := d.GetMulti(t.Context(), keys); len(found) != 30 || !errors.Is(err, rueidis.ErrNoSlot) {
		t.Errorf("GetMulti has %d of 30 records, and %v; want %v", len(found), err, rueidis.ErrNoSlot)
	}
}

// pipes answers pipelines after a while, or those with one of its keys when their context ends.
type pipes struct {
	redis.Client
	takes  time.Duration
	silent map[string]bool

	mu                    sync.Mutex // guards the following
	underWay, most, ended int
}

func (c *pipes) DoMulti(ctx context.Context, cs []redis.Command) []redis.Answer {
	c.mu.Lock()
	c.underWay++
	c.most = max(c.most, c.underWay)
	c.mu.Unlock()
	if slices.ContainsFunc(cs, func(cmd redis.Command) bool { return c.silent[cmd.Key] }) {
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return make([]redis.Answer, len(cs))
	}
	time.Sleep(c.takes)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underWay--
	c.ended++
	return slices.Repeat([]redis.Answer{{Kind: redis.Nil}}, len(cs))
}

// A large batch leaves room for other reads: it sends few pipelines at a time, but keeps none back for those
// that have no answer.
func TestPipelinesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys := make([]string, 20*500)
		for i := range keys {
			keys[i] = fmt.Sprint(i)
		}
		silent := map[string]bool{"0": true, "500": true, "1000": true, "1500": true}
		const slow = 300 * time.Millisecond
		for _, c := range []*pipes{{takes: time.Millisecond}, {takes: 150 * time.Millisecond}, {takes: slow}, {takes: time.Millisecond, silent: silent}} {
			d, err := redis.Over[profile](c, nil)
			ok(t, "Over", err)
			ctx, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			_, _ = d.GetMulti(ctx, keys)
			cancel()
			most := 4
			if c.takes == slow || c.silent != nil {
				most = 8
			}
			if want := 20 - len(c.silent); c.ended != want || c.most > most {
				t.Errorf("%d pipelines of %v have ended, up to %d at a time, beside %d silent ones; want %d, up to %d", c.ended, c.takes, c.most, len(c.silent), want, most)
			}
		}
	})
}
