package web

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes listens in memory, for one client.
type pipes struct {
	server, client net.Conn
	accepted       bool
	closed         chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	if !p.accepted {
		p.accepted = true
		return p.server, nil
	}
	<-p.closed
	return nil, net.ErrClosed
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return p.server.LocalAddr() }

// TestServe: Serve waits for the request that is under way when ctx ends, for 10 s, and not just for the listener:
// its caller closes the store then.
func TestServe(t *testing.T) {
	for _, lasts := range []time.Duration{9 * time.Second, 11 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			ctx, end := context.WithCancel(t.Context())
			s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				end()
				select {
				case <-time.After(lasts):
					_, _ = io.WriteString(w, "done")
				case <-r.Context().Done():
				}
			})}
			l := &pipes{closed: make(chan struct{})}
			l.server, l.client = net.Pipe()
			began, served := time.Now(), make(chan time.Duration, 1)
			go func() {
				if err := Serve(ctx, s, func() error { return s.Serve(l) }); err != nil {
					t.Errorf("Serve: %v", err)
				}
				served <- time.Since(began)
			}()
			transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return l.client, nil }}
			defer transport.CloseIdleConnections()
			r, err := (&http.Client{Transport: transport}).Get("http://server/")
			answered := err == nil
			if answered {
				_ = r.Body.Close()
			}
			if answered != (lasts < 10*time.Second) {
				t.Errorf("a request that lasts %v is answered: %v", lasts, err)
			}
			if took := <-served; took < min(lasts, 10*time.Second) || took > 11*time.Second {
				t.Errorf("a request lasts %v, and Serve returns after %v", lasts, took)
			}
		})
	}
	failure := errors.New("address in use")
	if err := Serve(t.Context(), &http.Server{}, func() error { return failure }); err != failure {
		t.Errorf("Serve: %v, want what listen failed with", err)
	}
}
