package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The client resends a write whose answer has not come when the connection's lifetime ends. The
// second attempt finds the first one's result, or what another client has written since. The
// write returns what happened, or ErrAmbiguous.
func TestResent(t *testing.T) {
	other := func(ctx context.Context, d *redis.Driver[profile], key string) error {
		now := driver.Floor(time.Now())
		if err := d.Delete(ctx, key); err != nil {
			return err
		}
		_, err := d.Insert(ctx, key, profile{"other"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
		return err
	}
	gone := func(ctx context.Context, d *redis.Driver[profile], key string) error { return d.Delete(ctx, key) }
	for name, c := range map[string]struct {
		call  string
		since func(ctx context.Context, d *redis.Driver[profile], key string) error // between the attempts
		want  error
	}{
		"Insert":                 {call: "Insert"},
		"Replace":                {call: "Replace"},
		"Overwrite":              {call: "Overwrite"},
		"Touch":                  {call: "Touch"},
		"Touch that adopts":      {call: "Touch"},
		"Delete":                 {call: "Delete"},
		"Remove":                 {call: "Remove", want: driver.ErrAmbiguous},
		"Insert, there before":   {call: "Insert", want: driver.ErrConflict},
		"Insert, overwritten":    {call: "Insert", since: other, want: driver.ErrAmbiguous},
		"Replace, overwritten":   {call: "Replace", since: other, want: driver.ErrAmbiguous},
		"Overwrite, overwritten": {call: "Overwrite", since: other},
		"Touch, overwritten":     {call: "Touch", since: other, want: driver.ErrAmbiguous},
		"Remove, overwritten":    {call: "Remove", since: other, want: driver.ErrAmbiguous},
		"Replace, deleted":       {call: "Replace", since: gone, want: driver.ErrAmbiguous},
		"Touch, deleted":         {call: "Touch", since: gone, want: driver.ErrAmbiguous},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			d := open[profile](t, server.Client(t), redis.Options{})
			f := &fixture{server: server, client: &counting{Client: server.Client(t)}, d: d}
			_ = calls(d, f.record(t, secret).Meta)[c.call](t.Context()) // the server knows the script then
			f.command(t, "FLUSHDB")
			was := f.record(t, secret).Meta
			if name == "Touch that adopts" {
				f.command(t, "SET", secret, `{"name":"theirs"}`, "EX", "600")
				e, err := d.Get(t.Context(), secret)
				ok(t, "Get", err)
				was = e.Meta
			}
			key := secret
			if c.call == "Insert" {
				key += "new"
			}
			there := c.want == driver.ErrConflict
			if there { // long before the first attempt
				now := driver.Floor(time.Now())
				_, err := d.Insert(t.Context(), key, profile{"there"}, driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour)}, now)
				ok(t, "Insert", err)
			}

			option := server.Option()
			option.PipelineMultiplex = -1
			option.ConnLifetime = 50 * time.Millisecond
			option.Dialer.KeepAlive = time.Minute // no PING except at a connection's end
			var armed atomic.Bool
			sent, written := f.called(t, "evalsha"), f.writes(t)
			between := func() {
				for f.called(t, "evalsha") == sent { // the first attempt is on its way
					runtime.Gosched()
				}
				if c.since != nil {
					ok(t, "another writer", c.since(t.Context(), d, key))
					sent = f.called(t, "evalsha") - 1
				}
			}
			option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				return &deafConn{Conn: conn, armed: &armed, end: between}, err
			}
			resending := open[profile](t, redistest.NewClient(t, option), redis.Options{})
			ok(t, "Learn", resending.Learn(t.Context()))
			armed.Store(true)
			err := calls(resending, was)[c.call](t.Context())
			if !errors.Is(err, c.want) || errors.Is(err, driver.ErrConflict) != there || errors.Is(err, driver.ErrNotFound) {
				t.Errorf("%s: %v; want %v", name, err, c.want)
			}
			if armed.Load() || f.called(t, "evalsha")-sent != 2 {
				t.Errorf("it was sent %d times: the test proves nothing", f.called(t, "evalsha")-sent)
			}
			if n := f.writes(t) - written; (c.call == "Insert" || c.call == "Replace") && c.since == nil && !there && n != 1 {
				t.Errorf("the server has written %d times; want once", n)
			}
		})
	}
}

// deafConn is a connection that receives nothing once it has sent a script while armed, which
// only one does. It breaks at its lifetime's end, when the client sends a PING.
type deafConn struct {
	net.Conn
	armed *atomic.Bool
	end   func() // before it breaks
	deaf  atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("EVALSHA")) && c.armed.CompareAndSwap(true, false) {
		c.deaf.Store(true)
	} else if c.deaf.Load() && bytes.Contains(p, []byte("PING")) {
		c.end()
		_ = c.Conn.Close()
	}
	return c.Conn.Write(p)
}

func (c *deafConn) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}
