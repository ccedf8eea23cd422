package driver

import "context"

type replacedKey struct{}

// WithReplaced returns a context under which drivers report the dead records that they replace.
// By [Replaced] a driver calls report for each dead record over which a write begins a new life.
// report may be called concurrently.
func WithReplaced(ctx context.Context, report func(was Meta)) context.Context {
	return context.WithValue(ctx, replacedKey{}, report)
}

// Replaced reports that a write under ctx has begun a new life over was, a dead record. A
// driver calls it if the record was still stored. A driver that does not learn what it
// replaces does not call it, nor one whose write's answer was lost.
func Replaced(ctx context.Context, was Meta) {
	if report, ok := ctx.Value(replacedKey{}).(func(Meta)); ok {
		report(was)
	}
}
