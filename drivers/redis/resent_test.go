package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The client sends a write again whose answer has not come when the connection's lifetime
// ends. The second attempt finds the record of the first, and that is no conflict.
func TestResent(t *testing.T) {
	for _, name := range []string{"Insert", "Replace", "Overwrite"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			option := server.Option()
			option.PipelineMultiplex = -1
			option.ConnLifetime = 50 * time.Millisecond
			option.Dialer.KeepAlive = time.Minute // no PING but that of a connection's end
			var armed atomic.Bool
			option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				return &deafConn{Conn: conn, armed: &armed}, err
			}
			f := &fixture{server: server, client: &counting{Client: redistest.NewClient(t, option)}}
			f.d = open[profile](t, f.client, redis.Options{})
			was := f.record(t, secret).Meta
			_ = calls(f.d, driver.Meta{Life: was.Life})[name](t.Context()) // the server knows the script then
			f.command(t, "DEL", secret, secret+"new")
			was = f.record(t, secret).Meta

			sent, written := f.called(t, "evalsha"), f.writes(t)
			armed.Store(true)
			ok(t, name, calls(f.d, was)[name](t.Context()))
			if armed.Load() || f.called(t, "evalsha")-sent < 2 {
				t.Errorf("the script was sent %d times: the test proves nothing", f.called(t, "evalsha")-sent)
			}
			if n := f.writes(t) - written; name != "Overwrite" && n != 1 {
				t.Errorf("the server has written %d times; want once", n)
			}
		})
	}
}

// deafConn is a connection that hears nothing any more once it has sent a script while
// armed, which only one does. It breaks at its lifetime's end, when the client sends a PING.
type deafConn struct {
	net.Conn
	armed *atomic.Bool
	deaf  atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("EVALSHA")) && c.armed.CompareAndSwap(true, false) {
		c.deaf.Store(true)
	} else if c.deaf.Load() && bytes.Contains(p, []byte("PING")) {
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
