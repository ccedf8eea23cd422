// Package uncached marks reads of a file that no cache may answer. A mark in the context passes through every Bucket
// around another.
package uncached

import "context"

type key struct{}

// Context returns a context for calls of Bucket.ReadAt. One that reads from the beginning of a file reads the file itself,
// and the others may take what that one has read.
func Context(ctx context.Context) context.Context { return context.WithValue(ctx, key{}, true) }

// Asked reports whether ctx is from Context.
func Asked(ctx context.Context) bool { return ctx.Value(key{}) != nil }
