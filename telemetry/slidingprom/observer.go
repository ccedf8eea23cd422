package slidingprom

import (
	"context"
	"math"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Observer returns an observer that fills the histograms of touches for the store of that
// name. It is not called for reads, and costs a read without a touch nothing. If the name
// has an observer already, the error is a *slidingttl.InvalidError.
func (c *Collector) Observer(store string) (*slidingttl.Observer, error) {
	if err := c.stores.Observe(store); err != nil {
		return nil, err
	}
	return &slidingttl.Observer{Touch: func(_ context.Context, e slidingttl.TouchEvent) { c.touch(store, e) }}, nil
}

func (c *Collector) touch(store string, e slidingttl.TouchEvent) {
	outcome := e.Outcome.String()
	if e.Left < math.MaxInt64 { // else the record had no expiry
		c.left.WithLabelValues(store, outcome).Observe(max(0, e.Left.Seconds()))
	}
	if e.Duration > 0 { // else it shared, or waited
		c.duration.WithLabelValues(store, outcome, metrics.ErrorType(e.Err)).Observe(e.Duration.Seconds())
	}
}
