package redis_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
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

// A user who may only read reads, and is told of a write in the words of the driver, and not of a
// script: rights are for whoever runs the store to change.
func TestReadOnlyUser(t *testing.T) {
	f := newFixture(t, redis.Options{})
	e := f.record(t, secret)
	f.command(t, "ACL", "SETUSER", "reader", "on", "nopass", "~*", "+@read", "+@connection", "+evalsha", "+eval", "+time")
	o := f.server.Option()
	o.Username, o.Password = "reader", "any"
	d := open[profile](t, redistest.NewClient(t, o), redis.Options{})
	if got, err := d.Get(t.Context(), secret); err != nil || got != e {
		t.Errorf("Get: %+v, %v; want %+v", got, err, e)
	}
	if got, touched, err := d.ReadTouch(t.Context(), secret, nil, anAccess(), e.CreatedAt); err != nil || touched || got != e {
		t.Errorf("ReadTouch: %+v, %t, %v; want %+v", got, touched, err, e)
	}
	for name, call := range calls(d, e.Meta) {
		err := call(t.Context())
		if !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrAmbiguous) || strings.Contains(err.Error(), "script:") {
			t.Errorf("%s: %v; want %v, and nothing of the script", name, err, driver.ErrRefused)
		}
	}
}
