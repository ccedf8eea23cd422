package driver

import (
	"context"
	"time"
)

// Checker is a driver that can tell whether its store is configured to keep a policy.
type Checker interface {
	// Check reads the store's configuration and changes nothing. longest is the longest TTL that a
	// write can ask for. It joins all problems into one error.
	Check(ctx context.Context, longest time.Duration) error
}
