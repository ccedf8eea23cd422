package slidingttl

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// hooks are the functions of a store's user that it tells things.
type hooks struct {
	driver.Hooks
	onTouchError func(context.Context, string, error)
	stats        *tally
}

func (h *hooks) touchError(ctx context.Context, key string, err error) {
	if h.onTouchError == nil {
		return
	}
	if h.Call(func() { h.onTouchError(ctx, key, err) }) {
		h.stats.add(cHookPanics)
	}
}
