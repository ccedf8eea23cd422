// Bench measures slidingttl beside the libraries that users would pick instead, in
// one go. It prints progress on standard error, and on standard output one line a
// figure:
//
//	figure NAME VALUE target OP BOUND ok|short
//
// without a target if there is none. It writes RESULTS.md and the charts to the directory
// given by -out, and the performance section of the file given by -readme. With -against it
// instead compares slidingttl's hits and inserts with another commit's, and only prints
// figures. A missed target is no error.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/slidingttl/slidingttl/bench/internal/follow"
	"github.com/slidingttl/slidingttl/bench/internal/gorilla"
	"github.com/slidingttl/slidingttl/bench/internal/inmemory"
	"github.com/slidingttl/slidingttl/bench/internal/pressure"
	"github.com/slidingttl/slidingttl/bench/internal/rows"
	"github.com/slidingttl/slidingttl/bench/internal/runner"
	"github.com/slidingttl/slidingttl/bench/internal/sessions"
	"github.com/slidingttl/slidingttl/bench/internal/simulation"
	"github.com/slidingttl/slidingttl/bench/internal/stores"
)

// suites are the fields of competition, in the order of the report.
func suites() []runner.Suite {
	return []runner.Suite{
		inmemory.Suite(),
		sessions.Suite(),
		gorilla.Suite(),
		simulation.Suite(),
		pressure.Suite(),
		follow.Suite(),
		stores.Couchbase(),
		stores.DynamoDB(),
		stores.Cosmos(),
		stores.Hot(),
		stores.Redis(),
		stores.PostgreSQL(),
		stores.Durable(),
		stores.MariaDB(),
		stores.SQLite(),
		rows.Suite(),
		stores.Retain(),
	}
}

func main() {
	log.SetFlags(0)
	if worker, err := runner.ServeIfWorker(suites()); worker {
		if err != nil {
			log.Fatal(err)
		}
		return
	}
	quick := flag.Bool("quick", false, "fewer rounds, two to three minutes in all")
	only := flag.String("only", "", "suites to run, by name, with commas between; empty: all")
	out := flag.String("out", ".", "directory for RESULTS.md and the charts")
	readme := flag.String("readme", "", "file whose performance section is to be written anew")
	against := flag.String("against", "", "this program built from another commit: measure hits and inserts of both by turns, and nothing else")
	flag.Parse()
	if *against != "" {
		if err := compare(*quick, *against); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(*quick, *only, *out, *readme); err != nil {
		log.Fatal(err)
	}
}

func newPlan(quick bool, began time.Time) runner.Plan {
	return runner.Plan{Quick: quick, Log: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
	}}
}

func compare(quick bool, exe string) error {
	report, err := inmemory.Compare(newPlan(quick, time.Now()), exe)
	for _, f := range report.Figures {
		fmt.Println(f)
	}
	return err
}

func run(quick bool, only, out, readme string) error {
	began := time.Now()
	plan := newPlan(quick, began)
	doc := document{began: began, quick: quick}
	for _, s := range suites() {
		if only != "" && !slices.Contains(strings.Split(only, ","), s.Name) {
			continue
		}
		plan.Log("%s", s.Name)
		report, err := s.Run(plan)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, f := range report.Figures {
			fmt.Println(f)
		}
		doc.reports = append(doc.reports, report)
	}
	doc.took = time.Since(began)
	return doc.write(out, readme)
}
