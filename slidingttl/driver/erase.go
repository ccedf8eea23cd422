package driver

import "context"

// Eraser is a driver that keeps lives that have ended beside the records, until an archive has them.
type Eraser interface {
	// EraseEnded removes these lives of all keys for which match is true, and returns their
	// number. Without apply it only counts them.
	EraseEnded(ctx context.Context, match func(key string) bool, apply bool) (int64, error)
}
