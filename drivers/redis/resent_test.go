package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// rueidis resends what a connection left unanswered whose lifetime has ended (ConnLifetime). It
// documents that this does not apply to connections for blocking commands, by which writes go.
func TestWritesAreSentOnce(t *testing.T) {
	for name := range calls(nil, driver.Meta{}) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			d := open[profile](t, server.Client(t), redis.Options{})
			f := &fixture{server: server, client: &counting{Client: server.Client(t)}, d: d}
			_ = calls(d, f.record(t, secret).Meta)[name](t.Context()) // the server knows the script then
			f.command(t, "FLUSHDB")
			was := f.record(t, secret).Meta

			const lifetime = 50 * time.Millisecond
			option := server.Option()
			option.PipelineMultiplex = -1
			option.ConnLifetime = lifetime
			option.Dialer.KeepAlive = time.Minute // no PING except at a connection's end
			var armed atomic.Bool
			option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
				conn, err := dialer.DialContext(ctx, "tcp", address)
				return &deafConn{Conn: conn, armed: &armed}, err
			}
			d = open[profile](t, redistest.NewClient(t, option), redis.Options{})
			ok(t, "Learn", d.Learn(t.Context()))
			sent := f.called(t, "evalsha")
			armed.Store(true)
			ctx, cancel := context.WithTimeout(t.Context(), 20*lifetime)
			defer cancel()
			if err := calls(d, was)[name](ctx); !errors.Is(err, driver.ErrAmbiguous) {
				t.Errorf("a write whose answer does not come: %v; want %v", err, driver.ErrAmbiguous)
			}
			if n := f.called(t, "evalsha") - sent; armed.Load() || n != 1 {
				t.Errorf("it was sent %d times; want once", n)
			}
		})
	}
}

// deafConn is a connection that receives nothing once it has sent a script while armed, which
// only one does. It breaks when the client pings, at its lifetime's end.
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
