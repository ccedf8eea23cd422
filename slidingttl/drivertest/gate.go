package drivertest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"syscall"
)

// Gate stands between a driver and its store, where a case can hold up a write or lose its
// answer. The zero value lets everything pass. Its methods are safe for concurrent use.
//
// A backend hands it the requests of its driver: by [Gate.Transport] where they go by HTTP,
// by [Gate.Conn] where they go by a connection of another protocol, else by [Gate.Pass].
type Gate struct {
	mu    sync.Mutex // guards the rest
	next  func(deliver func()) Answer
	muted []func() // ends each connection that is silent
	ended bool     // and those that come to be so
}

// Answer is what comes back for a request.
type Answer int

// Answers.
const (
	Answered Answer = iota // what the store has answered
	Reset                  // nothing: the connection breaks
	Silent                 // nothing, and the connection stays until the client gives it up
)

// stop has f called in place of the next write. f calls deliver, at most once, to have the
// store carry it out, and returns what is to come back.
// cancel lets it pass, and reports whether f was called already.
func (g *Gate) stop(f func(deliver func()) Answer) (cancel func() (called bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.ended = f, false
	return func() bool { return g.take() == nil }
}

// hangUp ends the connections that are silent.
func (g *Gate) hangUp() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, end := range g.muted {
		end()
	}
	g.muted, g.ended = nil, true
}

func (g *Gate) mute(end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		end()
	}
	g.muted = append(g.muted, end)
}

// take returns who has to be called in place of this write, nil for nobody.
func (g *Gate) take() func(deliver func()) Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.next
	g.next = nil
	return f
}

// Pass is to be called with every request that may write, on its way. deliver has the store
// carry it out, and returns when it has. What Pass returns is to come back to the client.
func (g *Gate) Pass(deliver func()) Answer {
	if f := g.take(); f != nil {
		return f(deliver)
	}
	deliver()
	return Answered
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// Transport is next with the gate before it, for those requests that may write.
func (g *Gate) Transport(next http.RoundTripper, writes func(*http.Request) bool) http.RoundTripper {
	return roundTripper(func(req *http.Request) (res *http.Response, err error) {
		if !writes(req) {
			return next.RoundTrip(req)
		}
		delivered := false
		trace := httptrace.ContextClientTrace(req.Context())
		answer := g.Pass(func() {
			delivered = true
			if trace != nil && trace.WroteHeaders != nil {
				trace.WroteHeaders()
			}
			res, err = next.RoundTrip(req.WithContext(untraced{req.Context()}))
		})
		if answer == Answered {
			if trace != nil && trace.GotFirstResponseByte != nil && err == nil {
				trace.GotFirstResponseByte()
			}
			return res, err
		}
		if res != nil {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		} else if !delivered && req.Body != nil {
			_ = req.Body.Close()
		}
		if answer == Silent {
			<-req.Context().Done()
			return nil, req.Context().Err()
		}
		return nil, errReset
	})
}

// untraced is a context that does not tell its client's trace of an answer, which the client may
// not get.
type untraced struct{ context.Context }

func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if _, ok := v.(*httptrace.ClientTrace); ok {
		return nil
	}
	return v
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
