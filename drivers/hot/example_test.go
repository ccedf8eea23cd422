package hot_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/slidingttl/slidingttl/drivers/hot"
	"github.com/slidingttl/slidingttl/drivers/memory"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Link is what the application keeps.
type Link struct {
	URL string
}

func ExampleNew() {
	ctx := context.Background()
	d, err := memory.New[Link](nil) // yours is over a network, or there is no trip to save
	if err != nil {
		log.Fatal(err)
	}
	defer d.Close()
	tier, err := hot.New(d, hot.Bounds{
		Records:   100_000,
		Staleness: 30 * time.Second, // how late another process's write may be seen
	}, &hot.Options[Link]{
		LateDeletes: true, // a link that was taken down may be followed for as long
	})
	if err != nil {
		log.Fatal(err)
	}
	links, err := slidingttl.New(tier, slidingttl.Policy{
		IdleGrace:   30 * 24 * time.Hour,
		MaxLifetime: 90 * 24 * time.Hour,
		Slack:       3 * 24 * time.Hour, // without it nearly every read would be a touch, and a trip
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer links.Close(ctx)
	if err := links.Check(ctx); err != nil { // once, at start-up
		log.Fatal(err)
	}

	if err := links.Insert(ctx, "docs", Link{"https://example.com/documentation"}); err != nil {
		log.Fatal(err)
	}
	for range 100 {
		if _, err := links.Get(ctx, "docs"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(tier.Stats().Hits, "of 100 reads made no trip")
	// Output: 99 of 100 reads made no trip
}
