package dynamodb

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Driver keeps records of type T in a table. It implements [driver.Driver],
// [driver.BatchGetter] and [driver.Checker], and has nothing to be closed. All methods are safe for concurrent use.
type Driver[T any] struct {
	client   Client
	table    string
	opts     Options
	capacity types.ReturnConsumedCapacity
	names    names
	clock    serverClock
	stats    tally
}

var (
	_ driver.BatchGetter[int] = (*Driver[int])(nil)
	_ driver.Checker          = (*Driver[int])(nil)
)

// New returns a driver for records in table, by its name or ARN. opts may be nil; it
// is copied. New does no I/O. An argument that breaks its rule is a
// *driver.InvalidError.
func New[T any](client Client, table string, opts *Options) (*Driver[T], error) {
	switch {
	case client == nil:
		return nil, &driver.InvalidError{Field: "client", Value: "nil", Rule: "is required"}
	case table == "":
		return nil, &driver.InvalidError{Field: "table", Value: "empty", Rule: "is required"}
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	o, err := o.validate()
	if err != nil {
		return nil, err
	}
	d := &Driver[T]{client: client, table: table, opts: o, names: newNames(o)}
	if o.Capacity {
		d.capacity = types.ReturnConsumedCapacityTotal
	}
	return d, nil
}

// Resolution implements driver.Driver: a second.
func (d *Driver[T]) Resolution() time.Duration { return time.Second }

// Get implements driver.Driver, with one GetItem.
func (d *Driver[T]) Get(ctx context.Context, key string) (driver.Entry[T], error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return driver.Entry[T]{}, err
	}
	sent := time.Now()
	out, err := d.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName:              &d.table,
		Key:                    d.attributes(k),
		ConsistentRead:         &d.opts.ConsistentRead,
		ReturnConsumedCapacity: d.capacity,
	})
	if err != nil {
		return driver.Entry[T]{}, failed(err)
	}
	d.clock.observe(sent, out.ResultMetadata)
	d.stats.consumed(&d.stats.read, out.ConsumedCapacity)
	if len(out.Item) == 0 {
		return driver.Entry[T]{}, driver.ErrNotFound
	}
	e, s, err := d.entry(out.Item)
	if err == nil && s.mend {
		d.repair(ctx, k, &e.Meta, s)
	}
	return e, err
}

// Delete implements driver.Driver, with one DeleteItem on no condition.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.primaryKey(key)
	if err != nil {
		return err
	}
	sent := time.Now()
	out, err := d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName:              &d.table,
		Key:                    d.attributes(k),
		ReturnConsumedCapacity: d.capacity,
	})
	if err != nil {
		return failed(err)
	}
	d.clock.observe(sent, out.ResultMetadata)
	d.stats.consumed(&d.stats.write, out.ConsumedCapacity)
	return nil
}
