package sessions

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/internal/chart"
)

const suiteName = "sessions"

// Suite is the field of session libraries.
func Suite() runner.Suite {
	s := runner.Suite{Name: suiteName, Run: measure, Smoke: task{Path: "/read", For: time.Millisecond}}
	for _, r := range rivals {
		s.Contestants = append(s.Contestants, runner.Serving(r.name, func() (func(task) (runner.Sample, error), error) {
			c := new(checks)
			v := r.open(c)
			cookie, err := v.login()
			return func(t task) (runner.Sample, error) {
				sample := v.requests(t, cookie)
				return sample, c.err()
			}, err
		}))
	}
	return s
}

// task is requests of a path for a while.
type task struct {
	Path string
	For  time.Duration
}

func (t task) name() string { return t.Path }

// requests makes one request after the other.
func (v rival) requests(t task, cookie string) runner.Sample {
	w := &sink{http.Header{}}
	r := httptest.NewRequest("GET", t.Path, nil)
	r.Header.Set("Cookie", cookie)
	request := func() {
		clear(w.header)
		// A fresh context, as each request has: gorilla keeps its sessions there.
		v.site.ServeHTTP(w, r.WithContext(context.Background()))
	}
	request()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	writes := v.writes.Load()
	n := 0
	began := time.Now()
	for n == 0 || time.Since(began) < t.For {
		for range 16 {
			request()
		}
		n += 16
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	return runner.Sample{
		"ns":     float64(took.Nanoseconds()) / float64(n),
		"allocs": float64(after.Mallocs-before.Mallocs) / float64(n),
		"writes": float64(v.writes.Load()-writes) / float64(n),
	}
}

func measure(p runner.Plan) (r runner.Report, err error) {
	length := runner.Pick(p, 60*time.Millisecond, 20*time.Millisecond)
	tasks := []task{{"/read", length}, {"/write", length}}
	var names []string
	for _, r := range rivals {
		names = append(names, r.name)
	}
	var results *runner.Results
	err = runner.With(suiteName, names, func(workers []*runner.Worker) (err error) {
		results, err = runner.Rounds(p, runner.Pick(p, 21, 7), workers, tasks, task.name)
		return err
	})
	if err != nil {
		return r, err
	}
	return report(results), nil
}

func report(results *runner.Results) runner.Report {
	figure := func(name string, value float64, op string, bound float64) runner.Figure {
		return runner.Figure{Name: suiteName + "/" + name, Value: value, Op: op, Bound: bound}
	}
	r := runner.Report{
		Title: "Sessions",
		Text: fmt.Sprintf(`A request's handler reads a small session, or changes it; the store is the library's own in
memory, the idle timeout %v, the absolute one %v. gorilla/sessions knows neither, and has no
store in memory: its file store's logic is given a map for the files. No touch is due.`, idleTimeout, lifetime),
		Figures: []runner.Figure{
			figure("read/vs-scs", results.Ratio(own, scsName, "/read", "ns"), "<=", 0.12),
			figure("read/allocs", math.Round(results.Median(own, "/read", "allocs")), "<=", 30),
			figure("read/writes", results.Median(own, "/read", "writes"), "<=", 0),
			figure("write/vs-scs", results.Ratio(own, scsName, "/write", "ns"), "<=", 0.3),
		},
	}
	t := runner.Table{Title: "A request with a session", Head: []string{"library"}}
	bars := chart.Bars{File: "sessions", Title: "A request with a session", Unit: "µs per request (less is better)"}
	for _, path := range []string{"/read", "/write"} {
		what := map[string]string{"/read": "reads its session", "/write": "changes its session"}[path]
		t.Head = append(t.Head, what+", µs", "allocations", "store writes")
		g := chart.Group{Title: "A request that " + what}
		for _, r := range rivals {
			g.Bars = append(g.Bars, chart.Bar{Label: r.name, Value: results.Median(r.name, path, "ns") / 1e3, Own: r.name == own})
		}
		bars.Groups = append(bars.Groups, g)
	}
	for _, r := range rivals {
		row := []string{r.name}
		for _, path := range []string{"/read", "/write"} {
			row = append(row,
				fmt.Sprintf("%.2f", results.Median(r.name, path, "ns")/1e3),
				fmt.Sprintf("%.0f", results.Median(r.name, path, "allocs")),
				fmt.Sprintf("%.0f", results.Median(r.name, path, "writes")))
		}
		t.Rows = append(t.Rows, row)
	}
	r.Tables, r.Charts = []runner.Table{t}, []chart.Bars{bars}
	return r
}
