package redis_test

import (
	"flag"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

var soakTime = flag.Duration("redis.soak", 6*time.Second, "how long TestSoak makes calls")

// Answers are lost, and in the middle a replica takes over.
func TestSoak(t *testing.T) {
	drivertest.RunSoak(t, *soakTime, func(t *testing.T) *drivertest.Soak {
		primary := redistest.Start(t)
		replica := primary.StartReplica(t)
		proxy := redistest.NewProxy(t)
		return &drivertest.Soak{
			Open: func() driver.Driver[drivertest.Diary] {
				return open[drivertest.Diary](t, redistest.NewClient(t, proxy.Option(primary.Option())), redis.Options{})
			},
			IdleGrace: 400 * time.Millisecond,
			Disturb:   func(int) { proxy.Lose(1) },
			Midway:    func() drivertest.Span { return failOver(t, primary, replica, proxy) },
			Straggler: time.Second,
		}
	})
}

// failOver makes the replica the primary of all clients. It returns the time in which answered
// writes may be lost: since the replica was last known to have everything.
func failOver(t *testing.T, primary, replica *redistest.Server, proxy *redistest.Proxy) (lost drivertest.Span) {
	admin := primary.Client(t)
	lost.Start = time.Now()
	ok(t, "WAIT", admin.Do(t.Context(), admin.B().Wait().Numreplicas(1).Timeout(0).Build()).Error())
	time.Sleep(20 * time.Millisecond) // some more is written
	replica.Promote(t)
	proxy.Redirect(primary.Addr, replica.Addr)
	ok(t, "Close", primary.Close())
	proxy.Cut()
	lost.End = time.Now()
	return lost
}
