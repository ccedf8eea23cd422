package slidingotel_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/telemetry/slidingotel"
)

// archived is where the dead of a store go.
type archived driver.BuryStats

func (a archived) Stats() driver.BuryStats { return driver.BuryStats(a) }

// refused is a file of policies that does not count as it is.
type refused struct{}

func (refused) LastReload() (bool, time.Time) { return false, time.Unix(7, 0) }

// lived is a store that something of each kind has happened to, as "sessions".
func lived(t *testing.T, c *collector) *slidingttl.Store[string] {
	t.Helper()
	inner := &failing{Driver: remote[string]{inMemory[string](t)}}
	observer, err := c.tel.Observer("sessions")
	ok(t, err)
	told := make(chan struct{}, 2)
	observe := observer.Touch
	observer.Touch = func(ctx context.Context, e slidingttl.TouchEvent) {
		observe(ctx, e)
		told <- struct{}{}
	}
	now := startClock()
	s := store(t, driver.Driver[string](inner), &slidingttl.Options[string]{Now: now.time, Observer: observer, Strict: true}) // what fails is not tried again
	ok(t, c.tel.Add("sessions", s))
	ok(t, c.tel.AddArchive("sessions", archived{Records: 7, Through: time.Now()}))
	ok(t, c.tel.AddPolicies("sessions", refused{}))
	ok(t, s.Insert(t.Context(), secret, "v"))
	now.pass(10 * time.Minute)
	_, err = s.Get(t.Context(), secret) // touches
	ok(t, err)
	now.pass(10 * time.Minute)
	inner.touch = errors.New("disk on fire")
	if _, err = s.Get(t.Context(), secret); !errors.Is(err, inner.touch) {
		t.Errorf("a strict read says %v", err)
	}
	now.pass(session.IdleGrace)
	_, _ = s.Get(t.Context(), secret) // dead
	_, _ = s.Get(t.Context(), "nobody")
	<-told
	<-told
	return s
}

// sample is a metric in a line for each of its series.
func samples(m metricdata.Metrics) (lines []string) {
	line := func(set attribute.Set, v any) {
		var labels []string
		for _, a := range set.ToSlice() {
			labels = append(labels, string(a.Key)+"="+a.Value.String())
		}
		lines = append(lines, fmt.Sprintf("%s{%s} %v", m.Name, strings.Join(labels, ","), v))
	}
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, p.Value)
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, p.Value)
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			line(p.Attributes, fmt.Sprintf("count %d", p.Count))
		}
	}
	slices.Sort(lines)
	return lines
}

// What happened to a store is in its metrics.
func TestMetrics(t *testing.T) {
	c := collect(t)
	s := lived(t, c)
	got := c.metrics()
	st := s.Stats()
	if st.Hits != 2 || st.Misses != 2 || st.DiedIdle != 1 || st.Touched != 1 || st.TouchFails != 1 || st.Broken == 0 {
		t.Fatalf("not the life that was meant: %+v", st)
	}
	for name, want := range map[string][]string{
		"slidingttl.reads": {
			"slidingttl.reads{outcome=hit,store=sessions} 2",
			"slidingttl.reads{outcome=miss,store=sessions} 2",
		},
		"slidingttl.reads.died": {
			"slidingttl.reads.died{cause=age,store=sessions} 0",
			"slidingttl.reads.died{cause=idle,store=sessions} 1",
		},
		"slidingttl.touches": {
			"slidingttl.touches{outcome=deferred,store=sessions} 0",
			"slidingttl.touches{outcome=failed,store=sessions} 1",
			"slidingttl.touches{outcome=lost,store=sessions} 0",
			"slidingttl.touches{outcome=shared,store=sessions} 0",
			"slidingttl.touches{outcome=shed,store=sessions} 0",
			"slidingttl.touches{outcome=written,store=sessions} 1",
		},
		"slidingttl.promise.broken": {fmt.Sprintf("slidingttl.promise.broken{store=sessions} %v", st.Broken.Seconds())},
		"slidingttl.clock":          {fmt.Sprintf("slidingttl.clock{store=sessions} %v", float64(s.Now().UnixNano())/1e9)},
		"slidingttl.touch.duration": {
			"slidingttl.touch.duration{error.type=_OTHER,outcome=failed,store=sessions} count 1",
			"slidingttl.touch.duration{outcome=written,store=sessions} count 1",
		},
		"slidingttl.touch.left": {
			"slidingttl.touch.left{outcome=failed,store=sessions} count 1",
			"slidingttl.touch.left{outcome=written,store=sessions} count 1",
		},
	} {
		if lines := samples(got[name]); !slices.Equal(lines, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
	}
}

// The names and units exported are those of package telemetry, all of them and no others.
func TestNames(t *testing.T) {
	c := collect(t)
	lived(t, c)
	got, want := make(map[string]string), make(map[string]string)
	for name, m := range c.metrics() {
		kind := "?"
		switch data := m.Data.(type) {
		case metricdata.Sum[float64]:
			if data.IsMonotonic {
				kind = "counter"
			}
		case metricdata.Gauge[float64]:
			kind = "gauge"
		case metricdata.Histogram[float64]:
			kind = "histogram"
		}
		got[name] = kind + " " + m.Unit + " " + m.Description
	}
	for _, m := range metrics.Metrics() {
		want[m.Name] = string(m.Kind) + " " + m.Unit + " " + m.Help
	}
	if !maps.Equal(got, want) {
		t.Errorf("exported\n%v\ndocumented\n%v", got, want)
	}
}

// A name is one store's, and one observer's.
func TestNamesAreRefusedTwice(t *testing.T) {
	c := collect(t)
	s := store(t, driver.Driver[string](remote[string]{inMemory[string](t)}), nil)
	observe := func(name string) error { _, err := c.tel.Observer(name); return err }
	add := func(name string) error { return c.tel.Add(name, s) }
	bury := func(name string) error { return c.tel.AddArchive(name, archived{}) }
	follow := func(name string) error { return c.tel.AddPolicies(name, refused{}) }
	for what, f := range map[string]func(string) error{"observer": observe, "store": add, "archive": bury, "file of policies": follow} {
		ok(t, f("sessions"))
		ok(t, f("profiles"))
		for _, name := range []string{"sessions", ""} {
			var invalid *slidingttl.InvalidError
			if err := f(name); !errors.As(err, &invalid) || invalid.Field != "name of "+what {
				t.Errorf("%q: %v, want an InvalidError that names it", name, err)
			}
		}
	}
}

// An observer that is not used, and a store that was not added, show nothing; and after
// Close no store is read.
func TestClose(t *testing.T) {
	c := collect(t)
	second, err := slidingotel.New(&slidingotel.Options{TracerProvider: c.tracer})
	ok(t, err)
	ok(t, second.Close())
	s := lived(t, c)
	ok(t, c.tel.Close())
	if m, there := c.metrics()["slidingttl.reads"]; there {
		t.Errorf("after Close a store is read: %v", samples(m))
	}
	ok(t, s.Close(context.Background()))
}

// Metrics are collected beside the calls that they count.
func TestRace(t *testing.T) {
	c := collect(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			c.metrics()
		}
	}()
	lived(t, c)
	<-done
}
