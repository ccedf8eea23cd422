package driver

import "context"

type undoableKey struct{}

// WithUndo returns a context for calls that may be undone after they have returned.
//
// It is for drivers that offer transactions. Under such a context a store reads without touching,
// and remembers neither reads nor writes.
func WithUndo(ctx context.Context) context.Context {
	return context.WithValue(ctx, undoableKey{}, true)
}

// MayUndo reports whether ctx comes from WithUndo.
func MayUndo(ctx context.Context) bool { return ctx.Value(undoableKey{}) != nil }
