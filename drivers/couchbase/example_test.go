package couchbase_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Profile is what the application keeps.
type Profile struct {
	Name string `json:"name"`
}

// A profile that nobody reads for 30 days is gone; one that is read is gone after 90.
func Example() {
	node, err := couchbasetest.New(nil) // a Couchbase node in this process
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = node.Close() }()
	cluster, err := gocb.Connect(node.ConnectionString(), node.ClusterOptions())
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = cluster.Close(nil) }()

	d, err := couchbase.New[Profile](cluster.Bucket(node.Bucket()).DefaultCollection(), nil)
	if err != nil {
		log.Fatal(err)
	}
	const day = 24 * time.Hour
	profiles, err := slidingttl.New(d, slidingttl.Policy{
		IdleGrace:   30 * day,
		MaxLifetime: 90 * day,
		Slack:       3 * day,
	}, &slidingttl.Options[Profile]{Now: node.Now})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() { _ = profiles.Close(ctx) }()

	if err := profiles.Upsert(ctx, "profile:42", Profile{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}
	for i := range 4 {
		p, err := profiles.Get(ctx, "profile:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("day", 25*i, p.Name)
		node.Advance(25 * day)
	}
	_, err = profiles.Get(ctx, "profile:42")
	fmt.Println("day 100, gone:", errors.Is(err, slidingttl.ErrNotFound))
	// Output:
	// day 0 Ada
	// day 25 Ada
	// day 50 Ada
	// day 75 Ada
	// day 100, gone: true
}
