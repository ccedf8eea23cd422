package cosmos

import (
	"cmp"
	"context"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// attempts follows one write through the requests that azcosmos, azcore and net/http make
// of it.
type attempts struct {
	driver.Attempts
	connected atomic.Bool // a request has a connection, and no answer that was understood
}

// follow makes a part of a call, and bars azcore from sending again anything but what was
// not carried out: its own retry resends what failed with an error that it does not know,
// as all of HTTP/2 are.
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
		GotConn:              func(httptrace.GotConnInfo) { a.connected.Store(true) },
		WroteHeaders:         a.Sent,
		GotFirstResponseByte: a.Answered,
	}), retry)
}

// failed is err, with which the last request ended, in the form that the contract asks for.
// An answer of 5xx or 408 is one of the gateway, when what is behind it does not answer in
// time. A request may also leave after its context has ended, and an answer be lost when it
// had begun.
func (a *attempts) failed(ctx context.Context, err error) error {
	if s := status(err); s >= 500 || s == http.StatusRequestTimeout || s == 0 && a.connected.Load() {
		a.Sent()
	}
	return a.Failed(ctx, failed(ctx, err))
}
