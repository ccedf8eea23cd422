package slidingprom_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/internal/metrics"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/policyfile"
	"github.com/slidingttl/slidingttl/telemetry/slidingprom"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "a-session-token"

var session = slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// archived is where the dead of a store go.
type archived driver.BuryStats

func (a archived) Stats() driver.BuryStats { return driver.BuryStats(a) }

// refused is a file of policies that does not count as it is.
type refused struct{}

func (refused) LastReload() (bool, time.Time) { return false, time.Unix(7, 0) }

// failing hides that a driver's store is in memory, and can refuse touches.
type failing struct {
	driver.Driver[string]
	touch error
}

func (f *failing) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	if f.touch != nil {
		return 0, f.touch
	}
	return f.Driver.Touch(ctx, key, was, life, now)
}

// lived adds a store to c that something of each kind has happened to.
func lived(t *testing.T, c *slidingprom.Collector, name string) *slidingttl.Store[string] {
	t.Helper()
	m, err := memory.New[string](nil)
	ok(t, err)
	t.Cleanup(func() { ok(t, m.Close()) })
	d := &failing{Driver: m}
	observer, err := c.Observer(name)
	ok(t, err)
	told := make(chan struct{}, 2)
	observe := observer.Touch
	observer.Touch = func(ctx context.Context, e slidingttl.TouchEvent) {
		observe(ctx, e)
		told <- struct{}{}
	}
	var ahead atomic.Int64
	start := time.Now()
	s, err := slidingttl.New(driver.Driver[string](d), session, &slidingttl.Options[string]{
		Now:      func() time.Time { return start.Add(time.Duration(ahead.Load())) },
		Observer: observer,
		Strict:   true, // what fails is not tried again
	})
	ok(t, err)
	t.Cleanup(func() { ok(t, s.Close(context.Background())) })
	ok(t, c.Add(name, s))
	ok(t, c.AddArchive(name, archived{Records: 7, Bytes: 700, Quarantined: 1, Failures: 2, Through: time.Now()}))
	ok(t, c.AddPolicies(name, refused{}))
	ok(t, s.Insert(t.Context(), secret, "v"))
	ahead.Add(int64(10 * time.Minute))
	_, err = s.Get(t.Context(), secret) // touches
	ok(t, err)
	ahead.Add(int64(10 * time.Minute))
	d.touch = errors.New("disk on fire")
	if _, err = s.Get(t.Context(), secret); !errors.Is(err, d.touch) {
		t.Errorf("a strict read says %v", err)
	}
	ahead.Add(int64(session.IdleGrace))
	_, _ = s.Get(t.Context(), secret) // dead
	_, _ = s.Get(t.Context(), "nobody")
	<-told
	<-told
	return s
}

func registry(t *testing.T, c *slidingprom.Collector) *prometheus.Registry {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	ok(t, r.Register(c))
	return r
}

// What happened to two stores is in their metrics, each by its name.
func TestMetrics(t *testing.T) {
	c := slidingprom.New()
	r := registry(t, c)
	lived(t, c, "profiles")
	st := lived(t, c, "sessions").Stats()
	if st.Hits != 2 || st.Misses != 2 || st.DiedIdle != 1 || st.Touched != 1 || st.TouchFails != 1 || st.Broken == 0 {
		t.Fatalf("not the life that was meant: %+v", st)
	}
	var want strings.Builder
	head := func(m metrics.Metric) {
		fmt.Fprintf(&want, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", m.Prometheus(), m.Help, m.Kind)
	}
	for _, m := range metrics.Metrics() {
		switch m.Name {
		case "slidingttl.reads":
			head(m)
			for _, store := range []string{"profiles", "sessions"} {
				fmt.Fprintf(&want, "slidingttl_reads_total{outcome=\"hit\",store=%q} 2\n", store)
				fmt.Fprintf(&want, "slidingttl_reads_total{outcome=\"miss\",store=%q} 2\n", store)
			}
		case "slidingttl.reads.died":
			head(m)
			for _, store := range []string{"profiles", "sessions"} {
				fmt.Fprintf(&want, "slidingttl_reads_died_total{cause=\"age\",store=%q} 0\n", store)
				fmt.Fprintf(&want, "slidingttl_reads_died_total{cause=\"idle\",store=%q} 1\n", store)
			}
		case "slidingttl.archive.written":
			head(m)
			for _, store := range []string{"profiles", "sessions"} {
				fmt.Fprintf(&want, "slidingttl_archive_written_bytes_total{store=%q} 700\n", store)
			}
		case "slidingttl.promise.broken":
			head(m)
			for _, store := range []string{"profiles", "sessions"} {
				fmt.Fprintf(&want, "slidingttl_promise_broken_seconds_total{store=%q} %v\n", store, st.Broken.Seconds())
			}
		}
	}
	ok(t, testutil.GatherAndCompare(r, strings.NewReader(want.String()),
		"slidingttl_archive_written_bytes_total", "slidingttl_reads_total", "slidingttl_reads_died_total", "slidingttl_promise_broken_seconds_total"))

	families, err := r.Gather()
	ok(t, err)
	counts := make(map[string]uint64)
	for _, f := range families {
		if strings.Contains(f.String(), secret) {
			t.Errorf("%s holds the key", f.GetName())
		}
		for _, m := range f.Metric {
			if m.Histogram == nil {
				continue
			}
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			counts[f.GetName()+" "+strings.Join(labels, " ")] = m.Histogram.GetSampleCount()
		}
	}
	wantCounts := make(map[string]uint64)
	for _, store := range []string{"profiles", "sessions"} {
		wantCounts["slidingttl_touch_duration_seconds error_type=_OTHER outcome=failed store="+store] = 1
		wantCounts["slidingttl_touch_duration_seconds error_type= outcome=written store="+store] = 1
		wantCounts["slidingttl_touch_left_seconds outcome=failed store="+store] = 1
		wantCounts["slidingttl_touch_left_seconds outcome=written store="+store] = 1
	}
	if !maps.Equal(counts, wantCounts) {
		t.Errorf("histograms %v\nwant %v", counts, wantCounts)
	}
}

// The names exported are those of package telemetry, all of them and no others, as
// Prometheus would have them.
func TestNames(t *testing.T) {
	c := slidingprom.New()
	r := registry(t, c)
	lived(t, c, "sessions")
	families, err := r.Gather()
	ok(t, err)
	got, want := make(map[string]string), make(map[string]string)
	for _, f := range families {
		got[f.GetName()] = strings.ToLower(f.GetType().String()) + " " + f.GetHelp()
	}
	for _, m := range metrics.Metrics() {
		want[m.Prometheus()] = string(m.Kind) + " " + m.Help
	}
	if !maps.Equal(got, want) {
		t.Errorf("exported\n%v\ndocumented\n%v", got, want)
	}
	problems, err := testutil.GatherAndLint(r)
	ok(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A name is one store's, and one observer's; a registry has one collector.
func TestNamesAreRefusedTwice(t *testing.T) {
	c := slidingprom.New()
	r := registry(t, c)
	s := lived(t, c, "sessions")
	for what, f := range map[string]func(string) error{
		"observer": func(name string) error { _, err := c.Observer(name); return err },
		"store":    func(name string) error { return c.Add(name, s) },
		"archive":  func(name string) error { return c.AddArchive(name, archived{}) },

		"file of policies": func(name string) error { return c.AddPolicies(name, refused{}) },
	} {
		ok(t, f("profiles"))
		for name, value := range map[string]string{"sessions": `"sessions"`, "": "empty", "caf\xe9": `"caf\xe9"`} {
			var invalid *slidingttl.InvalidError
			if err := f(name); !errors.As(err, &invalid) || invalid.Field != "name of "+what || invalid.Value != value {
				t.Errorf("%s %q: %v, want an InvalidError that names it", what, name, err)
			}
		}
	}
	var twice prometheus.AlreadyRegisteredError
	if err := r.Register(slidingprom.New()); !errors.As(err, &twice) {
		t.Errorf("a second collector: %v, want an AlreadyRegisteredError", err)
	}
}

// A file of policies that is refused shows as 0 until it counts again, and the time is that of
// what is in force.
func TestPolicyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.json")
	write := func(content string) {
		ok(t, os.WriteFile(path+".new", []byte(content), 0o600))
		ok(t, os.Rename(path+".new", path))
	}
	synctest.Test(t, func(t *testing.T) {
		write(`{"web": {"idle_grace": "30m", "max_lifetime": "12h"}}`)
		f, err := policyfile.Open(path, "web")
		ok(t, err)
		c := slidingprom.New()
		ok(t, c.AddPolicies("sessions", f))
		r := registry(t, c)
		want := func(successful int, accepted time.Time) {
			t.Helper()
			var text strings.Builder
			for _, m := range metrics.Metrics() {
				var is any = successful
				if !strings.HasPrefix(m.Name, "slidingttl.policy.") {
					continue
				} else if m.Unit == "s" {
					is = float64(accepted.UnixNano()) / 1e9
				}
				fmt.Fprintf(&text, "# HELP %[1]s %[2]s\n# TYPE %[1]s gauge\n%[1]s{store=\"sessions\"} %[3]v\n", m.Prometheus(), m.Help, is)
			}
			ok(t, testutil.GatherAndCompare(r, strings.NewReader(text.String())))
		}
		opened := time.Now()
		want(1, opened)

		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Follow(ctx, nil, &policyfile.Options{Interval: time.Minute}) }()
		scrape := func() {
			time.Sleep(time.Minute)
			synctest.Wait()
		}
		scrape()
		write(`{"web": {"idle_grace": "30d", "max_lifetime": "12h"}}`)
		scrape()
		want(0, opened)
		scrape()
		want(0, opened)
		write(`{"web": {"idle_grace": "30m", "max_lifetime": "8h"}}`)
		scrape()
		want(1, time.Now())
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Metrics are gathered beside the calls that they count.
func TestRace(t *testing.T) {
	c := slidingprom.New()
	r := registry(t, c)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 20 {
			_, err := r.Gather()
			if err != nil {
				t.Error(err)
			}
		}
	}()
	lived(t, c, "sessions")
	<-done
}
