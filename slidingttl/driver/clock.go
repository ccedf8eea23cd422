package driver

import (
	"context"
	"time"
)

// Clock is a driver that knows a better time than the system clock.
//
// It is the store's time, on which servers with skewed clocks agree, or a cheaper clock.
type Clock interface {
	// Now returns the time, exactly.
	Now() time.Time

	// Bounds returns instants between which the time lies, and costs much less than Now. A clock
	// with nothing cheaper to offer returns Floor and Ceil of Now.
	Bounds() (earliest, latest Instant)
}

// Learner is a Clock that has to ask a server for its time.
//
// A wrapper that exposes another driver's Clock exposes that driver's Learner.
type Learner interface {
	Clock

	// Learn returns once the time is known well enough to plan a write.
	//
	// It makes a trip to the server if need be. The store calls it before an Insert or an
	// Upsert; other calls read first, and learn from the answer. An error is the store's own.
	Learn(ctx context.Context) error
}
