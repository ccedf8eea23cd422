package main

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
	"github.com/slidingttl/slidingttl/telemetry/slidingprom"
)

// systems is what OpenTelemetry calls the stores.
var systems = map[string]string{
	"memory":    "memory",
	"couchbase": "couchbase",
	"cosmos":    "azure.cosmosdb",
	"dynamodb":  "aws.dynamodb",
	"redis":     "redis",
	"postgres":  "postgresql",
	"mariadb":   "mariadb",
	"sqlite":    "sqlite",
}

// signals are the traces and metrics of the program. The store's metrics are collected
// by slidingprom, and what slidingotel measures of the driver's calls goes to the same
// registry, so that one scrape has both.
type signals struct {
	registry  *prometheus.Registry
	collector *slidingprom.Collector
	telemetry *slidingotel.Telemetry
	tracers   *sdktrace.TracerProvider
	meters    *sdkmetric.MeterProvider
	tracer    trace.Tracer
	spans     *os.File // nil: they go nowhere
}

// newSignals has spans written to the file at path; if that is empty, nowhere.
func newSignals(ctx context.Context, path string) (*signals, error) {
	s := &signals{registry: prometheus.NewRegistry(), collector: slidingprom.New()}
	s.registry.MustRegister(s.collector, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(s.registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	s.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	options := []sdktrace.TracerProviderOption{sdktrace.WithSampler(sdktrace.NeverSample())}
	if path != "" {
		if s.spans, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err != nil {
			return nil, errors.Join(err, s.meters.Shutdown(ctx))
		}
		// In production use otlptracehttp.New here, which sends to a collector.
		to, err := stdouttrace.New(stdouttrace.WithWriter(s.spans))
		if err != nil {
			return nil, errors.Join(err, s.meters.Shutdown(ctx), s.spans.Close())
		}
		options = []sdktrace.TracerProviderOption{sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())), sdktrace.WithBatcher(to)}
	}
	s.tracers = sdktrace.NewTracerProvider(options...)
	s.tracer = s.tracers.Tracer("github.com/slidingttl/slidingttl/examples/service")
	s.telemetry, err = slidingotel.New(&slidingotel.Options{TracerProvider: s.tracers, MeterProvider: s.meters})
	if err != nil {
		return nil, errors.Join(err, s.stop(ctx))
	}
	return s, nil
}

// stop sends what has not been sent yet.
func (s *signals) stop(ctx context.Context) error {
	err := errors.Join(s.tracers.Shutdown(ctx), s.meters.Shutdown(ctx))
	if s.spans != nil {
		err = errors.Join(err, s.spans.Close())
	}
	return err
}

// requestTimeout bounds what a request waits for.
const requestTimeout = 2 * time.Second

// traced gives each request a deadline, a span and a log line. Span and log line have the
// route and never the path, which contains a key. That is why it is not otelhttp, which
// records the path.
func (s *service) traced(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := mux.Handler(r) // "GET /profiles/{id}"
		_, route, _ := strings.Cut(pattern, " ")
		name := cmp.Or(pattern, "unknown")
		began := time.Now()
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := s.signals.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", r.Method), attribute.String("http.route", route)))
		defer span.End()
		// Without a deadline a client may wait for ever for a store that is gone.
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		watch := &watched{ResponseWriter: w, status: http.StatusOK}
		mux.ServeHTTP(watch, r.WithContext(ctx))
		span.SetAttributes(attribute.Int("http.response.status_code", watch.status))
		line := []any{"route", name, "status", watch.status, "took", time.Since(began), "trace", span.SpanContext().TraceID()}
		if watch.err == nil {
			s.log.DebugContext(ctx, "request", line...)
			return
		}
		span.SetStatus(codes.Error, watch.err.Error())
		s.log.ErrorContext(ctx, "request failed", append(line, "error", watch.err)...)
	})
}

// watched is a ResponseWriter that remembers what was answered, and why.
type watched struct {
	http.ResponseWriter
	status int
	err    error // what the store failed with
}

// WriteHeader implements http.ResponseWriter.
func (w *watched) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}
