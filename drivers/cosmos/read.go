package cosmos

import (
	"context"
	"fmt"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/tidwall/gjson"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one point read.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	k, err := d.identity(key)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	body, err := d.fetch(d.withKey(ctx, k), k)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(body)
}

// never is an _etag that no item has.
var never = azcore.ETag(`"never"`)

// Latest implements driver.Latest, with a patch whose condition no item meets, and a read.
// The patch's answer has the latest session token, which the read uses.
func (d *Driver[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	body, err := d.latest(ctx, key)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(body)
}

// latest reads the latest state of a record's item.
func (d *Driver[T]) latest(ctx context.Context, key string) ([]byte, error) {
	k, err := d.identity(key)
	if err != nil {
		return nil, err
	}
	ctx = d.withKey(ctx, k)
	if err := d.catchUp(ctx, k); err != nil {
		return nil, err
	}
	return d.fetch(ctx, k)
}

// catchUp gets a session token with which a read of the item is not stale.
func (d *Driver[T]) catchUp(ctx context.Context, k identity) error {
	var patch azcosmos.PatchOperations
	patch.AppendSet("/"+ttlName, -1)
	retry := d.opts.Retry
	retry.StatusCodes, retry.ShouldRetry = notExecuted, nil
	sent := d.sessions.now()
	_, err := d.client.PatchItem(policy.WithRetryOptions(ctx, retry), d.partitionKey(k), k.id, patch, &azcosmos.ItemOptions{IfMatchEtag: &never})
	of := d.hashOf(k)
	d.learn(&d.stats.ReadUnits, &of, sent, err)
	switch status(err) {
	case http.StatusPreconditionFailed:
		return nil
	case http.StatusNotFound:
		return driver.ErrNotFound
	}
	if err == nil {
		return fmt.Errorf("the service accepted a patch conditional on an _etag that no item has")
	}
	return failed(ctx, err)
}

// fetch reads an item.
func (d *Driver[T]) fetch(ctx context.Context, k identity) ([]byte, error) {
	of := d.hashOf(k)
	res, err := read(ctx, d, &of, func(token *string) (azcosmos.ItemResponse, *http.Response, error) {
		res, err := d.client.ReadItem(ctx, d.partitionKey(k), k.id, &azcosmos.ItemOptions{SessionToken: token})
		return res, res.RawResponse, err
	})
	if err != nil {
		if status(err) == http.StatusNotFound {
			return nil, driver.ErrNotFound
		}
		return nil, failed(ctx, err)
	}
	if d.sessions.unknown() { // the answer does not name it, as of a proxy
		d.sessions.of(gjson.GetBytes(res.Value, "_rid").Str)
	}
	d.stats.charged(&d.stats.ReadUnits, res.RequestCharge)
	return res.Value, nil
}

// readForWrite reads the item that a write of k found.
func (d *Driver[T]) readForWrite(ctx context.Context, k identity) (stored, error) {
	body, err := d.fetch(ctx, k)
	if err != nil {
		return stored{}, err
	}
	s := d.read(gjson.ParseBytes(body))
	d.etags.remember(s.Meta, s.etag)
	return s, nil
}

// entry reads and decodes an item.
func (d *Driver[T]) entry(body []byte) (driver.Entry[T], error) {
	s := d.read(gjson.ParseBytes(body))
	if s.odd != nil {
		return driver.Entry[T]{}, s.odd
	}
	d.etags.remember(s.Meta, s.etag)
	v, err := d.decode(body)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return driver.Entry[T]{Value: v, Meta: s.Meta}, nil
}
