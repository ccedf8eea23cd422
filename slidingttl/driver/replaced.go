package driver

import "context"

type toldOfReplaced struct{}

// WithReplaced returns a context under which a driver reports replaced dead records to
// told. A driver does so by [Replaced], for each dead record over which a write begins a
// new life. told may be called concurrently.
func WithReplaced(ctx context.Context, told func(was Meta)) context.Context {
	return context.WithValue(ctx, toldOfReplaced{}, told)
}

// Replaced reports that a write under ctx has begun a new life over was, a dead record. A
// driver calls it if the record was still stored. A driver that does not learn what it
// replaces does not call it, nor one whose write's answer was lost.
func Replaced(ctx context.Context, was Meta) {
	if told, ok := ctx.Value(toldOfReplaced{}).(func(Meta)); ok {
		told(was)
	}
}
