package slidingttl

import (
	"context"
	"runtime/debug"
	"sync"
)

// hooks calls the functions of a store's user, whose panics end nothing: they are
// counted, and the first is told by Close.
type hooks struct {
	onTouchError func(context.Context, string, error)
	stats        *tally

	mu    sync.Mutex // guards first
	first *PanicError
}

func (h *hooks) touchError(ctx context.Context, key string, err error) {
	if h.onTouchError == nil {
		return
	}
	defer h.recovered()
	h.onTouchError(ctx, key, err)
}

func (h *hooks) recovered() {
	v := recover()
	if v == nil {
		return
	}
	h.stats.add(cHookPanics)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		h.first = &PanicError{Value: v, Stack: debug.Stack()}
	}
}

// panicked returns the first panic, once, nil if there was none.
func (h *hooks) panicked() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.first == nil {
		return nil
	}
	err := h.first
	h.first = nil
	return err
}
