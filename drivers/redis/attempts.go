package redis

import (
	"context"
	"sync/atomic"
	"time"
)

// attempts is the context of one write, and counts how often the client sends it. What rueidis
// has sent by a connection that ends with its lifetime (ClientOption.ConnLifetime) it sends again by
// another, and neither can be told not to nor tells. But each attempt asks for Err, and then, if it is
// sent, for Done or Deadline. One too many may be counted: that a cluster redirected, or
// whose connection had to be made anew. So a count of two says of a refusal that it may be the
// write's own doing, and makes no success a doubtful one.
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
