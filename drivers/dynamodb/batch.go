package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	batchSize = 100 // keys in one BatchGetItem, by DynamoDB's limit
	batches   = 4   // requests of one GetMulti under way at once

	// batchStalls bounds the answers in a row that bring no item although keys are
	// left over, after each of which it waits up to batchDelay, longer each time.
	batchStalls = 8
	batchDelay  = 2 * time.Second
)

// ErrUnprocessed says that DynamoDB kept leaving keys of a GetMulti over, as it does
// when the table is throttled.
var ErrUnprocessed = errors.New("keys left unprocessed")

// GetMulti implements driver.BatchGetter, with one BatchGetItem for each 100 keys, four
// at a time. Keys that DynamoDB leaves over, for the size of the answer or for
// throttling, are asked for again; if that goes on too long the error wraps
// ErrUnprocessed.
func (d *Driver[T]) GetMulti(ctx context.Context, keys []string) (map[string]driver.Entry[T], error) {
	found := make(map[string]driver.Entry[T], len(keys))
	byItem := make(map[primaryKey]string, len(keys))
	var requests [][]map[string]types.AttributeValue
	for _, key := range keys {
		k, err := d.primaryKey(key)
		if err != nil {
			return found, err
		}
		if other, ok := byItem[k]; ok {
			if other != key {
				return found, &driver.InvalidError{Field: "key", Value: "computed", Rule: "must come to an item of its own: two keys come to one"}
			}
			continue
		}
		byItem[k] = key
		if len(byItem)%batchSize == 1 {
			requests = append(requests, make([]map[string]types.AttributeValue, 0, min(batchSize, len(keys)-len(byItem)+1)))
		}
		last := &requests[len(requests)-1]
		*last = append(*last, d.attributes(k))
	}
	var mu sync.Mutex // guards found
	var group errgroup.Group
	group.SetLimit(batches)
	errs := make([]error, len(requests))
	for i, request := range requests {
		group.Go(func() error {
			errs[i] = d.batch(ctx, request, func(k primaryKey, e driver.Entry[T]) {
				mu.Lock()
				found[byItem[k]] = e
				mu.Unlock()
			})
			return nil
		})
	}
	_ = group.Wait()
	return found, errors.Join(errs...)
}

// batch reads keys and hands each item to add. An item that does not decode does not
// keep the others from it.
func (d *Driver[T]) batch(ctx context.Context, keys []map[string]types.AttributeValue, add func(primaryKey, driver.Entry[T])) error {
	backoff := retry.NewExponentialJitterBackoff(batchDelay)
	var bad []error
	for stalls := 0; len(keys) > 0; {
		sent := time.Now()
		out, err := d.client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{
				d.table: {Keys: keys, ConsistentRead: &d.opts.ConsistentRead},
			},
			ReturnConsumedCapacity: d.capacity,
		})
		if err != nil {
			return errors.Join(append(bad, failed(err))...)
		}
		d.clock.observe(sent, out.ResultMetadata)
		for i := range out.ConsumedCapacity {
			d.stats.consumed(&d.stats.read, &out.ConsumedCapacity[i])
		}
		read := 0
		for _, items := range out.Responses { // of the one table, whatever it is called there
			for _, item := range items {
				read++
				k := d.keyOf(item)
				e, s, err := d.entry(item)
				if err != nil {
					bad = append(bad, err)
					continue
				}
				if s.mend {
					d.repair(ctx, k, &e.Meta, s)
				}
				add(k, e)
			}
		}
		keys = nil
		for _, left := range out.UnprocessedKeys {
			keys = left.Keys
		}
		switch {
		case len(keys) == 0 || read > 0:
			stalls = 0
			continue
		case stalls == batchStalls:
			return errors.Join(append(bad, fmt.Errorf("BatchGetItem: %d %w", len(keys), ErrUnprocessed))...)
		}
		delay, err := backoff.BackoffDelay(stalls, nil)
		if err != nil {
			return errors.Join(append(bad, err)...)
		}
		stalls++
		if err := wait(ctx, delay); err != nil {
			return errors.Join(append(bad, err)...)
		}
	}
	return errors.Join(bad...)
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
