package driver

import (
	"context"
	"time"
)

// Clock is a driver that knows a better time than the system clock.
//
// It is the store's own, on which app servers with skewed clocks agree, or a cheaper one.
type Clock interface {
	// Now returns the time, exactly.
	Now() time.Time

	// Bounds returns instants between which the time lies, for much less than Now costs.
	// A clock with nothing cheaper to offer returns Floor and Ceil of Now.
	Bounds() (earliest, latest Instant)
}

// Learner is a Clock that has to ask a server for its time.
//
// A wrapper that hands out the Clock of another driver hands out that itself.
type Learner interface {
	Clock

	// Learn returns when the time is known well enough to plan a write by it.
	//
	// It makes a trip to the server if need be. The store calls it before an Insert or an
	// Upsert; other calls read first, and learn from the answer. An error is the store's own.
	Learn(ctx context.Context) error
}
