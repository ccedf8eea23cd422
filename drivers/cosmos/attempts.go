package cosmos

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/slidingttl/slidingttl/internal/kit"
)

// attempts counts the requests that azcosmos, azcore and net/http make for one write.
type attempts struct {
	kit.Attempts
	traced    atomic.Bool // the transport tells of its connections
	connected atomic.Bool // a request has a connection and no parsed answer
}

// follow attaches a to a call, and lets azcore resend only what was not executed: azcore's own rule
// also resends after unknown errors, which are all errors of HTTP/2.
func (a *attempts) follow(ctx context.Context, retry policy.RetryOptions) context.Context {
	retry.RetryDelay = cmp.Or(retry.RetryDelay, 50*time.Millisecond)
	retry.ShouldRetry = func(answer *http.Response, err error) bool {
		again := err == nil && slices.Contains([]int{http.StatusTooManyRequests, http.StatusGone, statusRetryWith}, answer.StatusCode)
		if again {
			a.connected.Store(false)
		}
		return again
	}
	return policy.WithRetryOptions(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:              func(string) { a.traced.Store(true) },
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		WroteHeaders:         a.Sent,
		GotFirstResponseByte: a.Answered,
	}), retry)
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
	return a.Failed(ctx, failed(ctx, err))
}
