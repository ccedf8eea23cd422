package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// items is a repository with azcosmos calls of its own. It sets no expiry, and does not
// change.
type items struct{ container *azcosmos.ContainerClient }

// item is a profile in its container.
type item struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// Get returns the profile of id.
func (r items) Get(ctx context.Context, id string) (profile, error) {
	key := profileKey(id)
	res, err := r.container.ReadItem(ctx, azcosmos.NewPartitionKeyString(key), key, nil)
	var answer *azcore.ResponseError
	switch {
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return profile{}, errNoProfile
	case err != nil:
		return profile{}, err
	}
	var i item
	err = json.Unmarshal(res.Value, &i)
	return profile{Name: i.Name, CreatedAt: i.CreatedAt}, err
}

// Upsert writes the profile of id.
func (r items) Upsert(ctx context.Context, id string, v profile) error {
	key := profileKey(id)
	text, err := json.Marshal(item{ID: key, Name: v.Name, CreatedAt: v.CreatedAt})
	if err != nil {
		return err
	}
	_, err = r.container.UpsertItem(ctx, azcosmos.NewPartitionKeyString(key), text, nil)
	return err
}

// cosmos runs a Cosmos DB account in this process, whose clock can be moved.
func (t *team) cosmos(ctx context.Context) error {
	account, err := cosmostest.New(nil)
	if err != nil {
		return err
	}
	t.close = append(t.close, account.Close)
	credential, err := azcosmos.NewKeyCredential(account.Key())
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	t.close = append(t.close, func() error { transport.CloseIdleConnections(); return nil })
	opts := &azcosmos.ClientOptions{}
	opts.Transport = &http.Client{Transport: transport}
	client, err := azcosmos.NewClientWithKey(account.Endpoint(), credential, opts)
	if err != nil {
		return err
	}
	t.close = append(t.close, func() error { client.Close(); return nil })
	container, err := client.NewContainer("app", "profiles")
	if err != nil {
		return err
	}
	d, err := cosmos.New[profile](container, nil)
	if err != nil {
		return err
	}
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: "app"}, nil); err != nil {
		return err
	}
	db, err := client.NewDatabase("app")
	if err != nil {
		return err
	}
	if _, err := db.CreateContainer(ctx, d.Properties("profiles"), nil); err != nil {
		return err
	}
	t.repo, t.clock = items{container}, account
	t.driver = func(context.Context) (driver.Driver[profile], error) { return d, nil }
	return nil
}
