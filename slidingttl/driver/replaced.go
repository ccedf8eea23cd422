package driver

import "context"

type toldOfReplaced struct{}

// WithReplaced returns a context under which a driver that sees it tells of each dead record
// that a write begins a new life over, by [Replaced]. told may be called concurrently.
func WithReplaced(ctx context.Context, told func(was Meta)) context.Context {
	return context.WithValue(ctx, toldOfReplaced{}, told)
}

// Replaced is for a driver to call when a write under ctx has begun a new life over was, which
// had died and was still stored. A driver that does not learn what it replaces does not call it,
// nor one whose write's answer was lost.
func Replaced(ctx context.Context, was Meta) {
	if told, ok := ctx.Value(toldOfReplaced{}).(func(Meta)); ok {
		told(was)
	}
}
