package telemetry_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
	"github.com/slidingttl/slidingttl/telemetry/slidingprom"
)

// remote hides that a driver's store is in memory.
type remote struct{ driver.Driver[string] }

// exporter is what both of them are.
type exporter interface {
	Observer(name string) (*slidingttl.Observer, error)
	Add(name string, s interface {
		Stats() slidingttl.Stats
		Now() time.Time
	}) error
	AddArchive(name string, a interface{ Stats() driver.BuryStats }) error
	AddPolicies(name string, f interface {
		LastReload() (successful bool, accepted time.Time)
	}) error
}

// live makes a store as an exporter wants it, and has it touch a record.
func live(t *testing.T, d driver.Driver[string], to exporter) {
	t.Helper()
	observer, err := to.Observer("sessions")
	ok(t, err)
	told := make(chan struct{}, 100)
	see := observer.Touch
	observer.Touch = func(ctx context.Context, e slidingttl.TouchEvent) {
		see(ctx, e)
		told <- struct{}{}
	}
	s, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: time.Minute, MaxLifetime: time.Hour}, &slidingttl.Options[string]{Observer: observer})
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close(context.Background())) })
	ok(t, to.Add("sessions", s))
	ok(t, to.AddArchive("sessions", new(archive.Archiver)))
	ok(t, to.AddPolicies("sessions", new(policyfile.File)))
	ok(t, s.Insert(t.Context(), "4711", "ann"))
	for s.Stats().Touched == 0 { // a read at a later millisecond than the last is due
		_, err := s.Get(t.Context(), "4711")
		ok(t, err)
	}
	<-told
}

func inMemory(t *testing.T) remote {
	t.Helper()
	d, err := memory.New[string](nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, d.Close()) })
	return remote{d}
}

// byOTel are the metrics of slidingotel by OpenTelemetry's own exporter for Prometheus.
func byOTel(t *testing.T) map[string]string {
	t.Helper()
	r := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(r), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	ok(t, err)
	tel, _ := telemetry(t, exporter)
	d, err := slidingotel.Wrap(tel, driver.Driver[string](inMemory(t)), slidingotel.Database{System: "memory"})
	ok(t, err)
	live(t, d, tel)
	return gather(t, r)
}

// byPrometheus are the metrics of slidingprom.
func byPrometheus(t *testing.T) map[string]string {
	t.Helper()
	r := prometheus.NewRegistry()
	c := slidingprom.New()
	r.MustRegister(c)
	live(t, inMemory(t), c)
	return gather(t, r)
}

// gather returns kind and labels of each metric of r, by its name.
func gather(t *testing.T, r *prometheus.Registry) map[string]string {
	t.Helper()
	families, err := r.Gather()
	ok(t, err)
	all := make(map[string]string)
	for _, f := range families {
		labels := make(map[string]bool)
		for _, m := range f.Metric {
			for _, l := range m.Label {
				// OpenTelemetry leaves out what has no value, which to
				// Prometheus is the same.
				if l.GetValue() != "" {
					labels[l.GetName()] = true
				}
			}
		}
		all[f.GetName()] = f.GetType().String() + " " + strings.Join(slices.Sorted(maps.Keys(labels)), " ")
	}
	return all
}

// The two exporters show the same, under the same names and labels.
func TestExportersAgree(t *testing.T) {
	otel, prom := byOTel(t), byPrometheus(t)
	if !strings.HasPrefix(otel[callDuration], "HISTOGRAM ") {
		t.Errorf("no histogram %s in %v", callDuration, otel)
	}
	delete(otel, callDuration)
	if !maps.Equal(otel, prom) {
		t.Errorf("by slidingotel\n%v\nby slidingprom\n%v", otel, prom)
	}
}

// callDuration is what the driver wrapper measures.
const callDuration = "db_client_operation_duration_seconds"
