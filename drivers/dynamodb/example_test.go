package dynamodb_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is what the application keeps.
type Session struct {
	User string `dynamodbav:"user"`
}

// A session that nobody uses for half an hour is gone; one in use is gone after 12 hours.
func Example() {
	ctx := context.Background()
	server, err := dynamodbtest.Run(ctx) // or your own client: dynamodb.NewFromConfig(cfg)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = server.Close() }()

	d, err := dynamodb.New[Session](server.Client(), "example-sessions", &dynamodb.Options{
		PartitionKey: dynamodb.KeyAttribute{Name: "pk", Of: dynamodb.Prefix("SESSION#")},
		SortKey:      dynamodb.KeyAttribute{Name: "sk", Of: dynamodb.Fixed("METADATA")},
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.EnsureTable(ctx); err != nil { // development only
		log.Fatal(err)
	}
	now := time.Now() // held still, and moved by hand, to show hours in no time
	sessions, err := slidingttl.New(d, slidingttl.Policy{
		IdleGrace:   30 * time.Minute,
		MaxLifetime: 12 * time.Hour,
		Slack:       3 * time.Minute,
	}, &slidingttl.Options[Session]{
		Now:    func() time.Time { return now },
		Strict: true, // a read waits for its touch to the end, so that now stands still meanwhile
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = sessions.Close(ctx) }()
	if err := sessions.Check(ctx); err != nil { // once, at start-up
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
	// Output:
	// hello, ann
	// gone after 12 hours
}
