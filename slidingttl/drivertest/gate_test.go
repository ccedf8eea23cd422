package drivertest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// The case decides whether a write over HTTP is delivered, and whether it is answered. Reads pass.
func TestGateTransport(t *testing.T) {
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			came.Add(1)
		}
	}))
	defer server.Close()
	var g Gate
	client := &http.Client{Transport: g.Transport(http.DefaultTransport, func(r *http.Request) bool { return r.Method == http.MethodPut })}
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	send := func(method string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err == nil {
			err = res.Body.Close()
		}
		return err
	}
	for _, c := range []struct {
		deliver bool
		answer  Answer
	}{{true, Answered}, {true, Reset}, {false, Reset}} {
		came.Store(0)
		g.stop(func(deliver func()) Answer {
			if c.deliver {
				deliver()
			}
			return c.answer
		})
		if err := send(http.MethodGet); err != nil {
			t.Errorf("%+v: a read: %v", c, err)
		}
		if err := send(http.MethodPut); errors.Is(err, syscall.ECONNRESET) != (c.answer == Reset) {
			t.Errorf("%+v: a write: %v", c, err)
		}
		if (came.Load() == 1) != c.deliver {
			t.Errorf("%+v: %d writes came", c, came.Load())
		}
		if err := send(http.MethodPut); err != nil {
			t.Errorf("%+v: the next write: %v", c, err)
		}
	}
}

// The same over a connection of a protocol in which the client writes first.
func TestGateConn(t *testing.T) {
	for _, c := range []struct {
		deliver bool
		answer  Answer
		want    string // what the client reads
	}{{true, Answered, "echo set "}, {true, Reset, ""}, {false, Reset, ""}, {true, Silent, ""}} {
		near, server, err := pair()
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		echoed := make(chan struct{})
		go func() {
			defer close(echoed)
			defer func() { _ = server.Close() }()
			buffer := make([]byte, 100)
			for {
				n, err := server.Read(buffer)
				if err != nil {
					return
				}
				got.Write(buffer[:n])
				_, _ = server.Write(append([]byte("echo "), buffer[:n]...))
			}
		}()
		var g Gate
		conn, err := g.Conn(near, func(p []byte) bool { return bytes.HasPrefix(p, []byte("set")) })
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		g.stop(func(deliver func()) Answer {
			defer close(answered)
			if c.deliver {
				deliver()
			}
			return c.answer
		})
		buffer := make([]byte, 100)
		for _, text := range []string{"get ", "set "} {
			if _, err := io.WriteString(conn, text); err != nil {
				t.Fatal(err)
			}
			if text == "get " || c.want != "" {
				if n, err := conn.Read(buffer); err != nil || string(buffer[:n]) != "echo "+text {
					t.Errorf("%+v: %q is answered %q, %v", c, text, buffer[:n], err)
				}
			}
		}
		<-answered
		if c.answer == Reset {
			if _, err := conn.Read(buffer); err == nil || errors.Is(err, net.ErrClosed) {
				t.Errorf("%+v: the error is %v; want that of a broken connection", c, err)
			}
		}
		_ = conn.Close()
		<-echoed
		if delivered := strings.Contains(got.String(), "set"); delivered != c.deliver {
			t.Errorf("%+v: the server got %q", c, got.String())
		}
	}
}
