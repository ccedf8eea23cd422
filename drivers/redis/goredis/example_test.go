package goredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	slidingredis "github.com/slidingttl/slidingttl/drivers/redis"
	"github.com/slidingttl/slidingttl/drivers/redis/goredis"
	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is what the application keeps.
type Session struct {
	User string `json:"user"`
}

func Example() {
	ctx := context.Background()
	server, err := redistest.Run(ctx) // yours runs already
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	rdb := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{server.Addr}})
	defer rdb.Close()
	d, err := goredis.New[Session](rdb, &slidingredis.Options{Prefix: "session:"})
	if err != nil {
		log.Fatal(err)
	}
	sessions, err := slidingttl.New(d, slidingttl.Policy{IdleGrace: 30 * time.Minute, MaxLifetime: 12 * time.Hour, Slack: 3 * time.Minute}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sessions.Close(ctx)
	if err := sessions.Check(ctx); err != nil { // once, at start-up
		log.Fatal(err)
	}

	if err := sessions.Upsert(ctx, "4711", Session{User: "ann"}); err != nil {
		log.Fatal(err)
	}
	s, err := sessions.Get(ctx, "4711") // keeps it alive
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.User)
	// Output: ann
}
