package driver

import "context"

type otherClockKey struct{}

// WithOtherClock returns a context for calls whose now is not by the clock of the driver's store.
//
// A store with Options.Now makes its calls by such a context, also those that follow from others.
// A driver whose store can tell its time then judges by the caller's now. Without it the store's
// time decides alone, however far the caller's now is from it: a caller that stood still has an
// old time too. Only Remove may take a past moment.
func WithOtherClock(ctx context.Context) context.Context {
	return context.WithValue(ctx, otherClockKey{}, true)
}

// OtherClock reports whether ctx comes from WithOtherClock.
func OtherClock(ctx context.Context) bool { return ctx.Value(otherClockKey{}) != nil }
