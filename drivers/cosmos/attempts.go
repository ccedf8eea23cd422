package cosmos

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/slidingttl/slidingttl/internal/kit"
)

// attempts counts the requests that azcosmos, azcore and net/http make for one write.
type attempts struct {
	kit.Attempts
	traced    atomic.Bool // the transport tells of its connections
	connected atomic.Bool // a request has a connection and no parsed answer
	answered  atomic.Bool // the last request, and not one before it that net/http has sent again
	lost      atomic.Bool // azcosmos has asked for the context's error when a request had no answer
}

// unrepeated is the context of one write. After a failed request azcosmos 1.5.0 asks for the context's error. If it
// takes the request for one that was not sent, as after any ETIMEDOUT, it then waits for Done or a second, and sends
// the write again: Done ends that if the write was sent.
type unrepeated struct {
	context.Context
	a   *attempts
	end context.CancelFunc
}

// Err implements context.Context.
func (c unrepeated) Err() error {
	c.a.lost.Store(c.a.Unsure() && !c.a.answered.Load())
	return c.Context.Err()
}

// Done implements context.Context.
func (c unrepeated) Done() <-chan struct{} {
	if c.a.lost.Load() {
		c.end()
	}
	return c.Context.Done()
}

// errLost is the error of a write that unrepeated has ended.
var errLost = errors.New("the connection failed after the request was sent")

// notExecuted are the statuses of a write that is to be sent again.
var notExecuted = []int{http.StatusTooManyRequests, http.StatusGone, statusRetryWith}

// follow attaches a to a call, and lets azcore resend only what was not executed, by none of its attempts unless
// those are named: azcore's own rule also resends after unknown errors, which are all errors of HTTP/2.
func (a *attempts) follow(ctx context.Context, retry policy.RetryOptions) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(ctx)
	retry.ShouldRetry = func(answer *http.Response, err error) bool {
		again := err == nil && slices.Contains(notExecuted, answer.StatusCode) && (a.Named || !a.Unsure())
		if again {
			a.connected.Store(false)
		}
		return again
	}
	return policy.WithRetryOptions(httptrace.WithClientTrace(unrepeated{ctx, a, end}, &httptrace.ClientTrace{
		GetConn: func(string) {
			a.traced.Store(true)
			a.answered.Store(false)
		},
		GotConn:      func(httptrace.GotConnInfo) { a.connected.Store(true) },
		WroteHeaders: a.Sent,
		GotFirstResponseByte: func() {
			a.answered.Store(true)
			a.Answered()
		},
	}), retry), end
}

// failed maps the last request's error to the driver contract's errors. A 5xx or 408 comes from the
// gateway when its backend does not answer in time, so the write may have landed. A request may
// also be sent after its context has ended, and an answer may be lost midway. A transport that drops
// net/http's trace tells nothing: only a connection that could not be made is sure.
func (a *attempts) failed(ctx context.Context, err error) error {
	var network *net.OpError
	untold := !a.traced.Load() && !(errors.As(err, &network) && network.Op == "dial")
	if s := status(err); s >= 500 || s == http.StatusRequestTimeout || s == 0 && (a.connected.Load() || untold) {
		a.Sent()
	}
	if ctx.Err() == nil && a.lost.Load() && errors.Is(err, context.Canceled) {
		return a.Failed(ctx, errLost)
	}
	return a.Failed(ctx, failed(ctx, err))
}
