package slidingttl

import (
	"context"
	"log/slog"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hooks are the functions of a store's user that it tells things.
type hooks struct {
	driver.Hooks
	onTouchError func(context.Context, string, error)
	observer     Observer
	log          *slog.Logger // nil: none
	stats        *tally
}

// call runs one of them.
func (h *hooks) call(hook func()) {
	if h.Call(hook) {
		h.stats.add(cHookPanics)
	}
}

func (h *hooks) touchError(ctx context.Context, key string, err error) {
	if h.onTouchError != nil {
		h.call(func() { h.onTouchError(ctx, key, err) })
	}
}

// reading is the time at which a read begins, zero if nobody asks.
func (h *hooks) reading() time.Time {
	if h.observer.Read == nil {
		return time.Time{}
	}
	return time.Now()
}

// touching is the time at which a touch is sent, zero if nobody asks.
func (h *hooks) touching() time.Time {
	if h.observer.Touch == nil {
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

func (h *hooks) touch(ctx context.Context, e TouchEvent) {
	if h.observer.Touch != nil {
		h.call(func() { h.observer.Touch(ctx, e) })
	}
}

func (h *hooks) breaker(open bool) {
	if h.log != nil && open {
		h.log.Warn("slidingttl: the store does not take touches: reads no longer wait for them")
	} else if h.log != nil {
		h.log.Info("slidingttl: the store takes touches again")
	}
	if h.observer.Breaker != nil {
		h.call(func() { h.observer.Breaker(open) })
	}
}

func (h *hooks) budget(over bool) {
	if h.log != nil && over {
		h.log.Warn("slidingttl: touches go faster than the budget, or records would die")
	} else if h.log != nil {
		h.log.Info("slidingttl: touches keep to the budget again")
	}
	if h.observer.Budget != nil {
		h.call(func() { h.observer.Budget(over) })
	}
}
