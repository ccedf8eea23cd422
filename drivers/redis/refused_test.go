package redis_test

import (
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// TestErrRefused: what no other attempt changes says so. rueidis itself finds a wrong password,
// as it connects.
func TestErrRefused(t *testing.T) {
	f := newFixture(t, redis.Options{})
	f.command(t, "ACL", "SETUSER", "guest", "on", "nopass", "+ping", "+client", "+hello")
	o := f.server.Option()
	o.Username, o.Password = "guest", "any"
	drivertest.RunRefused(t, open[drivertest.Value](t, redistest.NewClient(t, o), redis.Options{}))
}
