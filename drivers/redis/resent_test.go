package redis_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

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
				return &deafConn{Conn: conn, after: "EVALSHA", armed: &armed}, err
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

// Nor does it where it sends a write anew to the node to which the key's slot moves.
func TestWritesToMovingSlotsAreSentOnce(t *testing.T) {
	cluster := redistest.StartCluster(t)
	plain := open[profile](t, cluster.Client(t), redis.Options{})
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
	for i := range 30 { // so that all nodes know the script
		_, err := plain.Insert(t.Context(), fmt.Sprint(i), profile{}, life, now)
		ok(t, "Insert", err)
	}
	moving(t, cluster, "k")
	var armed atomic.Bool
	option := cluster.Option()
	option.PipelineMultiplex, option.ConnLifetime, option.Dialer.KeepAlive = -1, 500*time.Millisecond, time.Minute
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		return &deafConn{Conn: conn, after: "ASKING", armed: &armed}, err
	}
	d := open[profile](t, redistest.NewClient(t, option), redis.Options{})
	ok(t, "Learn", d.Learn(t.Context()))
	armed.Store(true)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := d.Insert(ctx, "k", profile{}, life, now); armed.Load() || !errors.Is(err, driver.ErrAmbiguous) {
		t.Errorf("a write whose answer does not come: %v; want %v", err, driver.ErrAmbiguous)
	}
}

// moving makes the slot of key move from its node to another, and returns that one's client.
func moving(t *testing.T, cluster *redistest.Cluster, key string) (to rueidis.Client) {
	t.Helper()
	admins := clients(t, cluster)
	ask := func(admin rueidis.Client, words ...string) rueidis.RedisResult {
		res := admin.Do(t.Context(), admin.B().Arbitrary("CLUSTER").Args(words...).Build())
		ok(t, words[0], res.Error())
		return res
	}
	slot, err := ask(admins[0], "KEYSLOT", key).AsInt64()
	ok(t, "KEYSLOT", err)
	at := int(slot) * len(admins) / 16384
	from, to := admins[at], admins[(at+1)%len(admins)]
	fromID, err := ask(from, "MYID").ToString()
	ok(t, "MYID", err)
	toID, err := ask(to, "MYID").ToString()
	ok(t, "MYID", err)
	ask(to, "SETSLOT", fmt.Sprint(slot), "IMPORTING", fromID)
	ask(from, "SETSLOT", fmt.Sprint(slot), "MIGRATING", toID)
	return to
}

// deafConn is a connection that receives nothing once it has sent such a word while armed, which
// only one does. It breaks when the client pings, at its lifetime's end.
type deafConn struct {
	net.Conn
	after string
	armed *atomic.Bool
	deaf  atomic.Bool
}

func (c *deafConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(c.after)) && c.armed.CompareAndSwap(true, false) {
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
