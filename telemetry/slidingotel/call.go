package slidingotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.34.0"
	"go.opentelemetry.io/otel/semconv/v1.34.0/dbconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const schema = semconv.SchemaURL

// newCalls returns the histogram of the conventions, with the buckets that they advise.
func newCalls(meter metric.Meter) (metric.Float64Histogram, error) {
	h, err := dbconv.NewClientOperationDuration(meter, metric.WithExplicitBucketBoundaries(.001, .005, .01, .05, .1, .5, 1, 5, 10))
	return h.Inst(), err
}

// calls measures the calls of one driver.
type calls struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram
	target   string               // that spans are named for
	about    []attribute.KeyValue // of every call
}

func callsTo(t *Telemetry, db Database) *calls {
	c := &calls{tracer: t.tracer, duration: t.calls, about: []attribute.KeyValue{semconv.DBSystemNameKey.String(db.System)}}
	for _, a := range []struct {
		key   attribute.Key
		value string
	}{
		{semconv.ServerAddressKey, db.Address},
		{semconv.DBNamespaceKey, db.Namespace},
		{semconv.DBCollectionNameKey, db.Collection},
	} {
		if a.value != "" {
			c.about, c.target = append(c.about, a.key.String(a.value)), a.value
		}
	}
	if db.Port != 0 {
		c.about = append(c.about, semconv.ServerPort(db.Port))
	}
	return c
}

// call is a call of a driver under way.
type call struct {
	of    *calls
	ctx   context.Context // with the span
	about []attribute.KeyValue
	span  trace.Span
	began time.Time
}

// begin begins a call that ends with end. more is for its span alone.
func (c *calls) begin(ctx context.Context, op string, more ...attribute.KeyValue) call {
	k := call{of: c, about: make([]attribute.KeyValue, 0, len(c.about)+2), began: time.Now()}
	k.about = append(append(k.about, c.about...), semconv.DBOperationName(op))
	name := op
	if c.target != "" {
		name += " " + c.target
	}
	k.ctx, k.span = c.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(k.about...), trace.WithAttributes(more...)) // here, so that a sampler sees them
	return k
}

// end is deferred, with the error that the call returns.
func (k call) end(failed *error) {
	took := time.Since(k.began)
	switch err := *failed; {
	case err == nil:
	case errors.Is(err, driver.ErrNotFound):
		k.span.SetAttributes(attribute.String(answer, "not_found"))
	case errors.Is(err, driver.ErrConflict):
		k.span.SetAttributes(attribute.String(answer, "conflict"))
	default:
		class := semconv.ErrorTypeKey.String(metrics.ErrorType(err))
		k.about = append(k.about, class)
		k.span.SetAttributes(class)
		k.span.SetStatus(codes.Error, err.Error())
	}
	k.of.duration.Record(k.ctx, took.Seconds(), metric.WithAttributes(k.about...))
	k.span.End()
}

// answer is the attribute of a span whose answer was "not found" or a conflict.
const answer = "slidingttl.answer"
