package main

import (
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// serve serves g to Prometheus, at address, until the function returned is called.
func (g *progress) serve(address string) (stop func(), err error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("%w: --metrics: %w", errUsage, err)
	}
	paths := http.NewServeMux()
	paths.Handle("/", g)
	for _, path := range []string{"/pause", "/resume", "/limits"} {
		paths.Handle(path, &g.steering)
	}
	s := &http.Server{Handler: paths, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(l) }()
	return func() { _ = s.Close() }, nil
}

// ServeHTTP implements http.Handler, in Prometheus's text format.
func (g *progress) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	var p upkeep.Progress
	if now := g.last.Load(); now != nil {
		p = *now
	}
	limits, halted := g.now()
	paused := 0.0
	if halted {
		paused = 1
	}
	for _, v := range []struct {
		name, kind, help string
		is               float64
	}{
		{"records_total", "counter", "Records read.", float64(p.Records)},
		{"passed_total", "counter", "Entries of the store that are no records.", float64(p.Passed)},
		{"failed_total", "counter", "Records that could not be read or written.", float64(p.Failed)},
		{"writes_total", "counter", "Writes attempted; in a dry run, writes that would be made.", float64(p.Writes)},
		{"cost_total", "counter", "Cost of the scan, in the store's own unit.", p.Cost},
		{"segments", "gauge", "Segments in all.", float64(p.Segments)},
		{"segments_done", "gauge", "Segments done.", float64(p.Done)},
		{"expected_records", "gauge", "The store's estimate of its records; 0 if it has none.", float64(g.about)},
		{"writes_limit", "gauge", "The most writes a second; 0: no limit.", limits.Writes},
		{"paused", "gauge", "1 during a pause.", paused},
		{"seconds", "gauge", "Duration of this run.", p.Elapsed.Seconds()},
	} {
		name := "slidingttl_operation_" + v.name
		_, _ = fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s{operation=%q} %v\n", name, v.help, name, v.kind, name, g.operation, v.is)
	}
}
