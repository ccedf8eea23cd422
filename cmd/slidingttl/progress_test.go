package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// Without a terminal a line of log tells now and then how far an operation is.
func TestProgress(t *testing.T) {
	_, uri := sessionsIn(t, 120)
	_, errs := command(t, 0, "adopt", uri, "--policy", thirty, "--rate", "400", "--progress", "1ns")
	for _, want := range []string{`level=INFO msg=adopt at="20 records, \d+ writes, 0 of 4 segments done"`, `at="120 records, \d+ a second, 120 writes, 4 of 4 segments done"`} {
		if !regexp.MustCompile(want).MatchString(errs) {
			t.Errorf("%s is not in\n%s", want, errs)
		}
	}
}

// Prometheus reads how far an operation is while it runs.
func TestMetrics(t *testing.T) {
	_, uri := sessionsIn(t, 500)
	l := must(net.Listen("tcp", "localhost:0"))(t)
	address := l.Addr().String()
	_ = l.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int)
	go func() {
		args := []string{"adopt", uri, "--policy", thirty, "--rate", "20", "--metrics", address}
		ended <- run(ctx, args, streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	}()
	want := regexp.MustCompile(`(?m)^slidingttl_operation_records_total\{operation="adopt"\} [1-9]\d*$`)
	for body := ""; !want.MatchString(body); {
		if ctx.Err() != nil {
			t.Fatalf("the metrics are\n%s", body)
		}
		res, err := http.Get("http://" + address + "/metrics")
		if err != nil {
			continue // it does not serve yet
		}
		all := must(io.ReadAll(res.Body))(t)
		_ = res.Body.Close()
		body = string(all)
	}
	_, errs := command(t, exitUsage, "audit", uri, "--policy", thirty, "--metrics", address)
	if !strings.Contains(errs, "--metrics: listen") {
		t.Errorf("a second one at the same address says\n%s", errs)
	}
	post := func(path string, want int, has string) {
		t.Helper()
		res := must(http.Post("http://"+address+path, "", nil))(t)
		defer res.Body.Close()
		if body := string(must(io.ReadAll(res.Body))(t)); res.StatusCode != want || !strings.Contains(body, has) {
			t.Errorf("%s answers %d %s; want %d, %s", path, res.StatusCode, body, want, has)
		}
	}
	post("/limits?writes=-1", http.StatusBadRequest, "writes")
	post("/limits?write=1", http.StatusBadRequest, "write")
	post("/limits", http.StatusBadRequest, "must be POST /limits?")
	post("/limits?writes=7;rate=3", http.StatusBadRequest, "must be POST /limits?")
	post("/limits?rate=0&writes=7", http.StatusOK, "paused false, rate 0, writes 7")
	post("/pause", http.StatusOK, "paused true")
	foreign := must(http.NewRequest(http.MethodPost, "http://"+address+"/resume", nil))(t)
	foreign.Header.Set("Origin", "https://example.com")
	res := must(http.DefaultClient.Do(foreign))(t)
	_ = res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a page steers: %d", res.StatusCode)
	}
	stop()
	if code := <-ended; code != exitStopped {
		t.Errorf("it exits with %d", code)
	}
}

// Where the store says about how many records it has, progress says how much is left, and
// never more than all.
func TestProgressOfAbout(t *testing.T) {
	g := &progress{about: 1000, first: &upkeep.Progress{Records: 100, Elapsed: time.Second}}
	for records, want := range map[int64]string{
		300:  "300 of about 1000 records (30 %), 100 a second, about 7s left, 0 writes, 0 of 2 segments done",
		1200: "1200 of about 1200 records (100 %), 550 a second, 0 writes, 0 of 2 segments done",
	} {
		if got := g.text(upkeep.Progress{Records: records, Elapsed: 3 * time.Second, Segments: 2}); got != want {
			t.Errorf("progress is %q; want %q", got, want)
		}
	}
}

// On a narrow terminal the line of progress takes one line.
func TestNarrowTerminal(t *testing.T) {
	var b strings.Builder
	a := app{streams: streams{err: &b, asks: true, width: func() int { return 20 }}}
	a.line("adopt: 12000 of about 300000 records")
	if want := "\r\x1b[Kadopt: 12000 of abo"; b.String() != want {
		t.Errorf("it prints %q; want %q", b.String(), want)
	}
}
