package sql_test

import (
	"context"
	stdsql "database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite" // registers itself

	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is what the application keeps.
type Session struct {
	User string `json:"user"`
}

// A session that nobody uses for half an hour is gone; one in use is gone after 12 hours.
func Example() {
	ctx := context.Background()
	db, err := stdsql.Open("sqlite", "file:sessions?mode=memory&cache=shared") // or "pgx", "mysql"
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1) // a database in memory belongs to one connection

	d, err := sql.New[Session](db, sql.SQLite, "sessions", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := d.EnsureTable(ctx); err != nil { // development only
		log.Fatal(err)
	}
	now := time.Now() // held still, and moved by hand, to show hours in no time
	clock := func() time.Time { return now }
	sessions, err := slidingttl.New(d, slidingttl.Policy{
		IdleGrace:   30 * time.Minute,
		MaxLifetime: 12 * time.Hour,
		Slack:       3 * time.Minute,
	}, &slidingttl.Options[Session]{Now: clock})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = sessions.Close(ctx) }()
	if err := sessions.Check(ctx); err != nil { // once, at start-up
		log.Fatal(err)
	}
	sweeper, err := d.Sweeper(&sql.SweepOptions{Now: clock})
	if err != nil {
		log.Fatal(err)
	}

	if err := sessions.Upsert(ctx, "4711", Session{User: "ann"}); err != nil {
		log.Fatal(err)
	}
	for minutes := 0; ; minutes += 20 { // ann comes back every 20 minutes
		s, err := sessions.Get(ctx, "4711")
		if errors.Is(err, slidingttl.ErrNotFound) {
			fmt.Printf("gone after %d hours\n", minutes/60)
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if minutes == 0 {
			fmt.Printf("hello, %s\n", s.User)
		}
		now = now.Add(20 * time.Minute)
	}
	if err := sweeper.Sweep(ctx); err != nil { // in a program: go sweeper.Run(ctx)
		log.Fatal(err)
	}
	fmt.Printf("%d row swept\n", sweeper.Stats().Deleted)
	// Output:
	// hello, ann
	// gone after 12 hours
	// 1 row swept
}
