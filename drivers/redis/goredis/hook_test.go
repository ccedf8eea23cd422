package goredis_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"testing"

	"github.com/redis/go-redis/v9"

	slidingredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var errOpen = errors.New("circuit breaker is open")

// breaker is a hook that sends nothing on and returns err, as circuit breakers and rate limiters do.
type breaker struct{ err error }

func (breaker) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (b breaker) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return b.err }
}

func (b breaker) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return b.err }
}

// long is a hook that refuses pipelines of more than ten commands.
type long struct{ breaker }

func (long) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b long) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 10 {
			return b.err
		}
		return next(ctx, cmds)
	}
}

// Not found is the server's answer. A command that was never sent has none, and go-redis does not tell each
// command of a pipeline why.
func TestUnsentIsNotAbsent(t *testing.T) {
	server, cluster := redistest.Start(t), redistest.StartCluster(t)
	one, all := &redis.UniversalOptions{Addrs: []string{server.Addr}}, &redis.UniversalOptions{Addrs: cluster.Option().InitAddress}
	for _, o := range []*redis.UniversalOptions{one, all} {
		d := open[string](t, connect(t, o), slidingredis.Options{})
		for _, key := range []string{"a", "b", "c", "d"} {
			insert(t, d, key)
		}
	}
	admin := connect(t, one)
	ok(t, "ACL", admin.Do(t.Context(), "ACL", "SETUSER", "app", "on", ">new", "~*", "+@all").Err())
	ok(t, "ACL", admin.Do(t.Context(), "ACL", "SETUSER", "noselect", "on", "nopass", "~*", "+@all", "-select").Err())
	hooked := func(o *redis.UniversalOptions, hook redis.Hook) redis.UniversalClient {
		c := connect(t, o)
		c.AddHook(hook)
		return c
	}
	for name, c := range map[string]struct {
		client redis.UniversalClient
		want   error
	}{
		"a wrong password":       {connect(t, &redis.UniversalOptions{Addrs: one.Addrs, Username: "app", Password: "old"}), driver.ErrRefused},
		"no right to SELECT":     {connect(t, &redis.UniversalOptions{Addrs: one.Addrs, Username: "noselect", Password: "any", DB: 1}), driver.ErrRefused},
		"a hook":                 {hooked(one, breaker{errOpen}), errOpen},
		"a hook in a cluster":    {hooked(all, breaker{errOpen}), errOpen},
		"a hook without error":   {hooked(one, breaker{}), nil},
		"a hook that says Nil":   {hooked(one, breaker{errors.Join(errOpen, redis.Nil)}), nil},
		"a hook of long batches": {hooked(one, long{breaker{errOpen}}), errOpen},
	} {
		d := open[string](t, c.client, slidingredis.Options{})
		calls := map[string]func() (any, error){
			"Get":      func() (any, error) { return d.Get(t.Context(), "a") }, // its pipeline asks for the time
			"GetMulti": func() (any, error) { return d.GetMulti(t.Context(), []string{"a", "b"}) },
			"Scan": func() (any, error) {
				from, err := d.Segments(t.Context(), 1)
				if err != nil {
					return nil, err
				}
				return d.Scan(t.Context(), from[0], 100)
			},
			"Check": func() (any, error) { return nil, d.Check(t.Context(), 0) },
		}
		for call, do := range calls {
			if short := name == "a hook of long batches"; short && call != "Scan" {
				continue
			}
			if name == "a hook that says Nil" && call != "GetMulti" {
				continue // a Get by itself cannot tell it from the server's answer
			}
			got, err := do()
			if err == nil || errors.Is(err, driver.ErrNotFound) || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("%s: %s: %+v, %v; want an error, %v", name, call, got, err, c.want)
			}
		}
	}
}

// broken is a hook that panics, or ends its goroutine.
type broken struct {
	breaker
	exits bool
}

func (b broken) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return b.fail() }
}

func (b broken) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return b.fail() }
}

func (b broken) fail() error {
	if b.exits {
		runtime.Goexit()
	}
	panic("a hook's bug")
}

// A hook that panics is the error of the call, on whichever goroutine it runs.
func TestHookThatPanics(t *testing.T) {
	server := redistest.Start(t)
	was := insert(t, open[string](t, connect(t, &redis.UniversalOptions{Addrs: []string{server.Addr}}), slidingredis.Options{}), "k")
	for _, exits := range []bool{false, true} {
		c := connect(t, &redis.UniversalOptions{Addrs: []string{server.Addr}})
		c.AddHook(broken{exits: exits})
		for _, ctx := range []context.Context{t.Context(), context.Background()} {
			d := open[string](t, c, slidingredis.Options{})
			all := calls(d, was)
			for name, call := range all {
				if err := call(ctx); !errors.Is(err, driver.ErrAmbiguous) {
					t.Errorf("%s, exits %t: %v; want %v", name, exits, err, driver.ErrAmbiguous)
				}
			}
			all["Learn"] = d.Learn
			all["Get"] = func(ctx context.Context) error { _, err := d.Get(ctx, "k"); return err }
			all["GetMulti"] = func(ctx context.Context) error { _, err := d.GetMulti(ctx, []string{"k", "l", "m"}); return err }
			all["Check"] = func(ctx context.Context) error { return d.Check(ctx, 0) }
			for name, call := range all {
				err := call(ctx)
				if _, told := errors.AsType[*driver.PanicError](err); err == nil || told == exits {
					t.Errorf("%s, exits %t: %v", name, exits, err)
				}
			}
		}
	}
}
