package cosmos_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Session is what the application keeps.
type Session struct {
	User string `json:"user"`
}

// A session that nobody uses for half an hour is gone; one in use is gone after 12 hours.
func Example() {
	ctx := context.Background()
	account, err := cosmostest.New(nil) // or your own: azcosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = account.Close() }()
	credential, err := azcosmos.NewKeyCredential(account.Key())
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey(account.Endpoint(), credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	container, err := client.NewContainer("app", "sessions")
	if err != nil {
		log.Fatal(err)
	}

	d, err := cosmos.New[Session](container, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := create(ctx, client, d.Properties("sessions")); err != nil { // development only
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

func create(ctx context.Context, client *azcosmos.Client, container azcosmos.ContainerProperties) error {
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "app"}, nil); err != nil {
		return err
	}
	db, err := client.NewDatabase("app")
	if err != nil {
		return err
	}
	_, err = db.CreateContainer(ctx, container, nil)
	return err
}
