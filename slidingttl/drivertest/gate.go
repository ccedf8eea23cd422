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

// Gate lets a case delay a driver's write on its way to the store, or lose its answer. The zero
// value lets everything pass. Its methods are safe for concurrent use.
//
// A backend sends its driver's requests through it: HTTP by [Gate.Transport], another protocol's
// connection by [Gate.Conn], else by [Gate.Pass].
type Gate struct {
	mu    sync.Mutex // guards the rest
	next  func(deliver func()) Answer
	muted []func() // ends each connection that is silent
	ended bool     // and connections that become silent later
}

// Answer is a request's answer.
type Answer int

// Answers.
const (
	Answered Answer = iota // the store's answer
	Reset                  // nothing: the connection breaks
	Silent                 // nothing, and the connection stays open until the client closes it
)

// stop calls f in place of the next write. f calls deliver, at most once, to have the store
// execute the write, and returns the answer that the client gets. cancel lets the write pass,
// and reports whether f was called already.
func (g *Gate) stop(f func(deliver func()) Answer) (cancel func() (called bool)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next, g.ended = f, false
	return func() bool { return g.take() == nil }
}

// hangUp closes the silent connections.
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

// take returns the function to call in place of this write, or nil.
func (g *Gate) take() func(deliver func()) Answer {
	g.mu.Lock()
	defer g.mu.Unlock()
	f := g.next
	g.next = nil
	return f
}

// Pass must be called for every request that may write. deliver has the store execute it. The
// client must get what Pass returns.
func (g *Gate) Pass(deliver func()) Answer {
	if f := g.take(); f != nil {
		return f(deliver)
	}
	deliver()
	return Answered
}

var errReset = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}

// Transport returns next with the gate in front of it, for requests that may write.
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

// untraced hides the client's httptrace, which must not see an answer that the client may not get.
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
