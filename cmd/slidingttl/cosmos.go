package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos"
	"github.com/slidingttl/slidingttl/middleware/session"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var cosmosKind = kind{
	schemes:     []string{"cosmos"},
	form:        "cosmos://account.documents.azure.com[:port]/database/container[?tls=false&retain=D]",
	params:      parameters{"tls": truth, "retain": span},
	credentials: "set SLIDINGTTL_COSMOS_KEY to the account's key, or give credentials as azidentity finds them: AZURE_CLIENT_ID and the rest, az login, a managed identity",
	keeps:       "the change feed, continuous backups for 7 or 30 days, and the analytical store",
	open:        openCosmos,
}

type cosmosLayout struct {
	CreatedAt    string           `json:"created_at"`
	ExpiresAt    string           `json:"expires_at"`
	Version      string           `json:"version"`
	IDPrefix     string           `json:"id_prefix"`
	PartitionKey []propertyLayout `json:"partition_key"`
}

type propertyLayout struct {
	Path   string  `json:"path"`
	Prefix string  `json:"prefix"`
	Fixed  *string `json:"fixed"`
}

func openCosmos(_ context.Context, a *address, l layout) (*store, error) {
	var names cosmosLayout
	if err := l.into(&names); err != nil {
		return nil, err
	}
	opts := cosmos.Options{Retain: a.retain, CreatedAt: names.CreatedAt, ExpiresAt: names.ExpiresAt, Version: names.Version}
	if names.IDPrefix != "" {
		opts.ID = cosmos.Prefix(names.IDPrefix)
	}
	for _, p := range names.PartitionKey {
		opts.PartitionKey = append(opts.PartitionKey, p.property())
	}
	scheme := "https"
	if a.own["tls"] == "false" { // an emulator
		scheme = "http"
	}
	path := strings.Split(strings.Trim(a.Path, "/"), "/")
	if a.Host == "" || a.User != nil || len(path) != 2 {
		return nil, errForm
	}
	client, err := cosmosClient(scheme + "://" + a.Host)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", a.Host, err)
	}
	container, err := client.NewContainer(path[0], path[1])
	if err != nil {
		client.Close()
		return nil, fmt.Errorf("%w: %w", errUsage, err)
	}
	d, err := cosmos.New[map[string]any](container, &opts)
	if err != nil {
		client.Close()
		return nil, err
	}
	s := &store{walked: d, close: client.Close}
	s.sessions = func() (driver.Driver[session.Record], error) { return cosmos.New[session.Record](container, &opts) }
	s.ids = func(ctx context.Context) ([]string, error) {
		var raw *http.Response
		if _, err := container.Read(policy.WithCaptureResponse(ctx, &raw), nil); err != nil {
			return nil, err
		}
		var c struct {
			RID string `json:"_rid"`
		}
		body, err := runtime.Payload(raw)
		if err == nil {
			err = json.Unmarshal(body, &c)
		}
		return []string{"account " + a.Hostname() + ", container " + c.RID}, err
	}
	return s, nil
}

// cosmosClient returns a client that signs with the account's key. If SLIDINGTTL_COSMOS_KEY is not
// set, it signs as the identity in the environment.
func cosmosClient(endpoint string) (*azcosmos.Client, error) {
	if key := os.Getenv("SLIDINGTTL_COSMOS_KEY"); key != "" {
		signer, err := azcosmos.NewKeyCredential(key)
		if err != nil {
			return nil, fmt.Errorf("SLIDINGTTL_COSMOS_KEY: %w", err)
		}
		return azcosmos.NewClientWithKey(endpoint, signer, nil)
	}
	identity, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClient(endpoint, identity, nil)
}

func (p propertyLayout) property() cosmos.KeyProperty {
	k := cosmos.KeyProperty{Path: p.Path}
	switch {
	case p.Fixed != nil:
		k.Of = cosmos.Fixed(*p.Fixed)
	case p.Prefix != "":
		k.Of = cosmos.Prefix(p.Prefix)
	}
	return k
}
