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

// TestErrRefused: a failure that no retry can help is ErrRefused. rueidis itself reports a wrong
// password when it connects.
func TestErrRefused(t *testing.T) {
	f := newFixture(t, redis.Options{})
	f.command(t, "ACL", "SETUSER", "guest", "on", "nopass", "+ping", "+client", "+hello")
	o := f.server.Option()
	o.Username, o.Password = "guest", "any"
	drivertest.RunRefused(t, open[drivertest.Value](t, redistest.NewClient(t, o), redis.Options{}))
}

// A user with read rights can read. The error of a write is in the driver's words and not about a
// script, because an operator who reads it must change the rights.
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
		if !errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrAmbiguous) || strings.Contains(err.Error(), "user_script") {
			t.Errorf("%s: %v; want %v, and nothing of the script", name, err, driver.ErrRefused)
		}
	}
}
