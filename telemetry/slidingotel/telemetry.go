package slidingotel

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// scope names what is instrumented, to OpenTelemetry.
const scope = "github.com/slidingttl/slidingttl/telemetry/slidingotel"

// Telemetry reports on stores and drivers. Its methods are safe for concurrent use.
type Telemetry struct {
	tracer   trace.Tracer
	calls    metric.Float64Histogram
	duration metric.Float64Histogram
	left     metric.Float64Histogram
	reading  metric.Registration
	stores   metrics.Stores
}

// New creates the instruments. opts may be nil; it is copied. Errors are those of the
// meter.
func New(opts *Options) (*Telemetry, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o = o.withDefaults()
	meter := o.MeterProvider.Meter(scope)
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope, trace.WithSchemaURL(schema))}
	var err error
	if t.calls, err = newCalls(meter); err != nil {
		return nil, err
	}
	if t.duration, err = histogram(meter, metrics.TouchDuration); err != nil {
		return nil, err
	}
	if t.left, err = histogram(meter, metrics.TouchLeft); err != nil {
		return nil, err
	}
	if err = t.register(meter); err != nil {
		return nil, err
	}
	return t, nil
}

func histogram(meter metric.Meter, m metrics.Metric) (metric.Float64Histogram, error) {
	return meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help),
		metric.WithExplicitBucketBoundaries(m.Buckets...))
}

// register has the counters and gauges read when the metrics are collected.
func (t *Telemetry) register(meter metric.Meter) error {
	all := make(map[int]observable) // by their place in metrics.Metrics
	var instruments []metric.Observable
	for at, m := range metrics.Metrics() {
		var i metric.Float64Observable
		var err error
		switch m.Kind {
		case metrics.Counter:
			i, err = meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
		case metrics.Gauge:
			i, err = meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
		default:
			continue
		}
		if err != nil {
			return err
		}
		all[at] = observable{m, i}
		instruments = append(instruments, i)
	}
	var err error
	t.reading, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for name, v := range t.stores.Read() {
			o := all[v.Metric]
			to.ObserveFloat64(o.instrument, v.Is, metric.WithAttributeSet(o.attributes(name, v.Label)))
		}
		return nil
	}, instruments...)
	return err
}

// observable is a metric that is read when it is collected.
type observable struct {
	metrics.Metric
	instrument metric.Float64Observable
}

func (o observable) attributes(store, value string) attribute.Set {
	if o.Label == "" {
		return attribute.NewSet(attribute.String(metrics.LabelStore, store))
	}
	return attribute.NewSet(attribute.String(metrics.LabelStore, store), attribute.String(o.Label, value))
}

// Add collects the metrics of s from now on, with store as their label. If the name was
// added before, the error is a *slidingttl.InvalidError.
func (t *Telemetry) Add(store string, s interface {
	Stats() slidingttl.Stats
	Now() time.Time
}) error {
	return t.stores.Add(store, s)
}

// AddArchive collects the metrics of an archive from now on, with store as their label. The
// archive, such as an archive.Archiver, takes that store's dead records. The error is an
// *slidingttl.InvalidError if the name was added before.
func (t *Telemetry) AddArchive(store string, a interface{ Stats() driver.BuryStats }) error {
	return t.stores.AddArchive(store, a)
}

// AddPolicies collects the metrics of the file of policies that a store follows. Their label is
// store; a file of several stores is added for each. The error is a
// *slidingttl.InvalidError if the name was added before.
func (t *Telemetry) AddPolicies(store string, f interface {
	LastReload() (successful bool, accepted time.Time)
}) error {
	return t.stores.AddPolicies(store, f)
}

// Close ends the collection of the stores' metrics. Observers and drivers continue.
func (t *Telemetry) Close() error { return t.reading.Unregister() }
