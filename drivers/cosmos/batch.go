package cosmos

import (
	"context"
	"errors"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// GetMulti implements driver.BatchGetter, with ReadManyItems. That makes a query for each physical
// partition and thousand keys, in pages, after two requests that the client makes once. It returns
// all records, or an error of the service and none.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	place := make(map[identity]int, len(keys)) // index in keys
	var bad driver.KeyErrors
	var items []azcosmos.ItemIdentity
	for i, key := range driver.Distinct(keys) {
		k, err := d.identity(key)
		if _, again := place[k]; err == nil && again {
			err = invalidKey("computed", "must map to an item of its own: two keys of the call map to one item")
		}
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		place[k] = i
		items = append(items, azcosmos.ItemIdentity{ID: k.id, PartitionKey: d.partitionKey(k)})
	}
	if len(items) == 0 {
		return found, bad.Err()
	}
	res, err := read(ctx, d, nil, func(token *string) (azcosmos.ReadManyItemsResponse, error) {
		res, err := d.client.ReadManyItems(ctx, items, &azcosmos.ReadManyItemsOptions{SessionToken: token})
		if errors.Is(err, context.Canceled) && ctx.Err() == nil {
			// With concurrent queries azcosmos 1.5.0 (collectChunkResults) reports a cancelled
			// query and not the one that failed. In sequence it reports the failure.
			return d.client.ReadManyItems(ctx, items, &azcosmos.ReadManyItemsOptions{SessionToken: token, MaxConcurrency: to.Ptr[int32](1)})
		}
		return res, err
	})
	if err != nil {
		return found, failed(ctx, err)
	}
	d.stats.charged(&d.stats.ReadUnits, res.RequestCharge)
	for _, body := range res.Items {
		i, ok := place[d.identityOf(gjson.ParseBytes(body))]
		if !ok {
			continue
		}
		e, err := d.entry(body)
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		found[keys[i]] = e
	}
	return found, bad.Err()
}

// identityOf returns the identity of an item that was read.
func (d *Driver[T]) identityOf(item gjson.Result) identity {
	k := identity{id: textAt(item, "id")}
	for i, p := range d.opts.PartitionKey {
		k.partition[i] = textAt(item, strings.Split(p.Path, "/")[1:]...)
	}
	return k
}

// textAt returns the String at a path of names in an item.
func textAt(item gjson.Result, names ...string) string {
	for _, name := range names {
		item = item.Get(gjson.Escape(name))
	}
	return item.Str
}
