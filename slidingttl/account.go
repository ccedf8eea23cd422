package slidingttl

import (
	"context"
	"time"
)

// account counts and reports the touch a if it failed for good.
func (t *toucher) account(ctx context.Context, a *access, o outcome) {
	if broke(o.err) {
		t.fail(ctx, a, o.err)
	}
}

// fail counts and reports a touch that failed.
func (t *toucher) fail(ctx context.Context, a *access, err error) {
	if err == ErrClosed {
		t.givenUp.Add(1)
	}
	t.broken(ctx, a, TouchFailed, err)
}

// broken counts and reports a touch that did not come about, and the promise that it
// broke thereby at most.
func (t *toucher) broken(ctx context.Context, a *access, o TouchOutcome, err error) {
	short := a.rules.deadline(a.was.CreatedAt, a.at) - a.was.ExpiresAt
	if a.was.ExpiresAt != 0 && short > 0 && !a.rules.promote {
		t.stats.addN(cBroken, int(short))
	}
	t.ended(ctx, a, o, err)
	t.hooks.touchError(ctx, a.key, err)
}

// ended counts the end of a touch, and tells of it.
func (t *toucher) ended(ctx context.Context, a *access, o TouchOutcome, err error) {
	t.stats.add(o.counter())
	if t.hooks.observer.Touch == nil {
		return
	}
	e := TouchEvent{Outcome: o, Left: a.was.ExpiresAt.Sub(t.now()), Err: err}
	if !a.sent.IsZero() {
		e.Duration = time.Since(a.sent)
	}
	t.hooks.touch(ctx, e)
}
