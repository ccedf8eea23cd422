package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// fate follows one write through the requests that azcosmos makes of it. One that got no
// answer may have landed, and so may one answered with 5xx or 408, which the gateway gives
// when what is behind it does not answer in time.
type fate struct{ sent, answered atomic.Int32 }

// follow makes f part of a call.
func (f *fate) follow(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteHeaders:         func() { f.sent.Add(1) },
		GotFirstResponseByte: func() { f.answered.Add(1) },
	})
}

// unsure reports whether a write that ended with err may have landed.
func (f *fate) unsure(ctx context.Context, err error) bool {
	switch s := status(err); {
	case s >= 500 || s == http.StatusRequestTimeout:
		return true
	case s != 0:
		return false
	case f.sent.Load() > f.answered.Load():
		return true
	}
	// Answered, and yet there is no answer: it broke off, unless the last one was to come
	// again later, which the context did not live to see.
	return f.answered.Load() > 0 && ctx.Err() == nil
}

// errLate says why a write was given up.
var errLate = errors.New("the record's life ended before Cosmos DB answered")

// failed is err, with which the write ended, in the form that the contract asks for.
func (f *fate) failed(ctx context.Context, err error) error {
	unsure := f.unsure(ctx, err)
	err = failed(ctx, err)
	if context.Cause(ctx) == errLate {
		err = fmt.Errorf("%w: %w", errLate, err)
	}
	if unsure {
		return fmt.Errorf("%w: %w", driver.ErrAmbiguous, err)
	}
	return err
}
