// Lifecycle shows the stages of an event: active, ended, history, archived. It is active while
// it is visited, or until somebody ends it. An ended event can be read and takes no comments.
// Then it is history that the store still holds, then in an archive of Parquet files. The
// program finds it in each stage. A sparse index of markers, which live shorter, lists the
// recent events. The page shows what that saves, at prices given by flags.
//
//	go run ./examples/lifecycle
//
// and open http://localhost:8084. A day is two seconds there, or what -day says.
// With -driver dynamodb events and markers share a table, and its TTL and its stream do
// the rest. With -archive the archive outlives the program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/slidingttl"
)

type config struct {
	addr, archive string
	day           time.Duration
	store         backend.Choice
	costs         costs
}

func main() {
	c := config{costs: listPrices}
	c.costs.flags(flag.CommandLine)
	flag.StringVar(&c.addr, "addr", "localhost:8084", "address to listen on")
	flag.StringVar(&c.archive, "archive", "", "directory of the archive; without it one that goes with the program")
	flag.DurationVar(&c.day, "day", 2*time.Second, "how long a day is, a second at least")
	flag.StringVar(&c.store.Driver, "driver", "memory", "where events are kept: memory or dynamodb")
	flag.StringVar(&c.store.Address, "address", "", "the URL of a DynamoDB endpoint; if empty, a test server is started")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, c); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, c config) (err error) {
	if c.day < time.Second {
		return fmt.Errorf("-day %v: must be at least a second", c.day)
	}
	if c.archive == "" {
		if c.archive, err = os.MkdirTemp("", "slidingttl-lifecycle-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.archive)) }()
	}
	bucket, err := archive.OpenDirectory(c.archive)
	if err != nil {
		return err
	}
	rules := rulesOf(c.day)
	g, err := newGrave(bucket, rules, nil)
	if err != nil {
		return err
	}
	s, err := open(ctx, c.store, g, rules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	events, err := newEvents(s, bucket, rules, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.Close(context.Background())) }()
	events.costs = c.costs

	server := &http.Server{Addr: c.addr, Handler: events.handler(), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Shutdown(context.Background())
	}()
	log.Printf("listening on http://%s, events in %s, the archive in %s", c.addr, s.about, c.archive)
	if err := server.ListenAndServe(); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// newGrave archives the events that leave the store. now is the time; nil: the system's.
func newGrave(b archive.Bucket, r rules, now func() time.Time) (*archive.Grave, error) {
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: now})
	if err != nil {
		return nil, err
	}
	return &archive.Grave{
		Writer: w,
		Source: "events",
		Policy: func(string) slidingttl.Policy { return r.active },
	}, nil
}
