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
// the rest. With -archive the archive outlives the program, in a directory or in S3.
//
// With -lambda too this program does not read the stream: examples/lambda, deployed on it,
// archives the events, and this program finds them in the same archive:
//
//	go run ./examples/lifecycle -driver dynamodb -address https://dynamodb.eu-central-1.amazonaws.com \
//		-archive s3://bucket/events -lambda -day 24h
//
// The function then has DEAD_ARCHIVE=s3://bucket/events, DEAD_TABLE=slidingttl-lifecycle,
// DEAD_PREFIX=EVENT#, DEAD_SORT=EVENT and DEAD_POLICY="idle 7d, max 30d".
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
	"github.com/slidingttl/slidingttl/examples/internal/bucket"
	"github.com/slidingttl/slidingttl/examples/internal/web"
	"github.com/slidingttl/slidingttl/slidingttl"
)

type config struct {
	addr, archive string
	lambda        bool // archives, in this program's place
	day           time.Duration
	store         backend.Choice
	costs         costs
}

func main() {
	c := config{costs: listPrices}
	c.costs.flags(flag.CommandLine)
	flag.StringVar(&c.addr, "addr", "localhost:8084", "address to listen on")
	flag.StringVar(&c.archive, "archive", "", "the archive: a directory or s3://bucket/prefix; if empty, a directory that goes with the program")
	flag.BoolVar(&c.lambda, "lambda", false, "examples/lambda archives the events, and this program only finds them; needs -driver dynamodb and -archive")
	flag.DurationVar(&c.day, "day", 2*time.Second, "how long a day is, a second at least")
	flag.StringVar(&c.store.Driver, "driver", "sqlite", "where events are kept: sqlite or dynamodb")
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
	if c.lambda && (c.store.Driver != "dynamodb" || c.archive == "") {
		return errors.New("-lambda: needs -driver dynamodb, and the -archive that the function writes")
	}
	if c.archive == "" {
		if c.archive, err = os.MkdirTemp("", "slidingttl-lifecycle-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(c.archive)) }()
	}
	b, err := bucket.Open(ctx, c.archive)
	if err != nil {
		return fmt.Errorf("-archive: %w", err)
	}
	rules := rulesOf(c.day)
	var g *archive.Archiver // nil: the function has it
	if !c.lambda {
		if g, err = newArchiver(b, rules, nil); err != nil {
			return err
		}
	}
	s, err := open(ctx, c.store, g, rules)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	events, err := newEvents(s, b, rules, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, events.Close(context.Background())) }()
	events.costs = c.costs

	server := &http.Server{Addr: c.addr, Handler: web.Within(5*time.Second, events.handler()), ReadHeaderTimeout: 10 * time.Second}
	log.Printf("listening on http://%s, events in %s, the archive in %s", c.addr, s.about, c.archive)
	return web.Serve(ctx, server, server.ListenAndServe)
}

// newArchiver archives the events that leave the store. now is the time; nil: the system's.
func newArchiver(b archive.Bucket, r rules, now func() time.Time) (*archive.Archiver, error) {
	w, err := archive.NewWriter(b, &archive.WriterOptions{Now: now})
	if err != nil {
		return nil, err
	}
	return &archive.Archiver{
		Writer: w,
		Source: "events",
		Policy: func(string) slidingttl.Policy { return r.active },
	}, nil
}
