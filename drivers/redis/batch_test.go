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
	"github.com/slidingttl/slidingttl/drivers/redis/internal/wire"
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
	admins := clients(t, cluster)
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

// So does a batch of many pipelines, which all have keys of the silent node, within its deadline.
func TestLargeBatchBesideSilentNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	silent := clients(t, cluster)[1]
	var keys, want []string
	for i := range 40_000 {
		keys = append(keys, fmt.Sprint(i))
		if i%100 > 0 {
			continue // no record
		}
		_, err := d.Insert(t.Context(), keys[i], profile{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		ok(t, "Insert", err)
		if silent.Do(t.Context(), silent.B().Get().Key(keys[i]).Build()).Error() != nil {
			want = append(want, keys[i]) // MOVED
		}
	}
	slices.Sort(want)
	if all, err := d.GetMulti(t.Context(), keys); err != nil || len(all) != len(keys)/100 { // opens the connections
		t.Fatalf("GetMulti: %d records, %v", len(all), err)
	}
	ok(t, "PAUSE", silent.Do(t.Context(), silent.B().Arbitrary("CLIENT", "PAUSE", "600000", "ALL").Build()).Error())
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	found, err := d.GetMulti(ctx, keys)
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("GetMulti beside a silent node has %d records, and %v; the other nodes have %d", len(got), err, len(want))
	}
}

// A batch of many pipelines ends soon after its context, also where all nodes are silent and connections to them
// have to be opened.
func TestLargeBatchEnds(t *testing.T) {
	cluster := redistest.StartCluster(t)
	proxy := redistest.NewProxy(t)
	option := proxy.Option(cluster.Option())
	option.Dialer.Timeout, option.ConnWriteTimeout = time.Hour, time.Hour
	d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
	ok(t, "Learn", d.Learn(t.Context()))
	keys := make([]string, 200_000)
	for i := range keys {
		keys[i] = fmt.Sprint(i)
	}
	defer proxy.Hang()()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := d.GetMulti(ctx, keys)
	if took := time.Since(began); took > 3*time.Second || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("GetMulti has taken %v, of which its context lasted 300 ms: %v", took, err)
	}
}

// A cluster may have a slot without a node (cluster-require-full-coverage no). A batch has no answer to its keys
// alone.
func TestBatchWithSlotWithoutNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	for _, admin := range clients(t, cluster) {
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

// pipes answers pipelines after a while, or when their context ends if they have a key of the silent node.
type pipes struct {
	wire.Client
	takes  time.Duration
	silent func(key string) bool

	mu                   sync.Mutex // guards the following
	underWay, most, sent int
	late                 bool // one was sent after its context's end
}

func (c *pipes) DoMulti(ctx context.Context, cs []wire.Command) []wire.Answer {
	c.mu.Lock()
	if cs[0].Key != "" { // it has no TIME
		c.sent++
		c.underWay++
		c.most = max(c.most, c.underWay)
		c.late = c.late || ctx.Err() != nil
	}
	c.mu.Unlock()
	if c.silent != nil && slices.ContainsFunc(cs, func(cmd wire.Command) bool { return c.silent(cmd.Key) }) {
		<-ctx.Done()
	} else {
		time.Sleep(c.takes)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cs[0].Key != "" {
		c.underWay--
	}
	return slices.Repeat([]wire.Answer{{Kind: wire.Nil}}, len(cs))
}

// A large batch leaves room for other reads: it sends few pipelines at a time. In a cluster it keeps none back
// for those of a silent node.
func TestPipelinesAtATime(t *testing.T) {
	const ms = time.Millisecond
	some := func(key string) bool { return slices.Contains([]string{"1", "501", "1001", "1501"}, key) }
	every := func(key string) bool { return strings.HasSuffix(key, "00") }
	for name, c := range map[string]struct {
		pipes                 *pipes
		within                time.Duration
		sent, atLeast, atMost int
	}{
		"fast":                       {&pipes{takes: ms}, time.Hour, 80, 4, 4},
		"150 ms":                     {&pipes{takes: 150 * ms}, time.Hour, 80, 4, 4},
		"slow":                       {&pipes{takes: 300 * ms}, time.Hour, 80, 8, 8},
		"some silent":                {&pipes{takes: ms, silent: some}, time.Second, 80, 8, 8},
		"a node is silent":           {&pipes{takes: ms, silent: every}, time.Second, 80, 80, 80},
		"a node is silent, 20 ms":    {&pipes{takes: ms, silent: every}, 20 * ms, 80, 80, 80},
		"a node is silent, canceled": {&pipes{takes: ms, silent: every}, 0, 32, 32, 32},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, err := redis.Over[profile](c.pipes, nil)
				ok(t, "Over", err)
				keys := make([]string, 80*500)
				for i := range keys {
					keys[i] = fmt.Sprint(i)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.within)
				if c.within == 0 {
					ctx, cancel = context.WithCancel(t.Context())
					time.AfterFunc(700*ms, cancel) // after three stalls
				}
				defer cancel()
				began := time.Now()
				_, err = d.GetMulti(ctx, keys)
				if took := time.Since(began); c.within > 0 && took > c.within || c.within == 0 && took != 700*ms {
					t.Errorf("GetMulti goes on for %v, although its context has ended: %v", took, err)
				}
				if p := c.pipes; p.sent != c.sent || p.most < c.atLeast || p.most > c.atMost || p.late {
					t.Errorf("%d pipelines, up to %d at a time, after the context's end %t; want %d, up to %d", p.sent, p.most, p.late, c.sent, c.atMost)
				}
			})
		})
	}
}
