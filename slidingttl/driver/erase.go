package driver

import "context"

// Eraser is a driver whose store may hold more of a deleted record than Delete removes.
type Eraser interface {
	// EraseEnded removes the lives that the store keeps for an archive, beside its records, of all
	// keys for which match is true, and returns their number. Without apply it only counts them.
	EraseEnded(ctx context.Context, match func(key string) bool, apply bool) (int64, error)

	// Scrub has the store write its own files anew where they may still hold deleted records, of
	// keys that contain one of texts. It returns in words what it could not.
	Scrub(ctx context.Context, texts []string) (left []string)
}
