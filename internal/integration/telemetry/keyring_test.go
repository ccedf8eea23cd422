package telemetry_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// keyring notes the keys that drivers are called with.
type keyring struct {
	mu   sync.Mutex // guards seen
	seen map[string]bool
}

// watched is a driver whose keys are noted. All capabilities that it has are the inner
// driver's own, past it: what they are called with, Insert was too.
type watched struct {
	driver.Driver[drivertest.Value]
	keys *keyring
}

func (k *keyring) watch(d driver.Driver[drivertest.Value]) watched { return watched{d, k} }

// Insert implements driver.Driver.
func (w watched) Insert(ctx context.Context, key string, v drivertest.Value, life driver.Life, now driver.Instant) (driver.Version, error) {
	w.keys.note(key)
	return w.Driver.Insert(ctx, key, v, life, now)
}

// Wrapped implements driver.Wrapper.
func (w watched) Wrapped(any) (any, driver.Way) { return w.Driver, driver.Past }

func (k *keyring) note(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen == nil {
		k.seen = make(map[string]bool)
	}
	if len(key) > 8 { // the suite's shortest of its own are longer; any text has an "a" in it
		k.seen[key] = true
	}
}

func (k *keyring) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Keys(k.seen))
}

// dump is all that reader has, as text.
func dump(t testing.TB, reader *sdkmetric.ManualReader) string {
	t.Helper()
	var all metricdata.ResourceMetrics
	ok(t, reader.Collect(context.Background(), &all))
	text := ""
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			h, is := m.Data.(metricdata.Histogram[float64])
			if !is {
				continue
			}
			for _, p := range h.DataPoints {
				text += fmt.Sprintln(m.Name, p.Attributes.ToSlice())
			}
		}
	}
	return text
}
