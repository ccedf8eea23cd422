package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// attempts is the context of one write, and counts how often the client sends it. rueidis resends
// what a connection that ends with its lifetime (ClientOption.ConnLifetime) left unanswered. That
// can neither be turned off for one command nor be observed. But each attempt asks for Err, and
// then, if it is sent, for Done or Deadline. The count may be one too high: for a redirect by a
// cluster, or a new connection. So a count of two makes a refusal doubtful, because
// it may be the write's own doing, but not a success.
type attempts struct {
	context.Context
	begun atomic.Bool
	sent  atomic.Int32
}

func (a *attempts) Err() error {
	a.begun.Store(true)
	return a.Context.Err()
}

func (a *attempts) Done() <-chan struct{} {
	a.count()
	return a.Context.Done()
}

func (a *attempts) Deadline() (time.Time, bool) {
	a.count()
	return a.Context.Deadline()
}

func (a *attempts) count() {
	if a.begun.Swap(false) {
		a.sent.Add(1)
	}
}
