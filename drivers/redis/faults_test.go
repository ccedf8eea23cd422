package redis_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// writes returns how many writing commands the server has executed.
func (f *fixture) writes(t testing.TB) int {
	t.Helper()
	return f.called(t, "set", "setrange", "pexpireat", "del")
}

// called returns how many commands of these names the server has executed.
func (f *fixture) called(t testing.TB, names ...string) (n int) {
	t.Helper()
	text, err := f.command(t, "INFO", "commandstats").ToString()
	ok(t, "INFO", err)
	for line := range strings.Lines(text) {
		for _, name := range names {
			var calls int
			if _, err := fmt.Sscanf(line, "cmdstat_"+name+":calls=%d", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}

// A write whose answer is lost returns ErrAmbiguous, and is not resent.
func TestLostAnswer(t *testing.T) {
	for name := range calls(nil, driver.Meta{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, redis.Options{})
			was := f.record(t, secret).Meta
			_ = calls(f.d, driver.Meta{Life: was.Life})[name](t.Context()) // the server knows the script then
			f.command(t, "DEL", secret+"new")
			if name == "Delete" {
				was = f.record(t, secret).Meta
			}
			call := calls(f.d, was)[name]
			before := f.writes(t)
			f.proxy.Lose(1)
			if err := call(t.Context()); !errors.Is(err, driver.ErrAmbiguous) || !errors.Is(err, io.EOF) {
				t.Errorf("an answer that is lost: %v; want %v and %v", err, driver.ErrAmbiguous, io.EOF)
			}
			want := 1
			if name == "Touch" {
				want = 2 // PEXPIREAT and SETRANGE
			}
			if n := f.writes(t) - before; n != want {
				t.Errorf("the server has written %d times; want %d", n, want)
			}
		})
	}
}

// So does a write whose answer does not come in time, and one whose caller has left.
func TestLateAnswer(t *testing.T) {
	for name := range calls(nil, driver.Meta{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, redis.Options{})
			call := calls(f.d, f.record(t, secret).Meta)[name]
			defer f.proxy.Hang()()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second) // the call is sent by then
			defer cancel()
			if err := call(ctx); !errors.Is(err, driver.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("an answer that is late: %v; want %v and %v", err, driver.ErrAmbiguous, context.DeadlineExceeded)
			}
			if err := call(ctx); errors.Is(err, driver.ErrAmbiguous) || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a context that had ended: %v; want %v and not %v", err, context.DeadlineExceeded, driver.ErrAmbiguous)
			}
		})
	}
}

// A call ends with its context while the server is silent, on a connection with pipelining or without, that is
// open or has to be opened.
func TestCallsEndWithTheirContexts(t *testing.T) {
	server := redistest.Start(t)
	plain := open[profile](t, server.Client(t), redis.Options{})
	was := (&fixture{d: plain}).record(t, secret).Meta
	all := func(d *redis.Driver[profile]) map[string]func(context.Context) error {
		all := calls(d, was)
		all["Get"] = func(ctx context.Context) error { _, err := d.Get(ctx, secret); return err }
		all["GetMulti"] = func(ctx context.Context) error { _, err := d.GetMulti(ctx, []string{"a", "b"}); return err }
		return all
	}
	for name := range all(plain) {
		for i := range 8 {
			alone, cancelled, used := i&1 != 0, i&2 != 0, i&4 != 0
			t.Run(fmt.Sprintf("%s, DisableAutoPipelining %t, cancelled %t, used %t", name, alone, cancelled, used), func(t *testing.T) {
				t.Parallel()
				proxy := redistest.NewProxy(t)
				option := proxy.Option(server.Option())
				option.DisableAutoPipelining, option.Dialer.Timeout, option.ConnWriteTimeout = alone, time.Hour, time.Hour
				d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // with a deadline, rueidis waits by itself
				defer cancel()
				ok(t, "Learn", d.Learn(ctx))
				call := all(d)[name]
				if used {
					_ = call(ctx)
				}
				defer proxy.Hang()()
				want := context.Canceled
				if time.AfterFunc(50*time.Millisecond, cancel); !cancelled {
					want = context.DeadlineExceeded
					ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
					defer cancel()
				}
				ended := make(chan error, 1)
				go func() { ended <- call(ctx) }()
				select {
				case err := <-ended:
					if !errors.Is(err, want) {
						t.Errorf("%v; want %v", err, want)
					}
				case <-time.After(8 * time.Second):
					t.Error("the call goes on after its context's end")
				}
			})
		}
	}
}

// A write that the server refuses, or that could not be sent, has not landed.
func TestRefused(t *testing.T) {
	f := newFixture(t, redis.Options{})
	was := f.record(t, secret).Meta
	f.command(t, "REPLICAOF", "127.0.0.1", "1")
	for name, call := range calls(f.d, was) {
		err := call(t.Context())
		if !own(err, "READONLY") || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%s at a replica: %v; want READONLY, not %v", name, err, driver.ErrAmbiguous)
		}
	}
	ok(t, "Close", f.server.Close())
	f.proxy.Cut()
	for name, call := range calls(f.d, was) {
		var network *net.OpError
		var err error
		for range 20 { // the client's connections find out one by one
			if err = call(t.Context()); errors.As(err, &network) && network.Op == "dial" {
				break
			}
		}
		if network == nil || network.Op != "dial" || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("%s without a server: %v; want that nobody listens, not %v", name, err, driver.ErrAmbiguous)
		}
	}
}

// A read does not fail because its touch cannot be written, nor because a script cannot run.
func TestReadTouchReads(t *testing.T) {
	for name, breakIt := range map[string]func(*fixture){
		"replica":         func(f *fixture) { f.command(t, "REPLICAOF", "127.0.0.1", "1") },
		"no scripts":      func(f *fixture) { f.command(t, "ACL", "SETUSER", "default", "-@scripting") },
		"an answer lost":  func(f *fixture) { f.proxy.Lose(1) },
		"connections cut": func(f *fixture) { f.proxy.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, redis.Options{})
			e := f.record(t, secret)
			breakIt(f)
			got, touched, err := f.d.ReadTouch(t.Context(), secret, nil, anAccess(), driver.Floor(time.Now()))
			again := name == "connections cut" && touched // the client had reconnected in time
			if err != nil || touched && !again || got.Value != e.Value {
				t.Errorf("ReadTouch: %+v, %t, %v; want what was inserted, not touched", got, touched, err)
			}
		})
	}
}

// Scripts come back after SCRIPT FLUSH, in one trip more.
func TestScriptFlush(t *testing.T) {
	f := newFixture(t, redis.Options{})
	was := f.record(t, secret).Meta
	for _, name := range []string{"Touch", "Insert"} {
		f.command(t, "SCRIPT", "FLUSH")
		ok(t, name, calls(f.d, was)[name](t.Context()))
	}
	f.command(t, "SET", "foreign", `{"name":"foreign"}`)
	f.command(t, "SCRIPT", "FLUSH")
	found, err := f.d.GetMulti(t.Context(), []string{"foreign"})
	if err != nil || found["foreign"].Value.Name != "foreign" {
		t.Errorf("GetMulti after SCRIPT FLUSH: %v, %v", found, err)
	}
}

// Reads go to the primary, and show what was written, though the client would send
// read-only commands to a replica.
func TestReadsGoToPrimaries(t *testing.T) {
	primary := redistest.Start(t)
	replica := primary.StartReplica(t)
	option := primary.Option()
	option.Standalone.ReplicaAddress = []string{replica.Addr}
	option.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
	client := redistest.NewClient(t, option)
	d := open[profile](t, client, redis.Options{})
	behind := replica.Client(t)
	ok(t, "REPLICAOF", behind.Do(t.Context(), behind.B().Replicaof().Host("127.0.0.1").Port(1).Build()).Error())
	f := &fixture{d: d}
	e := f.record(t, secret)
	if got, err := d.Get(t.Context(), secret); err != nil || got != e {
		t.Errorf("Get: %+v, %v; want %+v", got, err, e)
	}
	if got, err := d.GetMulti(t.Context(), []string{secret}); err != nil || got[secret] != e {
		t.Errorf("GetMulti: %+v, %v; want %+v", got, err, e)
	}
}

// No error's text holds a key, though the server quotes one.
func TestKeysStayOutOfErrors(t *testing.T) {
	f := newFixture(t, redis.Options{Prefix: "p:"})
	f.command(t, "LPUSH", "p:"+secret, "a list")
	f.command(t, "SET", "p:"+secret+"new", "not JSON")
	numbers := open[int](t, f.client, redis.Options{Prefix: "p:"})
	f.command(t, "SET", "p:number", "4111e99")
	server := redistest.StartVirtual(t)
	quoting := open[profile](t, server.Client(t), redis.Options{})
	server.Fail("ERR unknown command `evalsha`, with args beginning with: `" + secret + "`")
	now := driver.Floor(time.Now())
	was := driver.Meta{Life: driver.Life{CreatedAt: now, ExpiresAt: now + 1000}}
	errs := make(map[string]error)
	for name, d := range map[string]*redis.Driver[profile]{"wrong type": f.d, "quoted": quoting} {
		_, errs[name+", Get"] = d.Get(t.Context(), secret)
		_, errs[name+", GetMulti"] = d.GetMulti(t.Context(), []string{secret})
		for call, do := range calls(d, was) {
			errs[name+", "+call] = do(t.Context())
		}
	}
	_, errs["no JSON"] = f.d.Get(t.Context(), secret+"new")
	_, errs["number out of range"] = numbers.Get(t.Context(), "number")
	for name, err := range errs {
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "4111")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"wrong type, Get", "wrong type, GetMulti", "no JSON", "wrong type, Touch"} {
		if name != "wrong type, GetMulti" && !errors.Is(errs[name], driver.ErrInvalid) {
			t.Errorf("%s: %v; want %v", name, errs[name], driver.ErrInvalid)
		}
	}
}

// A server whose memory is full still executes touches, which need no memory, so sessions in use
// live on. It refuses writes that need memory, which then change nothing.
func TestFullMemory(t *testing.T) {
	for _, retain := range []time.Duration{0, time.Hour} {
		t.Run(fmt.Sprint(retain), func(t *testing.T) {
			f := newFixture(t, redis.Options{Retain: retain})
			e := f.record(t, secret)
			f.command(t, "SET", "theirs", `{"name":"theirs"}`, "EX", "600")
			theirs, err := f.d.Get(t.Context(), "theirs")
			ok(t, "Get", err)
			now := driver.Floor(time.Now())
			f.command(t, "CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")

			// stored wants the record to be e, for the driver and for the server.
			stored := func(when string) {
				t.Helper()
				_, expiry := f.stored(t, secret)
				if got, err := f.d.Get(t.Context(), secret); err != nil || got != e || expiry != int64(e.ExpiresAt.Add(retain)) {
					t.Errorf("%s: %+v until %d, %v; want %+v until %d", when, got, expiry, err, e, e.ExpiresAt.Add(retain))
				}
			}
			to := driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt.Add(time.Minute)}
			_, err = f.d.Touch(t.Context(), secret, e.Meta, to, now)
			ok(t, "Touch", err)
			e.Life = to
			stored("after Touch")
			got, touched, err := f.d.ReadTouch(t.Context(), secret, nil, anAccess(), now)
			if err != nil || !touched || got.ExpiresAt <= e.ExpiresAt {
				t.Errorf("ReadTouch: %+v, %t, %v; want it touched", got, touched, err)
			}
			e = got
			stored("after ReadTouch")

			for name, err := range map[string]error{
				"Replace":   calls(f.d, e.Meta)["Replace"](t.Context()),
				"Overwrite": calls(f.d, e.Meta)["Overwrite"](t.Context()),
				"adoption": func() error {
					_, err := f.d.Touch(t.Context(), "theirs", theirs.Meta, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
					return err
				}(),
			} {
				if !own(err, "OOM") || errors.Is(err, driver.ErrAmbiguous) {
					t.Errorf("%s: %v; want OOM", name, err)
				}
			}
			stored("after what was refused")
			if got, err := f.d.Get(t.Context(), "theirs"); err != nil || got != theirs {
				t.Errorf("another program's record: %+v, %v; want %+v", got, err, theirs)
			}

			past := driver.Life{CreatedAt: e.CreatedAt, ExpiresAt: now.Add(-2 * time.Hour)}
			_, err = f.d.Touch(t.Context(), secret, e.Meta, past, now)
			ok(t, "Touch to death", err)
			if got, err := f.d.Get(t.Context(), secret); !errors.Is(err, driver.ErrNotFound) {
				t.Errorf("after Touch to death: %+v, %v; want %v", got, err, driver.ErrNotFound)
			}
		})
	}
}

// broken is a client of which a hook panics, or ends its goroutine.
type broken struct {
	rueidis.Client
	exits bool
}

func (b broken) fail() {
	if b.exits {
		runtime.Goexit()
	}
	panic("a hook's bug")
}

func (b broken) Do(context.Context, rueidis.Completed) (none rueidis.RedisResult) {
	b.fail()
	return none
}

func (b broken) DoMulti(context.Context, ...rueidis.Completed) []rueidis.RedisResult {
	b.fail()
	return nil
}

// A hook that panics is the error of the call, on whichever goroutine it runs.
func TestHookThatPanics(t *testing.T) {
	f := newFixture(t, redis.Options{})
	was := f.record(t, secret).Meta
	for _, exits := range []bool{false, true} {
		for _, ctx := range []context.Context{t.Context(), context.Background()} {
			d := open[profile](t, broken{f.client, exits}, redis.Options{})
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
