package cosmostest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync/atomic"
)

// listener returns connections that can fail as a [Fault] says.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

// conn is a connection.
type conn struct {
	net.Conn
	silent atomic.Bool
	code   atomic.Uint32 // of the next RST_STREAM; zero: the server's own
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

func connOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }

// Read drops what arrives on a silent connection.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for c.silent.Load() {
		if err != nil {
			return 0, io.EOF
		}
		_, err = c.Conn.Read(p)
	}
	return n, err
}

// Write drops what is written to a silent connection.
func (c *conn) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	const length, place = 13, 9 // of an RST_STREAM frame, and the offset of its code
	reset := bytes.Index(p, []byte{0, 0, 4, 3, 0})
	if reset < 0 || reset+length > len(p) {
		return c.Conn.Write(p)
	}
	if code := c.code.Swap(0); code != 0 {
		p = bytes.Clone(p)
		p[reset+place+3] = byte(code)
	}
	return c.Conn.Write(p)
}
