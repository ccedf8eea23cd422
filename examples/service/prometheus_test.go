package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/rueidis"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/telemetry/slidingprom"
)

// hurry makes the rules look at seconds instead of minutes.
var hurry = strings.NewReplacer("[5m]", "[5s]", "[10m]", "[5s]", "[15m]", "[5s]", "for: 2m", "for: 500ms", "for: 5m", "for: 500ms",
	"4 * 3600\n        for: 15m", "4 * 3600\n        for: 500ms")

// monitor is a Prometheus that scrapes a service by the rules of ../../telemetry.
type monitor struct {
	t       *testing.T
	address string
}

func startPrometheus(t *testing.T, target string) *monitor {
	t.Helper()
	rules, err := os.ReadFile("../../telemetry/alerts.yml")
	ok(t, err)
	dir := t.TempDir()
	ok(t, os.WriteFile(filepath.Join(dir, "alerts.yml"), []byte(hurry.Replace(string(rules))), 0o600))
	ok(t, os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(fmt.Sprintf(`
global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [alerts.yml]
scrape_configs:
- job_name: service
  static_configs: [{targets: ["%s"]}]
`, target)), 0o600))
	p := &monitor{t: t, address: freeAddress(t)}
	var output bytes.Buffer
	cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+p.address, "--log.level=warn")
	cmd.Stdout, cmd.Stderr = &output, &output
	ok(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus says:\n%s", output.String())
		}
	})
	until(t, "Prometheus is ready", func() bool {
		status, _ := do(http.MethodGet, p.address, "/-/ready", "")
		return status == http.StatusOK
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "localhost:0")
	ok(t, err)
	defer l.Close()
	return l.Addr().String()
}

// ask reads the answer of Prometheus's API into data.
func (p *monitor) ask(path string, data any) {
	p.t.Helper()
	_, body := do(http.MethodGet, p.address, "/api/v1/"+path, "")
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Status != "success" {
		p.t.Fatalf("%s: %v %s %s", path, err, answer.Error, body)
	}
}

// firing returns the names of the alerts that fire.
func (p *monitor) firing() map[string]bool {
	var data struct {
		Alerts []struct {
			Labels map[string]string
			State  string
		}
	}
	p.ask("alerts", &data)
	found := make(map[string]bool)
	for _, a := range data.Alerts {
		if a.State == "firing" && a.Labels["store"] == storeName {
			found[a.Labels["alertname"]] = true
		}
	}
	return found
}

// scraped returns a service over Redis that has five profiles, and the Prometheus that scrapes it.
func scraped(t *testing.T) (admin rueidis.Client, r *running, p *monitor) {
	t.Helper()
	server := redistest.Start(t)
	admin = server.Client(t)
	policies := filepath.Join(t.TempDir(), "policies.json")
	ok(t, os.WriteFile(policies, []byte(quick), 0o600))
	r = serve(t, backend.Choice{Driver: "redis", Address: "redis://" + server.Addr}, policies)
	p = startPrometheus(t, r.s.admin.address())
	for i := range 5 {
		r.want(http.StatusNoContent, "PUT", fmt.Sprint("/profiles/", secret, i), `{"name":"ann"}`)
	}
	return admin, r, p
}

// Prometheus scrapes the service, alerts when its store takes no writes, and stops when
// it does again; reads are answered throughout.
func TestAlerts(t *testing.T) {
	admin, r, p := scraped(t)
	ctx, stop := context.WithCancel(t.Context())
	var reading sync.WaitGroup
	defer reading.Wait()
	defer stop()
	reading.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			if status, body := r.do("GET", fmt.Sprint("/profiles/", secret, i%5), ""); status != http.StatusOK {
				t.Errorf("a read was answered %d %s", status, body)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	quiet := func() bool { return len(p.firing()) == 0 }
	var written struct{ Result []any }
	until(t, "Prometheus has seen touches", func() bool {
		p.ask("query?query="+url.QueryEscape(`slidingttl_touches_total{outcome="written"} > 0`), &written)
		return len(written.Result) > 0
	})
	if !quiet() {
		t.Fatalf("before anything is broken: %v", p.firing())
	}

	writable(t, admin, false)
	fired := make(map[string]bool)
	until(t, "the alerts fire", func() bool {
		maps.Copy(fired, p.firing())
		return fired["SlidingTTLBreakerOpen"] && fired["SlidingTTLTouchesFailing"]
	})
	p.board(t, false)
	writable(t, admin, true)
	until(t, "the alerts clear", quiet)
	stop()
	reading.Wait()
	ok(t, r.end())
	if st := r.s.store.Stats(); st.Misses != 0 || st.Shed != 0 || st.Pending != 0 {
		t.Errorf("records died, or touches were lost: %+v", st)
	}
}

// The alert of the breaker is off within a minute of the last touch that failed, also where no
// touch is due any more: the records whose touches were refused are gone, and all reads miss.
func TestBreakerAlertEnds(t *testing.T) {
	admin, r, p := scraped(t)
	writable(t, admin, false)
	open := func() bool { return p.firing()["SlidingTTLBreakerOpen"] }
	until(t, "the alert fires", func() bool {
		for i := range 5 {
			r.want(http.StatusOK, "GET", fmt.Sprint("/profiles/", secret, i), "")
		}
		return open()
	})
	failed, last := r.s.store.Stats().TouchFails, time.Now()
	until(t, "touches have failed time and again", func() bool {
		return r.s.store.Stats().TouchFails >= failed+3 // each is tried after a longer rest
	})
	writable(t, admin, true)
	ok(t, admin.Do(t.Context(), admin.B().Flushdb().Build()).Error())
	for failed = 0; open(); {
		r.want(http.StatusNotFound, "GET", "/profiles/nobody", "")
		if n := r.s.store.Stats().TouchFails; n != failed {
			failed, last = n, time.Now()
		}
		if time.Since(last) > time.Minute {
			t.Fatalf("the alert fires a minute after the last failure: %+v", r.s.store.Stats())
		}
	}
	t.Logf("the alert is off %v after the last failure", time.Since(last).Round(100*time.Millisecond))
	ok(t, r.end())
}

// board wants every panel of the dashboard to show something, of those on archives or of the
// others.
func (p *monitor) board(t *testing.T, archives bool) {
	t.Helper()
	content, err := os.ReadFile("../../telemetry/dashboard.json")
	ok(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	ok(t, json.Unmarshal(content, &board))
	fill := strings.NewReplacer("$__rate_interval", "5s", "$job", ".*", "$store", ".*")
	until(t, "every panel shows something", func() bool {
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				if strings.Contains(target.Expr, "slidingttl_archive_") != archives {
					continue
				}
				var data struct{ Result []any }
				if p.ask("query?query="+url.QueryEscape(fill.Replace(target.Expr)), &data); len(data.Result) == 0 {
					t.Logf("not yet: %s, %s", panel.Title, target.Expr)
					return false
				}
			}
		}
		return true
	})
}

// Prometheus alerts when nobody has looked for five hours what has died, and stops when somebody
// does again.
func TestArchiveLagAlert(t *testing.T) {
	var behind atomic.Int64
	c := slidingprom.New()
	ok(t, c.AddArchive(storeName, &archive.Archiver{Through: func() time.Time { return time.Now().Add(-time.Duration(behind.Load())) }}))
	r := prometheus.NewRegistry()
	ok(t, r.Register(c))
	target := httptest.NewServer(promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	t.Cleanup(target.Close)
	p := startPrometheus(t, target.Listener.Addr().String())
	var seen struct{ Result []any }
	until(t, "Prometheus has seen the lag", func() bool {
		p.ask("query?query=slidingttl_archive_lag_seconds", &seen)
		return len(seen.Result) > 0
	})
	if fired := p.firing(); len(fired) > 0 {
		t.Fatalf("while nothing is behind: %v", fired)
	}
	p.board(t, true)
	behind.Store(int64(5 * time.Hour))
	until(t, "the alert fires", func() bool { return p.firing()["SlidingTTLArchiveLags"] })
	behind.Store(0)
	until(t, "the alert clears", func() bool { return len(p.firing()) == 0 })
}
