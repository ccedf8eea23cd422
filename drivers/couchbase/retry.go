package couchbase

import (
	"context"
	"slices"
	"time"

	"github.com/couchbase/gocb/v2"
	"github.com/couchbase/gocbcore/v10"
)

// repeatable is a strategy for lookups. gocbcore treats all sub-document operations as not
// idempotent, and so would fail a lookup whose connection breaks.
type repeatable struct{ strategy gocb.RetryStrategy }

func (r repeatable) RetryAfter(req gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	return r.strategy.RetryAfter(idempotent{req}, reason)
}

type idempotent struct{ gocb.RetryRequest }

func (idempotent) Idempotent() bool { return true }

// once is a strategy for writes: it never resends a write that may have landed, as gocb lets a
// strategy do. The second attempt might conflict with the first, or undo a later write.
type once struct{ strategy gocb.RetryStrategy }

func (r once) RetryAfter(req gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	if !reason.AllowsNonIdempotentRetry() {
		return &gocb.NoRetryRetryAction{}
	}
	return r.strategy.RetryAfter(req, reason)
}

// impatient is a strategy for touches: it does not wait for another client's lock, because the next
// access can touch.
type impatient struct{ strategy gocb.RetryStrategy }

func (r impatient) RetryAfter(req gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	if reason == gocb.KVLockedRetryReason {
		return &gocb.NoRetryRetryAction{}
	}
	return r.strategy.RetryAfter(req, reason)
}

// never is a strategy for a touch that the caller retries.
type never struct{}

func (never) RetryAfter(gocb.RetryRequest, gocb.RetryReason) gocb.RetryAction {
	return &gocb.NoRetryRetryAction{}
}

// ending is a strategy that gives up a refused write if the next attempt would come too late. Else
// gocbcore would report a timeout, which does not tell that all attempts were refused.
type ending struct {
	strategy gocb.RetryStrategy
	until    time.Time
}

func (r ending) RetryAfter(req gocb.RetryRequest, reason gocb.RetryReason) gocb.RetryAction {
	action := r.strategy.RetryAfter(req, reason)
	if action != nil && slices.Contains(refusals, reason) && time.Now().Add(action.Duration()).After(r.until) {
		return &gocb.NoRetryRetryAction{}
	}
	return action
}

// before returns a strategy that ends with timeout or with ctx.
func before(ctx context.Context, deadline time.Time, strategy gocb.RetryStrategy) ending {
	if ends, ok := ctx.Deadline(); ok && ends.Before(deadline) {
		deadline = ends
	}
	return ending{strategy, deadline}
}

// refusals are reasons of a server that has not executed a write.
var refusals = []gocb.RetryReason{
	gocb.KVTemporaryFailureRetryReason, gocb.KVLockedRetryReason,
	gocb.KVSyncWriteInProgressRetryReason, gocb.KVSyncWriteRecommitInProgressRetryReason,
}

// retries adapts a gocb strategy to gocbcore.
type retries struct{ strategy gocb.RetryStrategy }

func (r retries) RetryAfter(req gocbcore.RetryRequest, reason gocbcore.RetryReason) gocbcore.RetryAction {
	action := r.strategy.RetryAfter(retryRequest{req}, reason)
	if action == nil {
		return nil
	}
	return action
}

type retryRequest struct{ gocbcore.RetryRequest }

func (r retryRequest) RetryReasons() []gocb.RetryReason {
	return reasons(r.RetryRequest.RetryReasons())
}
