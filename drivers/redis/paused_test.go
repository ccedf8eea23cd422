package redis_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A server that holds back writes, as during a failover, still answers reads, also those behind
// more writes than the driver sends at once. Writes that it has not sent end with their contexts,
// and have not landed.
func TestReadsWhileWritesArePaused(t *testing.T) {
	t.Run("single", func(t *testing.T) {
		server := redistest.Start(t)
		testPaused(t, open[profile](t, server.Client(t), redis.Options{}), server)
	})
	t.Run("cluster", func(t *testing.T) {
		cluster := redistest.StartCluster(t)
		testPaused(t, open[profile](t, cluster.Client(t), redis.Options{}), cluster.Nodes...)
	})
}

func testPaused(t *testing.T, d *redis.Driver[profile], nodes ...*redistest.Server) {
	const keys = 400
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute)}
	for i := range keys {
		_, err := d.Insert(t.Context(), fmt.Sprint(i), profile{"kept"}, life, now)
		ok(t, "Insert", err)
	}
	all := func(words ...string) (answers []string) {
		t.Helper()
		for _, n := range nodes {
			option := n.Option()
			admin := redistest.NewClient(t, option)
			text, err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).ToString()
			ok(t, words[0], err)
			answers = append(answers, text)
		}
		return answers
	}
	for _, n := range nodes {
		admin := n.Client(t)
		_ = admin.Do(t.Context(), admin.B().Set().Key("{theirs}").Value(`{"name":"theirs"}`).Build()) // one node takes it
	}
	all("CLIENT", "PAUSE", "120000", "WRITE")
	writes, cancel := context.WithCancel(t.Context())
	ended := make(chan error, keys)
	for i := range keys {
		go func() {
			_, touched, err := d.ReadTouch(writes, fmt.Sprint(i), nil, anAccess(), now)
			if touched {
				err = errors.New("touched by a server that holds back writes")
			}
			ended <- err
		}()
	}
	for blocked := 0; blocked < 20; time.Sleep(time.Millisecond) {
		blocked = 0
		for _, info := range all("INFO", "clients") {
			var n int
			_, rest, _ := strings.Cut(info, "blocked_clients:")
			_, _ = fmt.Sscan(rest, &n)
			blocked += n
		}
	}
	ctx, late := context.WithTimeout(t.Context(), 20*time.Second)
	defer late()
	for i := range keys {
		_, err := d.Get(ctx, fmt.Sprint(i))
		ok(t, "Get", err)
	}
	_, err := d.Get(ctx, "{theirs}")
	ok(t, "Get of another program's record", err)
	found, err := d.GetMulti(ctx, []string{"1", "2", "3", "{theirs}"})
	if err != nil || len(found) != 4 {
		t.Errorf("GetMulti: %v, %v", found, err)
	}
	_, err = d.Raw(ctx, "4")
	ok(t, "Raw", err)
	cancel()
	for range keys {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a touch that was given up: %v", err)
		}
	}
	unsent, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Delete(unsent, "1"); errors.Is(err, driver.ErrAmbiguous) || !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was never sent: %v", err)
	}
	all("CLIENT", "UNPAUSE")
	_, err = d.Touch(t.Context(), "5", readMeta(t, d, "5"), life, now)
	ok(t, "Touch afterwards", err)
}

func readMeta(t *testing.T, d *redis.Driver[profile], key string) driver.Meta {
	t.Helper()
	e, err := d.Get(t.Context(), key)
	ok(t, "Get", err)
	return e.Meta
}

// Outside a cluster a {tag} in the prefix does not bound the writes under way.
func TestTaggedPrefixAlone(t *testing.T) {
	server := redistest.Start(t)
	d := open[profile](t, server.Client(t), redis.Options{Prefix: "{s}:"})
	ok(t, "Learn", d.Learn(t.Context()))
	admin := server.Client(t)
	ok(t, "CLIENT PAUSE", admin.Do(t.Context(), admin.B().Arbitrary("CLIENT", "PAUSE", "120000", "WRITE").Build()).Error())
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	ended := make(chan error)
	const writes = 20
	for i := range writes {
		go func() { ended <- d.Delete(ctx, fmt.Sprint(i)) }()
	}
	for ctx.Err() == nil {
		info, err := admin.Do(t.Context(), admin.B().Info().Section("clients").Build()).ToString()
		ok(t, "INFO", err)
		if strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r\n", writes)) {
			break
		}
	}
	if ctx.Err() != nil {
		t.Errorf("the server does not get %d writes at a time", writes)
	}
	ok(t, "CLIENT UNPAUSE", admin.Do(t.Context(), admin.B().Arbitrary("CLIENT", "UNPAUSE").Build()).Error())
	cancel()
	for range writes {
		<-ended
	}
}

// A node that holds back writes holds back no reads, where rueidis sends a write anew to it because the key's
// slot moves there.
func TestReadsBesideWritesToMovingSlots(t *testing.T) {
	cluster := redistest.StartCluster(t)
	to := moving(t, cluster, "k")
	option := cluster.Option()
	option.PipelineMultiplex = -1
	d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	var key string // of the node to which the slot moves
	for i := 0; key == ""; i++ {
		_, err := d.Insert(t.Context(), fmt.Sprint(i), profile{}, life, now)
		ok(t, "Insert", err)
		if to.Do(t.Context(), to.B().Get().Key(fmt.Sprint(i)).Build()).Error() == nil {
			key = fmt.Sprint(i)
		}
	}
	ok(t, "PAUSE", to.Do(t.Context(), to.B().Arbitrary("CLIENT", "PAUSE", "60000", "WRITE").Build()).Error())
	writes, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := d.Insert(writes, "k", profile{}, life, now)
		ended <- err
	}()
	blocked(t, to, 1)
	ctx, late := context.WithTimeout(t.Context(), 5*time.Second)
	defer late()
	_, err := d.Get(ctx, key)
	ok(t, "Get beside a write that the server holds back", err)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a write that was given up: %v", err)
	}
}

// A node that holds back writes holds back none to other nodes.
func TestWritesBesidePausedNode(t *testing.T) {
	cluster := redistest.StartCluster(t)
	d := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	paused := clients(t, cluster)[1]
	var there, elsewhere []string // keys
	for i := range 200 {
		key := fmt.Sprint(i)
		_, err := d.Insert(t.Context(), key, profile{}, life, now)
		ok(t, "Insert", err)
		if paused.Do(t.Context(), paused.B().Get().Key(key).Build()).Error() == nil {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	ok(t, "PAUSE", paused.Do(t.Context(), paused.B().Arbitrary("CLIENT", "PAUSE", "60000", "WRITE").Build()).Error())
	writes, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	for _, key := range there {
		held.Go(func() { _ = d.Delete(writes, key) })
	}
	blocked(t, paused, 24)
	ctx, late := context.WithTimeout(t.Context(), 5*time.Second)
	defer late()
	for _, key := range elsewhere[:20] {
		ok(t, "a write to another node", d.Delete(ctx, key))
	}
	cancel()
	held.Wait()
}

// blocked waits until a server holds back n writes.
func blocked(t *testing.T, admin rueidis.Client, n int) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 5*time.Second; {
		info, err := admin.Do(t.Context(), admin.B().Info().Section("clients").Build()).ToString()
		ok(t, "INFO", err)
		var now int
		_, rest, _ := strings.Cut(info, "blocked_clients:")
		if _, _ = fmt.Sscan(rest, &now); now >= n {
			return
		}
	}
	t.Fatalf("the server does not hold back %d writes", n)
}

// Writes whose context has ended, as of a Check that gives up, keep no place from the later ones.
func TestEndedWritesKeepNoPlace(t *testing.T) {
	f := newFixture(t, redis.Options{})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2000 {
		if err := f.d.Delete(ended, "k"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		_ = f.d.Check(ended, 0)
	}
	ctx, late := context.WithTimeout(t.Context(), 5*time.Second)
	defer late()
	ok(t, "Delete", f.d.Delete(ctx, "k"))
}
