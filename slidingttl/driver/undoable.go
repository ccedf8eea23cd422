package driver

import "context"

type undoableKey struct{}

// WithUndo returns a context for calls that may be undone after they have returned.
//
// It is for drivers that offer transactions. In them a store reads without touching, and
// remembers nothing that was read or written.
func WithUndo(ctx context.Context) context.Context {
	return context.WithValue(ctx, undoableKey{}, true)
}

// MayUndo reports whether ctx is of a call that may be undone after it has returned.
func MayUndo(ctx context.Context) bool { return ctx.Value(undoableKey{}) != nil }
