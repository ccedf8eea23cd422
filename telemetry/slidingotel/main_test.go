package slidingotel_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is what a test's telemetry is sent to.
type collector struct {
	t      testing.TB
	tel    *slidingotel.Telemetry
	reader *sdkmetric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *sdktrace.TracerProvider
}

func collect(t testing.TB) *collector {
	t.Helper()
	c := &collector{t: t, reader: sdkmetric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	c.tracer = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(c.spans))
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(c.reader))
	var err error
	c.tel, err = slidingotel.New(&slidingotel.Options{TracerProvider: c.tracer, MeterProvider: meters})
	ok(t, err)
	t.Cleanup(func() {
		ok(t, c.tel.Close())
		ok(t, meters.Shutdown(context.Background()))
		ok(t, c.tracer.Shutdown(context.Background()))
	})
	return c
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// metrics returns what is collected now, by name.
func (c *collector) metrics() map[string]metricdata.Metrics {
	c.t.Helper()
	var all metricdata.ResourceMetrics
	ok(c.t, c.reader.Collect(context.Background(), &all))
	found := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// session is what most tests store.
var session = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}

// store returns a store over d, which closes when the test ends.
func store[T any](t testing.TB, d driver.Driver[T], opts *slidingttl.Options[T]) *slidingttl.Store[T] {
	t.Helper()
	s, err := slidingttl.New(d, session, opts)
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close(context.Background())) })
	return s
}

func inMemory[T any](t testing.TB) *memory.Driver[T] {
	t.Helper()
	d, err := memory.New[T](nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return d
}

// remote hides that a driver's store is in memory, and all else it can.
type remote[T any] struct{ driver.Driver[T] }

// virtualClock stands still, unless it is told to pass.
type virtualClock struct{ nano atomic.Int64 }

func startClock() *virtualClock {
	c := new(virtualClock)
	c.nano.Store(time.Now().UnixNano())
	return c
}

func (c *virtualClock) time() time.Time { return time.Unix(0, c.nano.Load()) }

func (c *virtualClock) pass(d time.Duration) { c.nano.Add(int64(d)) }
