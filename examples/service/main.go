// Service is a repository behind HTTP with everything that an operator needs. It has traces
// and metrics, a log, policies from a file that it follows, readiness, and a shutdown in
// the right order. docs/operations.md explains how to run it. Both addresses have a page at /.
//
//	go run ./examples/service
//	curl -X PUT -d '{"name":"ann"}' http://localhost:8082/profiles/4711
//	curl http://localhost:8082/profiles/4711
//	curl http://localhost:8083/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/slidingttl/slidingttl/examples/internal/backend"
)

// config is what the command line says.
type config struct {
	addr, admin string
	policies    string // a file; "": a new one
	spans       string // a file; "": none
	follow      time.Duration
	linger      time.Duration
	grace       time.Duration
	backend     backend.Choice
	log         *slog.Logger
}

func main() {
	c := config{log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	flag.StringVar(&c.addr, "addr", "localhost:8082", "address of the service")
	flag.StringVar(&c.admin, "admin", "localhost:8083", "address of /metrics, /healthz and /readyz")
	flag.StringVar(&c.policies, "policies", "", "file of policies, followed while the service runs; if empty, one is made")
	flag.StringVar(&c.spans, "spans", "", "file to which spans are written, as JSON")
	flag.DurationVar(&c.follow, "follow", 10*time.Second, "how often to look at the file of policies")
	flag.DurationVar(&c.linger, "linger", 0, "how long /readyz says no before the service stops to accept: longer than a load balancer takes to see it")
	flag.DurationVar(&c.grace, "grace", 20*time.Second, "how long a shutdown may take")
	c.backend.Flags()
	flag.Parse()
	if err := run(c); err != nil {
		c.log.Error("service failed", "error", err)
		os.Exit(1)
	}
}

func run(c config) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, err := start(ctx, c)
	if err != nil {
		return err
	}
	var failed error
	select {
	case <-ctx.Done():
	case failed = <-s.failed:
	}
	stop() // a second signal ends the program at once
	ctx, cancel := context.WithTimeout(context.Background(), c.grace)
	defer cancel()
	return errors.Join(failed, s.stop(ctx))
}
