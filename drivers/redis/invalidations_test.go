package redis_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// forgetter sends the keys that it is to forget, or "all".
type forgetter chan string

func (f forgetter) Forget(key string) { f <- key }
func (f forgetter) ForgetAll()        { f <- "all" }

// received wants what to be the next push to f.
func (f forgetter) received(t *testing.T, when, what string) {
	t.Helper()
	select {
	case got := <-f:
		if got != what {
			t.Errorf("%s: told of %q; want %q", when, got, what)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: not told of %q", when, what)
	}
}

// Keys that others write or delete, or that expire, are pushed to clients that have read them,
// without the prefix. After a lost connection all keys are doubtful.
func TestInvalidations(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t)
	var pushed redis.Invalidations
	asked := make(chan bool, 100)
	option := proxy.Option(server.Option())
	option.PipelineMultiplex = -1 // one connection
	option.DisableAutoPipelining = true
	option.OnInvalidations = func([]rueidis.RedisMessage) {
		asked <- true
		panic("a hook's bug")
	}
	client := redistest.NewClient(t, pushed.Track(option))
	here := open[profile](t, client, redis.Options{Prefix: "here:"})
	elsewhere := open[profile](t, server.Client(t), redis.Options{Prefix: "here:"})

	tier, other := make(forgetter, 100), make(forgetter, 100)
	pushed.Tell("here:", tier)
	pushed.Tell("there:", other)
	tier.received(t, "at first", "all")
	other.received(t, "at first", "all")

	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	version, err := elsewhere.Insert(t.Context(), secret, profile{"first"}, life, now)
	ok(t, "Insert elsewhere", err)
	was := driver.Meta{Life: life, Version: version}
	read := func() {
		t.Helper()
		_, err := here.Get(t.Context(), secret)
		ok(t, "Get", err)
	}

	read()
	was.ExpiresAt = was.ExpiresAt.Add(time.Hour)
	was.Version, err = elsewhere.Touch(t.Context(), secret, driver.Meta{Life: life, Version: version}, was.Life, now)
	ok(t, "Touch elsewhere", err)
	tier.received(t, "after a touch", secret)

	_, err = here.GetMulti(t.Context(), []string{secret})
	ok(t, "GetMulti", err)
	was.Version, err = elsewhere.Replace(t.Context(), secret, profile{"second"}, was, was.Life, now)
	ok(t, "Replace elsewhere", err)
	tier.received(t, "after a write", secret)

	_, _, err = here.ReadTouch(t.Context(), secret, nil, driver.Access{Most: 1}, now)
	ok(t, "ReadTouch", err)
	ok(t, "Delete elsewhere", elsewhere.Delete(t.Context(), secret))
	tier.received(t, "after a deletion", secret)

	soon := driver.Life{CreatedAt: now, ExpiresAt: driver.Floor(time.Now()).Add(2 * time.Second)}
	_, err = elsewhere.Insert(t.Context(), secret, profile{"third"}, soon, now)
	ok(t, "Insert elsewhere", err)
	read()
	tier.received(t, "after it expired", secret)

	proxy.Cut()
	tier.received(t, "after the connection was lost", "all")
	other.received(t, "after the connection was lost", "all")
	for len(other) > 0 { // each lost connection is told of
		if got := <-other; got != "all" {
			t.Errorf("told of a key without its prefix: %q", got)
		}
	}
	if len(asked) < 5 {
		t.Errorf("the client's own hook was called %d times; want 5 or more", len(asked))
	}
}
