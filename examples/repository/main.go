// Repository shows an existing repository before and after slidingttl.Wrap. It has its own
// calls to its store. After Wrap it has the same Get and Upsert, and its profiles die of
// idleness and of age. The program starts a store, and moves its clock.
//
//	go run ./examples/repository -driver redis
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"time"

	"github.com/slidingttl/slidingttl/slidingttl"
)

const day = 24 * time.Hour

// profile is the record that this team has stored for years, with created_at.
type profile struct {
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

var errNoProfile = errors.New("no such profile")

// repository is the interface that the rest of the application uses.
type repository = slidingttl.Repository[string, profile]

func main() {
	log.SetFlags(0)
	driver := flag.String("driver", "couchbase", "where the profiles are kept: "+drivers)
	flag.Parse()
	if err := run(context.Background(), *driver, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string, out io.Writer) (err error) {
	t, err := open(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Close()) }()

	// Before: profiles that nobody ever deletes.
	if err := live(ctx, "before", t.repo, t.clock, out); err != nil {
		return err
	}

	// After: the same repository, wrapped.
	d, err := t.driver(ctx)
	if err != nil {
		return err
	}
	policy := slidingttl.Policy{IdleGrace: 30 * day, MaxLifetime: 90 * day, Slack: 3 * day}
	store, err := slidingttl.New(d, policy, &slidingttl.Options[profile]{
		Now:    t.clock.Now,
		Strict: true, // a read waits for its touch to the end, so that the clock stands still meanwhile
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(ctx)) }()
	after, err := slidingttl.Wrap(t.repo, store, profileKey, &slidingttl.WrapOptions[profile]{
		CreatedAt: func(p profile) time.Time { return p.CreatedAt },
		NotFound:  errNoProfile,
	})
	if err != nil {
		return err
	}
	return live(ctx, "after", after, t.clock, out)
}

// profileKey is the key under which the repositories keep the profile of id.
func profileKey(id string) string { return "profile::" + id }

// live writes two profiles, reads one of them every ten days, and tells how long the
// two are there.
func live(ctx context.Context, title string, repo repository, clock clock, out io.Writer) error {
	p := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	p("%s:", title)
	idle, read := title+"-idle", title+"-read"
	start := clock.Now()
	for _, id := range []string{idle, read} {
		if err := repo.Upsert(ctx, id, profile{Name: "ann", CreatedAt: start}); err != nil {
			return err
		}
	}
	for clock.Now().Sub(start) < 120*day {
		clock.Advance(10 * day)
		if _, err := repo.Get(ctx, read); err != nil {
			p("  a profile read every ten days is gone on day %d: %v", int(clock.Now().Sub(start)/day), err)
			break
		}
	}
	if _, err := repo.Get(ctx, read); err == nil {
		p("  a profile read every ten days is there after 120 days")
	}
	switch _, err := repo.Get(ctx, idle); {
	case err == nil:
		p("  one that nobody read is there too")
	default:
		p("  one that nobody read is gone too: %v", err)
	}
	return nil
}
