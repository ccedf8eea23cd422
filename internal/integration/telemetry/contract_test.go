package telemetry_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// telemetry returns one that keeps all spans, and the spans.
func telemetry(t testing.TB, reader sdkmetric.Reader) (*slidingotel.Telemetry, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	tel, err := slidingotel.New(&slidingotel.Options{
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)),
		MeterProvider:  meters,
	})
	ok(t, err)
	t.Cleanup(func() {
		ok(t, tel.Close())
		ok(t, meters.Shutdown(context.Background()))
	})
	return tel, spans
}

// A driver of a real wire keeps the contract when it is wrapped, and no key gets into its
// spans and metrics, whatever the contract's cases do to it.
func TestContract(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	tel, spans := telemetry(t, reader)
	var keys keyring
	t.Run("cases", func(t *testing.T) {
		drivertest.Run(t, drivertest.Harness{
			Parallel: true,
			Lacks: map[drivertest.Feature]string{
				drivertest.Local:   "the store is a server",
				drivertest.Plant:   "how others write is tested with the driver",
				drivertest.Mender:  "a header is the driver's own, and of no other form",
				drivertest.Retain:  "is tested with the driver",
				drivertest.Malform: "how others write is tested with the driver",
				drivertest.Hostile: "how others write is tested with the driver",
				drivertest.Gated:   "what is lost on the way is tested with the driver",
				drivertest.Apart:   "is tested with the driver",
			},
			Open: func(t testing.TB) *drivertest.Backend {
				server := redistest.StartVirtual(t)
				proxy := redistest.NewProxy(t)
				client := redistest.NewClient(t, proxy.Option(server.Option()))
				inner, err := redis.New[drivertest.Value](client, &redis.Options{MaxSkew: 1e6 * time.Hour})
				ok(t, err)
				d, err := slidingotel.Wrap(tel, driver.Driver[drivertest.Value](keys.watch(inner)), slidingotel.Database{System: "redis"})
				ok(t, err)
				return &drivertest.Backend{
					Driver: d,
					Now:    server.Now,
					Wait: func(by time.Duration) {
						server.Advance(by)
						ok(t, inner.Check(context.Background(), 0)) // asks for the time
					},
					Fail: func() func() {
						server.Fail("BUSY doing nothing")
						return func() { server.Fail("") }
					},
					Own: func(err error) bool {
						var answer *rueidis.RedisError
						return errors.As(err, &answer) && strings.HasPrefix(answer.Error(), "BUSY")
					},
					Hang: proxy.Hang,
				}
			},
		})
	})
	ended, seen := spans.Ended(), keys.all()
	if len(ended) < 1000 || len(seen) < 100 {
		t.Fatalf("%d spans of %d keys: too few to prove anything", len(ended), len(seen))
	}
	lines := make(map[string]bool) // of which there are few
	for _, s := range ended {
		lines[fmt.Sprintf("%s %v %+v %+v\n", s.Name(), s.Status(), s.Attributes(), s.Events())] = true
	}
	text := dump(t, reader) + strings.Join(slices.Collect(maps.Keys(lines)), "")
	for _, key := range seen {
		if strings.Contains(text, key) {
			t.Errorf("the key %q is in a span or a metric", key)
		}
	}
}
