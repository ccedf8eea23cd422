package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// maxSends bounds how often one write is sent: once as a rule, and again for each time
// that the item in the way turned out to mean what the condition asked for.
const maxSends = 4

// verdict is what becomes of a write that a condition refused.
type verdict int

const (
	inTheWay   verdict = iota // the record is another than the write was for
	gone                      // there is none, or it is dead
	unreadable                // it may be the one, and the write must not guess
	meant                     // it is the one, in another form: ask for that form
	landed                    // it is what the write was to store: an answer was lost
)

// still tells whether what was found is the live record was.
func still(found stored, was driver.Meta, now driver.Instant) verdict {
	switch {
	case !found.Alive(now):
		return gone
	case found.Meta == was:
		return meant
	}
	return inTheWay
}

// conditional brings about a write. send sends it, on condition that the item is the
// one found, exactly, or for a nil found on the usual condition; judge says what to
// make of the item that made the condition fail.
func (d *Driver[T]) conditional(ctx context.Context, f *fate, send func(found *stored) error, judge func(found stored) verdict) error {
	var found *stored
	for sends := 1; ; sends++ {
		err := send(found)
		if err == nil {
			return nil
		}
		item, refusal := refused(err)
		if !refusal {
			return f.failed(ctx, err)
		}
		d.stats.count(&d.stats.Refused)
		s, v := d.read(item), gone
		if len(item) > 0 {
			v = judge(s)
		}
		switch {
		case v == landed:
			return nil
		case v == meant && sends < maxSends:
			d.stats.count(&d.stats.Again)
			found = &s
		case f.unsure:
			return f.failed(ctx, err) // it may have landed, and what was found come after it
		case v == gone:
			return fmt.Errorf("%w: %w", driver.ErrNotFound, err)
		case v == unreadable:
			return s.odd
		default:
			return &driver.ConflictError{Found: s.Meta, Err: err}
		}
	}
}

// errLate says why a write was given up.
var errLate = errors.New("the record's life ended before DynamoDB answered")

// within bounds a write over the record was by its life, or by what clocks may be apart:
// one that lands later would revive what others have found dead.
func (d *Driver[T]) within(ctx context.Context, was driver.Meta, now driver.Instant) (context.Context, context.CancelFunc) {
	if was.ExpiresAt == 0 {
		return ctx, func() {}
	}
	return context.WithTimeoutCause(ctx, max(was.ExpiresAt.Sub(now), d.opts.MaxSkew), errLate)
}

// Insert implements driver.Driver, with one PutItem.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	put, version, err := d.put(key, v, life, d.opts.CreatedAtFormat)
	if err != nil {
		return 0, err
	}
	var f fate
	err = d.conditional(ctx, &f, func(found *stored) error {
		var c condition
		if found == nil {
			c.text = "attribute_not_exists(#k) OR #e <= :now OR " + retaining + " AND #x.#at <= " + c.set(":now", seconds(now))
			return d.sendPut(ctx, &f, put, c)
		}
		c.exactly("#e", found.expiry)
		return d.sendPut(ctx, &f, put, c)
	}, func(found stored) verdict {
		if found.Alive(now) {
			return inTheWay
		}
		return meant
	})
	return versionUnless(err, version), err
}

// Replace implements driver.Driver, with one PutItem, or two; see the package comment.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	put, version, err := d.put(key, v, life, d.format(was, life))
	if err != nil {
		return 0, err
	}
	ctx, cancel := d.within(ctx, was, now)
	defer cancel()
	f := fate{named: true}
	err = d.conditional(ctx, &f, func(found *stored) error {
		return d.sendPut(ctx, &f, put, over(found, was, now))
	}, func(found stored) verdict {
		if found.Version == version {
			return landed
		}
		return still(found, was, now)
	})
	return versionUnless(err, version), err
}

func versionUnless(err error, v driver.Version) driver.Version {
	if err != nil {
		return 0
	}
	return v
}

// put is the request that writes v under key, with the version that is then stored.
func (d *Driver[T]) put(key string, v T, life driver.Life, format TimeFormat) (*dynamodb.PutItemInput, driver.Version, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return nil, 0, err
	}
	if err := format.check(life); err != nil {
		return nil, 0, err
	}
	item, err := d.encode(v)
	if err != nil {
		return nil, 0, err
	}
	version := newVersion()
	o := &d.opts
	item[o.Version] = versionOf(version)
	delete(item, o.Expiry)
	delete(item, o.RetainedExpiry)
	if life.ExpiresAt != 0 {
		ttl, beside := o.expiry(life.ExpiresAt)
		item[o.Expiry] = ttl
		if beside != nil {
			item[o.RetainedExpiry] = beside
		}
	}
	delete(item, o.CreatedAt)
	if life.CreatedAt != 0 {
		item[o.CreatedAt] = format.written(life.CreatedAt)
		version = marked(version, format)
	}
	d.setKey(item, k)
	return &dynamodb.PutItemInput{
		TableName:                           &d.table,
		Item:                                item,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, version, nil
}

func (d *Driver[T]) sendPut(ctx context.Context, f *fate, put *dynamodb.PutItemInput, c condition) error {
	put.ConditionExpression = &c.text
	put.ExpressionAttributeNames, put.ExpressionAttributeValues = d.used(c.text), c.values
	out, err := d.client.PutItem(ctx, put, f.follow)
	if err == nil {
		d.stats.consumed(&d.stats.WriteUnits, out.ConsumedCapacity)
	}
	return err
}

// Delete implements driver.Driver, with one DeleteItem on no condition.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.primaryKey(key)
	if err != nil {
		return err
	}
	var f fate
	if err := d.sendDelete(ctx, &f, k, condition{}); err != nil {
		return f.failed(ctx, err)
	}
	return nil
}

// Remove implements driver.Remover, with one DeleteItem, or two; see the package comment.
// It leaves nothing: an item that expired more than five years ago, as one touched to
// death would have, DynamoDB never deletes.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := d.primaryKey(key)
	if err != nil {
		return err
	}
	var f fate
	return d.conditional(ctx, &f, func(found *stored) error {
		return d.sendDelete(ctx, &f, k, over(found, was, now))
	}, func(found stored) verdict { return still(found, was, now) })
}

func (d *Driver[T]) sendDelete(ctx context.Context, f *fate, k primaryKey, c condition) error {
	in := &dynamodb.DeleteItemInput{
		TableName:                           &d.table,
		Key:                                 d.attributes(k),
		ExpressionAttributeNames:            d.used(c.text),
		ExpressionAttributeValues:           c.values,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	if c.text != "" {
		in.ConditionExpression = &c.text
	}
	out, err := d.client.DeleteItem(ctx, in, f.follow)
	if err == nil {
		d.stats.consumed(&d.stats.WriteUnits, out.ConsumedCapacity)
	}
	return err
}
