package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one GetItem.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.get(ctx, key, d.opts.ConsistentRead)
}

// Latest implements driver.Latest, with one strongly consistent GetItem.
func (d *Driver[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.get(ctx, key, true)
}

func (d *Driver[T]) get(ctx context.Context, key string, consistent bool) (driver.Entry[T], error) {
	item, err := d.item(ctx, key, dynamodb.GetItemInput{ConsistentRead: &consistent})
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(item)
}

// item reads a record's item as in says.
func (d *Driver[T]) item(ctx context.Context, key string, in dynamodb.GetItemInput) (map[string]types.AttributeValue, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return nil, err
	}
	in.TableName, in.Key, in.ReturnConsumedCapacity = &d.table, d.attributes(k), types.ReturnConsumedCapacityTotal
	out, err := d.client.GetItem(ctx, &in)
	if err != nil {
		return nil, failed(err)
	}
	d.stats.consumed(&d.stats.ReadUnits, out.ConsumedCapacity)
	if len(out.Item) == 0 {
		return nil, driver.ErrNotFound
	}
	return out.Item, nil
}

const (
	batchSize = 100 // keys in one BatchGetItem, by DynamoDB's limit
	batches   = 4   // requests of one GetMulti under way at once

	// An answer holds 16 MB and an item at most 400 KB, so an answer with fewer than batchFull of
	// the keys was cut short by throttling. Each consecutive one waits up to twice as long, from
	// batchDelay to maxBatchDelay. batchStalls limits consecutive answers without any key.
	batchFull     = 16 << 20 / (400 << 10)
	batchDelay    = 50 * time.Millisecond
	maxBatchDelay = 2 * time.Second
	batchStalls   = 12
)

// ErrUnprocessed says that DynamoDB repeatedly left out keys of a GetMulti, as under throttling.
var ErrUnprocessed = errors.New("keys left unprocessed")

// GetMulti implements driver.BatchGetter, with one BatchGetItem for each 100 keys, four at a time.
// It asks again for keys that DynamoDB left out, because of the answer's size or throttling; after
// too many attempts the error wraps ErrUnprocessed.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	place := make(map[primaryKey]int, len(keys)) // index in keys
	var bad driver.KeyErrors
	var requests [][]map[string]types.AttributeValue
	for i, key := range driver.Distinct(keys) {
		k, err := d.primaryKey(key)
		if _, again := place[k]; err == nil && again {
			err = &driver.InvalidError{Field: "key", Value: "computed", Rule: "must map to an item of its own: two keys of the call map to one item"}
		}
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		place[k] = i
		if len(place)%batchSize == 1 {
			requests = append(requests, make([]map[string]types.AttributeValue, 0, min(batchSize, len(keys)-i)))
		}
		last := &requests[len(requests)-1]
		*last = append(*last, d.attributes(k))
	}
	var mu sync.Mutex // guards found and bad
	var group errgroup.Group
	group.SetLimit(batches)
	errs := make([]error, len(requests))
	for n, request := range requests {
		group.Go(func() error {
			errs[n] = d.batch(ctx, request, func(item map[string]types.AttributeValue) {
				i := place[d.keyOf(item)]
				e, err := d.entry(item)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					bad = append(bad, &driver.KeyError{Index: i, Err: err})
				} else {
					found[keys[i]] = e
				}
			})
			return nil
		})
	}
	_ = group.Wait()
	if err := errors.Join(errs...); err != nil {
		return found, err
	}
	return found, bad.Err()
}

// batch reads keys and calls add for each item.
func (d *Driver[T]) batch(ctx context.Context, keys []map[string]types.AttributeValue, add func(item map[string]types.AttributeValue)) error {
	delay, stalls := batchDelay, 0
	for {
		out, err := d.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{
				d.table: {Keys: keys, ConsistentRead: &d.opts.ConsistentRead},
			},
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			return failed(err)
		}
		for i := range out.ConsumedCapacity {
			d.stats.consumed(&d.stats.ReadUnits, &out.ConsumedCapacity[i])
		}
		for _, items := range out.Responses { // of the only table, which may be named by its ARN
			for _, item := range items {
				add(item)
			}
		}
		asked := len(keys)
		keys = nil
		for _, left := range out.UnprocessedKeys {
			keys = left.Keys
		}
		stalls++
		if len(keys) < asked {
			stalls = 0
		}
		switch {
		case len(keys) == 0:
			return nil
		case asked-len(keys) >= batchFull:
			delay = batchDelay
			continue
		case stalls == batchStalls:
			return fmt.Errorf("BatchGetItem: %d %w", len(keys), ErrUnprocessed)
		}
		if err := driver.Sleep(ctx, rand.N(delay)); err != nil {
			return err
		}
		delay = min(2*delay, maxBatchDelay)
	}
}
