package slidingttl

import (
	"context"
	"log/slog"
	"time"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/internal/tally"
	"github.com/slidingttl/slidingttl/slidingttl/internal/touches"
)

// hooks are the functions that the store's user has set.
type hooks struct {
	hook.Runner
	onTouchError func(context.Context, string, error)
	observer     Observer
	log          *slog.Logger // nil: none
	stats        *tally.Tally
	reported     touches.State // what changed was called with last
}

// call runs one of them.
func (h *hooks) call(hook func()) {
	if h.Call(hook) {
		h.stats.Add(tally.Panics)
	}
}

// reading is the time at which a read begins, zero if there is no Observer.Read.
func (h *hooks) reading() time.Time {
	if h.observer.Read == nil {
		return time.Time{}
	}
	return time.Now()
}

func (h *hooks) read(ctx context.Context, op string, began time.Time, o ReadOutcome, err error) {
	if h.observer.Read == nil {
		return
	}
	e := ReadEvent{Op: op, Outcome: o, Duration: time.Since(began), Err: err}
	h.call(func() { h.observer.Read(ctx, e) })
}

func (h *hooks) touch(ctx context.Context, e touches.Event) {
	if h.observer.Touch != nil {
		h.call(func() {
			h.observer.Touch(ctx, TouchEvent{Outcome: TouchOutcome(e.Result), Duration: e.Duration, Left: e.Left, Err: e.Err})
		})
	}
	if e.Err != nil && h.onTouchError != nil {
		h.call(func() { h.onTouchError(ctx, e.Key, e.Err) })
	}
}

// changed is called after each change of the touches' state, in order.
func (h *hooks) changed(s touches.State) {
	was := h.reported
	h.reported = s
	for _, c := range []struct {
		was, is       bool
		begins, ended string
		hook          func(bool)
	}{
		{was.Late, s.Late, "touches take longer than reads wait: reads no longer wait for them", "touches are in time again: reads wait for them", nil},
		{was.Failing, s.Failing, "the store does not take touches: they wait, and reads do not", "the store takes touches again", h.observer.Breaker},
		{was.OverBudget, s.OverBudget, "touches go faster than the budget, or some would come too late", "touches keep to the budget again", h.observer.Budget},
	} {
		switch {
		case c.is == c.was:
			continue
		case h.log != nil && c.is:
			h.call(func() { h.log.Warn("slidingttl: " + c.begins) })
		case h.log != nil:
			h.call(func() { h.log.Info("slidingttl: " + c.ended) })
		}
		if c.hook != nil {
			h.call(func() { c.hook(c.is) })
		}
	}
}
