package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/slidingttl/slidingttl/drivers/cosmos/cosmostest"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// gated passes the writes of a client through a gate. While one is stopped no replica lags,
// because another process reads its result, without a session.
func gated(g *drivertest.Gate, account *cosmostest.Account) func(*azcosmos.ClientOptions) {
	writes := func(req *http.Request) bool {
		stops := strings.Contains(req.URL.Path, "/docs") && req.Method != http.MethodGet && req.Header.Get("x-ms-documentdb-query") == ""
		if stops {
			lag(account, false)
		}
		return stops
	}
	return func(o *azcosmos.ClientOptions) {
		client := *o.Transport.(*http.Client)
		client.Transport = g.Transport(client.Transport, writes)
		o.Transport = &client
	}
}

// mostItem is the longest value that leaves room for the other properties of an item.
const mostItem = 2<<20 - 8<<10

// loadHostile writes a record that no driver writes.
func loadHostile(ctx context.Context, container *azcosmos.ContainerClient, d *Driver[drivertest.Value], r drivertest.HostileRecord) error {
	if r.Guarded || !utf8.ValidString(r.Key) {
		return errors.ErrUnsupported
	}
	value, err := d.opts.Codec.Encode(drivertest.Value{Text: strings.Repeat("x", r.Size)})
	if err != nil {
		return err
	}
	var item map[string]any
	if err := json.Unmarshal(value, &item); err != nil {
		return err
	}
	k := identity{id: r.Key}
	if d.opts.ID != nil {
		k.id = d.opts.ID(r.Key)
	}
	item["id"] = k.id
	for i, p := range d.opts.PartitionKey {
		switch k.partition[i] = r.Key; {
		case p.Path == idPath:
			k.partition[i] = k.id
		case r.Alien:
			k.partition[i] = "another"
		case p.Of != nil:
			k.partition[i] = p.Of(r.Key)
		}
		item[p.Path[1:]] = k.partition[i]
	}
	if r.Alien && len(d.opts.PartitionKey) == 1 {
		return errors.ErrUnsupported
	}
	if r.CreatedAt != 0 {
		item[d.opts.CreatedAt] = json.Number(fmt.Sprint(r.CreatedAt))
	}
	item[d.opts.ExpiresAt] = r.ExpiresAt.UTC().Format(time.RFC3339)
	body, err := json.Marshal(item)
	if err != nil {
		return err
	}
	partition, err := json.Marshal(k.partition[:len(d.opts.PartitionKey)])
	if err != nil {
		return err
	}
	ctx = policy.WithHTTPHeader(ctx, http.Header{"X-Ms-Documentdb-Partitionkey": {ascii(partition)}})
	res, err := container.UpsertItem(ctx, d.partitionKey(k), body, nil)
	if code := status(err); code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge {
		return errors.Join(errors.ErrUnsupported, err)
	} else if err != nil {
		return err
	}
	d.sessions.observe(res.RawResponse, nil, d.sessions.now()) // the cases want to see it at once
	return nil
}
