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

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Get implements driver.Driver, with one GetItem, or with Options.LifeTable one BatchGetItem.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.get(ctx, key, d.opts.ConsistentRead)
}

// Latest implements driver.Latest: Get, strongly consistent.
func (d *Driver[T]) Latest(ctx context.Context, key string) (driver.Entry[T], error) {
	return d.get(ctx, key, true)
}

func (d *Driver[T]) get(ctx context.Context, key string, consistent bool) (driver.Entry[T], error) {
	if d.opts.LifeTable != "" {
		k, err := d.primaryKey(key)
		if err != nil {
			return driver.Entry[T]{}, err
		}
		item, s, err := d.both(ctx, k, consistent)
		if err != nil {
			return driver.Entry[T]{}, err
		}
		return d.entry(item, s)
	}
	item, err := d.item(ctx, key, dynamodb.GetItemInput{ConsistentRead: &consistent})
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(item, d.read(item))
}

// item reads a record's item as in says.
func (d *core) item(ctx context.Context, key string, in dynamodb.GetItemInput) (map[string]types.AttributeValue, error) {
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

// GetMulti implements driver.BatchGetter, with one BatchGetItem for each 100 keys.
//
// With Options.LifeTable it is for each 50. Four are under way at a time. It asks again for keys that DynamoDB left out, because of the
// answer's size or throttling; after too many attempts the error wraps ErrUnprocessed.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	place := make(map[primaryKey]int, len(keys)) // index in keys
	var bad driver.KeyErrors
	var all []primaryKey
	for i, key := range driver.Distinct(keys) {
		k, err := d.keyAmong(key)
		if _, again := place[k]; err == nil && again {
			err = &driver.InvalidError{Field: "key", Value: "computed", Rule: "must map to an item of its own: two keys of the call map to one item"}
		}
		if err != nil {
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
			continue
		}
		place[k] = i
		all = append(all, k)
	}
	var mu sync.Mutex // guards the rest
	values := make(map[primaryKey]map[string]types.AttributeValue, len(all))
	lives := make(map[primaryKey]map[string]types.AttributeValue)
	tables := []string{d.table}
	if d.opts.LifeTable != "" {
		tables = append(tables, d.opts.LifeTable)
	}
	left, batchErr := d.batches(ctx, all, tables, d.opts.ConsistentRead, func(ofLife bool, item map[string]types.AttributeValue) {
		mu.Lock()
		defer mu.Unlock()
		if ofLife {
			lives[d.keyOf(item)] = item
		} else {
			values[d.keyOf(item)] = item
		}
	})
	for _, key := range left { // a value whose life item was not read may be retired
		delete(values, d.keyOf(key))
	}
	for k, item := range values {
		i := place[k]
		e, err := d.joined(ctx, k, item, lives[k])
		var invalid *driver.InvalidError
		switch {
		case err == nil:
			found[keys[i]] = e
		case errors.As(err, &invalid):
			bad = append(bad, &driver.KeyError{Index: i, Err: err})
		case !errors.Is(err, driver.ErrNotFound):
			batchErr = errors.Join(batchErr, err)
		}
	}
	if batchErr != nil {
		return found, batchErr
	}
	return found, bad.Err()
}

// joined returns the record of two items that were read together.
func (d *Driver[T]) joined(ctx context.Context, k primaryKey, item, life map[string]types.AttributeValue) (driver.Entry[T], error) {
	item, s, err := d.join(ctx, k, item, life)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	return d.entry(item, s)
}

// batches reads keys from each table, and calls add for each item, also concurrently. With an error it
// returns the keys that were not read from each table.
func (d *core) batches(ctx context.Context, keys []primaryKey, tables []string, consistent bool, add func(ofLife bool, item map[string]types.AttributeValue)) (left []map[string]types.AttributeValue, err error) {
	var group errgroup.Group
	group.SetLimit(batches)
	size := batchSize / len(tables)
	errs := make([]error, (len(keys)+size-1)/size)
	unread := make([]map[string]types.KeysAndAttributes, len(errs))
	for n := range errs {
		read := func() error {
			var of []map[string]types.AttributeValue
			for _, k := range keys[n*size : min((n+1)*size, len(keys))] {
				of = append(of, d.attributes(k))
			}
			request := make(map[string]types.KeysAndAttributes, len(tables))
			for _, table := range tables {
				request[table] = types.KeysAndAttributes{Keys: of, ConsistentRead: &consistent}
			}
			unread[n] = request
			left, err := d.batch(ctx, request, add)
			unread[n] = left
			return err
		}
		if len(errs) == 1 {
			errs[n] = read() // without another goroutine
			continue
		}
		group.Go(func() error {
			hook.Try(read, func(err error) { errs[n] = err })
			return nil
		})
	}
	_ = group.Wait()
	for _, request := range unread {
		for _, of := range request {
			left = append(left, of.Keys...)
		}
	}
	return left, errors.Join(errs...)
}

// batch reads keys, and calls add for each item. With an error it returns the keys that were not read.
func (d *core) batch(ctx context.Context, request map[string]types.KeysAndAttributes, add func(ofLife bool, item map[string]types.AttributeValue)) (unread map[string]types.KeysAndAttributes, err error) {
	delay, stalls := batchDelay, 0
	for {
		out, err := d.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems:           request,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			return request, failed(err)
		}
		for i := range out.ConsumedCapacity {
			d.stats.consumed(&d.stats.ReadUnits, &out.ConsumedCapacity[i])
		}
		for table, items := range out.Responses { // table may be an ARN
			for _, item := range items {
				add(d.opts.LifeTable != "" && tableName(table) == tableName(d.opts.LifeTable), item)
			}
		}
		asked := countKeys(request)
		request = out.UnprocessedKeys
		left := countKeys(request)
		stalls++
		if left < asked {
			stalls = 0
		}
		switch {
		case left == 0:
			return nil, nil
		case asked-left >= batchFull:
			delay = batchDelay
			continue
		case stalls == batchStalls:
			return request, fmt.Errorf("BatchGetItem: %d %w", left, ErrUnprocessed)
		}
		if err := driver.Sleep(ctx, rand.N(delay)); err != nil {
			return request, err
		}
		delay = min(2*delay, maxBatchDelay)
	}
}

func countKeys(request map[string]types.KeysAndAttributes) (n int) {
	for _, of := range request {
		n += len(of.Keys)
	}
	return n
}
