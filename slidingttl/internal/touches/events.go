package touches

import (
	"cmp"
	"context"
	"strings"
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
	Shed                   // given up: too many waited, or its record died first

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

// count counts the end of a touch, and has Ended called. The caller has locked mu.
func (t *Touches) count(ctx context.Context, a *Access, o Outcome, sent time.Time) {
	t.Tally.Add(tally.Outcomes + tally.Counter(o.result))
	switch {
	case t.Ended == nil || t.Failures && o.result < Failed:
	case len(t.hooks) >= mostHooks && !t.halted:
		t.Tally.Add(tally.HooksSkipped)
	default:
		e := t.event(a, o, sent)
		t.callLater(func() { t.Ended(ctx, e) })
	}
}

func (t *Touches) event(a *Access, o Outcome, sent time.Time) Event {
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
	return e
}

// mostHooks bounds the hooks that wait for others to return. What Close gives up is told in any case.
const mostHooks = 1 << 16

// callLater has hook called after those before it, once mu is unlocked: hooks may call the store, and
// want a lock that this call's caller holds.
func (t *Touches) callLater(hook func()) {
	if t.hooks = append(t.hooks, hook); !t.calling {
		t.calling = true
		go t.callHooks(nil)
	}
}

func (t *Touches) callHooks(hooks []func()) {
	last := false
	defer func() {
		if !last { // a hook called runtime.Goexit
			go t.callHooks(hooks)
		}
	}()
	for !last {
		for len(hooks) > 0 {
			hook := hooks[0]
			hooks[0], hooks = nil, hooks[1:]
			hook()
		}
		t.lock()
		hooks, t.hooks = t.hooks, nil
		last = len(hooks) == 0
		t.calling = !last
		t.unlock()
	}
}

// broke counts how much promised life the lack of a's touch cost, at most.
func (t *Touches) broke(a *Access) {
	if a.Rules != nil {
		l := a.Was.Life
		l.CreatedAt = cmp.Or(l.CreatedAt, a.Birth)
		t.Tally.AddN(tally.Broken, int(a.Rules.Promise(l, a.At)/time.Millisecond))
	}
}

// Fail counts an access to key that failed before it was known whether a touch was due.
func (t *Touches) Fail(ctx context.Context, key string, err error) {
	t.lock()
	defer t.unlock()
	t.fail(ctx, strings.Clone(key), err)
}

func (t *Touches) fail(ctx context.Context, key string, err error) {
	t.Tally.Add(tally.Due)
	t.count(ctx, &Access{Key: key}, Outcome{Err: err, result: Failed}, time.Time{})
}
