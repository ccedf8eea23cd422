package slidingprom

import (
	"context"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/telemetry"
)

// Observer returns what fills the histograms of touches for the store of that name. It is
// told of no read, and costs one that needs no touch nothing. A name that has an observer
// is an *slidingttl.InvalidError.
func (c *Collector) Observer(store string) (*slidingttl.Observer, error) {
	if err := c.stores.Observe(store); err != nil {
		return nil, err
	}
	return &slidingttl.Observer{Touch: func(_ context.Context, e slidingttl.TouchEvent) { c.touch(store, e) }}, nil
}

func (c *Collector) touch(store string, e slidingttl.TouchEvent) {
	outcome := e.Outcome.String()
	c.left.WithLabelValues(store, outcome).Observe(max(0, e.Left.Seconds()))
	if e.Duration > 0 { // else it shared, or waited
		c.duration.WithLabelValues(store, outcome, telemetry.ErrorType(e.Err)).Observe(e.Duration.Seconds())
	}
}
