package driver

import "time"

// Clock is a driver that knows a better time than the caller's system clock: the
// store's own, so that app servers with skewed clocks agree, or a cheaper one.
type Clock interface {
	// Now returns the time, exactly.
	Now() time.Time

	// Bounds returns instants between which the time lies, for much less than
	// Now costs. Where an answer is the same at both, the time need not be read.
	// A clock with nothing cheaper to offer returns Floor and Ceil of Now.
	Bounds() (earliest, latest Instant)
}
