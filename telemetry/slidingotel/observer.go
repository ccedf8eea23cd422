package slidingotel

import (
	"context"
	"math"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Observer returns an observer that fills the histograms of touches for the store of that
// name. It is not called for reads, and costs a read without a touch nothing. If the name
// has an observer already, the error is a *slidingttl.InvalidError.
func (t *Telemetry) Observer(store string) (*slidingttl.Observer, error) {
	if err := t.stores.Observe(store); err != nil {
		return nil, err
	}
	return &slidingttl.Observer{Touch: func(ctx context.Context, e slidingttl.TouchEvent) { t.touch(ctx, store, e) }}, nil
}

func (t *Telemetry) touch(ctx context.Context, store string, e slidingttl.TouchEvent) {
	labels := make([]attribute.KeyValue, 2, 3)
	labels[0] = attribute.String(metrics.LabelStore, store)
	labels[1] = attribute.String(metrics.TouchLeft.Label, e.Outcome.String())
	if e.Left < math.MaxInt64 { // else the record had no expiry
		t.left.Record(ctx, max(0, e.Left.Seconds()), metric.WithAttributes(labels...))
	}
	if e.Duration == 0 {
		return
	}
	if e.Err != nil {
		labels = append(labels, attribute.String(metrics.LabelErrorType, metrics.ErrorType(e.Err)))
	}
	t.duration.Record(ctx, e.Duration.Seconds(), metric.WithAttributes(labels...))
}
