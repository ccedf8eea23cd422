package dynamodb

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// lookFirst is the size of an item, in bytes, above which an upsert of a record that is not remembered
// reads its life first. A refused PutItem is billed like a write of the item; reading it costs 1/40 of
// that in money.
const lookFirst = 2 << 10

// sequential hides Upsert, so that driver.Upsert inserts and replaces in sequence.
type sequential[T any] struct{ driver.Driver[T] }

// Upsert implements driver.Upserter, with one PutItem over a known record. Else it inserts, which a
// live record refuses, or it first reads the life, if the item is large.
func (d *Driver[T]) Upsert(ctx context.Context, key string, v T, known *driver.Meta, plan driver.Plan, now driver.Instant) (driver.Meta, error) {
	if known == nil || !known.Alive(now) {
		item, err := d.encode(v)
		if err != nil {
			return driver.Meta{}, err
		}
		if sizeOfMap(item) > lookFirst {
			if s, err := d.look(ctx, key); err == nil && s.odd == nil { // the write reports what went wrong
				known = &s.Meta
			}
		}
	}
	return driver.Upsert(ctx, sequential[T]{d}, key, v, known, plan, now)
}

// look reads a record's life.
func (d *core) look(ctx context.Context, key string) (stored, error) {
	if d.opts.LifeTable != "" {
		k, err := d.primaryKey(key)
		if err != nil {
			return stored{}, err
		}
		_, s, err := d.both(ctx, k, false)
		return s, err
	}
	names, projection := d.projection()
	item, err := d.item(ctx, key, dynamodb.GetItemInput{ProjectionExpression: &projection, ExpressionAttributeNames: names})
	return d.read(item), err
}
