package touches

import (
	"context"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
)

// Result is a touch's result, for counters and hooks.
type Result int

// The results, in the order of slidingttl.TouchOutcome.
const (
	Written  Result = iota // the touch was written
	Shared                 // another touch of the key was enough
	Lost                   // the record was gone: no failure
	Deferred               // the record is locked by another client: no failure
	Failed                 // the touch failed
	Shed                   // given up: too many waited, or it waited too long

	none Result = -1 // it was no touch after all
)

// Event is the end of a touch.
type Event struct {
	Key      string
	Result   Result
	Duration time.Duration // of the driver's call
	Left     time.Duration // time until the expiry that was read; the longest there is if there was none
	Err      error         // of Failed and Shed
}

// sent returns the time now, or zero if Ended is nil and nobody needs it.
func (t *Touches) sent() time.Time {
	if t.Ended == nil {
		return time.Time{}
	}
	return time.Now()
}

// count counts the end of a touch, and calls Ended.
func (t *Touches) count(ctx context.Context, a *Access, o Outcome, sent time.Time) {
	t.Tally.Add(tally.Outcomes + tally.Counter(o.result))
	t.hook(ctx, a, o, sent)
}

// countLater is count on another goroutine. The caller has locked mu.
func (t *Touches) countLater(ctx context.Context, a *Access, o Outcome) {
	t.Tally.Add(tally.Outcomes + tally.Counter(o.result))
	if t.Ended != nil {
		t.ended = append(t.ended, &touch{Access: *a, ctx: ctx, outcome: o, answered: true})
	}
}

// hook calls Ended.
func (t *Touches) hook(ctx context.Context, a *Access, o Outcome, sent time.Time) {
	if t.Ended == nil {
		return
	}
	e := Event{Key: a.Key, Result: o.result, Left: a.left(t.now())}
	switch o.result {
	case Failed:
		e.Err = o.Err
	case Shed:
		e.Err = ErrShed
	}
	if !sent.IsZero() {
		e.Duration = time.Since(sent)
	}
	t.Ended(ctx, e)
}

// broke counts how much promised life the lack of a's touch cost, at most.
func (t *Touches) broke(a *Access) {
	if a.Rules != nil {
		t.Tally.AddN(tally.Broken, int(a.Rules.Promise(a.Was.Life, a.At)/time.Millisecond))
	}
}

// Fail counts an access to key that failed before it was known whether a touch was due.
func (t *Touches) Fail(ctx context.Context, key string, err error) {
	t.Tally.Add(tally.Due)
	t.count(ctx, &Access{Key: key}, Outcome{Err: err, result: Failed}, time.Time{})
}
