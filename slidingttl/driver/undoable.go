package driver

import "context"

type undoableKey struct{}

// WithUndo returns a context for calls that may be undone after they have returned, as in a
// transaction that their caller may roll back. It is for drivers that offer such calls. A store then
// reads without touching, and remembers nothing that such a call read or wrote.
func WithUndo(ctx context.Context) context.Context {
	return context.WithValue(ctx, undoableKey{}, true)
}

// MayUndo reports whether ctx is of a call that may be undone after it has returned.
func MayUndo(ctx context.Context) bool { return ctx.Value(undoableKey{}) != nil }
