package redis_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("redis.soak", 3*time.Second, "how long TestSoak makes calls")

// Several processes read, write and delete some keys, while answers are lost and in the
// middle a replica takes over. What their answers say must fit together.
func TestSoak(t *testing.T) {
	for _, slack := range []time.Duration{0, 100 * time.Millisecond} {
		policy := slidingttl.Policy{IdleGrace: 400 * time.Millisecond, MaxLifetime: 1600 * time.Millisecond, Slack: slack}
		t.Run(fmt.Sprint("slack ", slack), func(t *testing.T) { soak(t, policy) })
	}
}

func soak(t *testing.T, policy slidingttl.Policy) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	proxy := redistest.NewProxy(t)
	s := &drivertest.Soak{Policy: policy, Resolution: time.Millisecond, Straggler: time.Second}
	var stores []*slidingttl.Store[drivertest.Diary]
	for range 3 {
		d := open[drivertest.Diary](t, redistest.NewClient(t, proxy.Option(primary.Option())), redis.Options{})
		store, err := slidingttl.New(d, policy, &slidingttl.Options[drivertest.Diary]{Now: time.Now})
		ok(t, "slidingttl.New", err)
		defer store.Close(t.Context())
		stores = append(stores, store)
	}
	ctx, stop := context.WithTimeout(t.Context(), *soakTime)
	defer stop()
	var busy sync.WaitGroup
	busy.Go(func() { s.Run(ctx, stores...) })
	busy.Go(func() {
		for ctx.Err() == nil {
			proxy.Lose(1)
			wait(ctx, 10*time.Millisecond)
		}
	})
	wait(ctx, *soakTime/2)
	lost := failOver(t, primary, replica, proxy)
	busy.Wait()
	s.Judge(t, lost)
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// failOver makes the replica the primary of all clients, and returns when what was
// answered may be lost: since the replica was last known to have everything.
func failOver(t *testing.T, primary, replica *redistest.Server, proxy *redistest.Proxy) (lost drivertest.Span) {
	admin := primary.Client(t)
	lost.Start = time.Now()
	ok(t, "WAIT", admin.Do(t.Context(), admin.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())
	wait(t.Context(), 20*time.Millisecond) // some more is written
	replica.Promote(t)
	proxy.Redirect(primary.Addr, replica.Addr)
	ok(t, "Close", primary.Close())
	proxy.Cut()
	lost.End = time.Now()
	return lost
}
