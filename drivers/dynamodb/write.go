package dynamodb

import (
	"context"
	"time"

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
	inTheWay verdict = iota // the record is another than the write was for
	dead                    // it is dead
	meant                   // it is the one, in another form: ask for that form
	landed                  // it is what the write was to store: an answer was lost
)

// conditional brings about a write. send sends it, on condition that the item is the
// one found, exactly, or for a nil found on the usual condition; judge says what to
// make of the live item that made the condition fail.
func (d *Driver[T]) conditional(send func(found *stored) error, judge func(found stored) verdict) error {
	var found *stored
	for sends := 1; ; sends++ {
		err := send(found)
		if err == nil {
			return nil
		}
		item, refusal := refused(err)
		if !refusal {
			return failed(err)
		}
		d.stats.refused.Add(1)
		if len(item) == 0 {
			return notFound(err)
		}
		s, rerr := d.read(item)
		if rerr != nil {
			return rerr
		}
		switch v := judge(s); {
		case v == landed:
			return nil
		case v == dead:
			return notFound(err)
		case v == inTheWay || sends == maxSends:
			return &driver.ConflictError{Found: s.Meta, Err: err}
		}
		d.stats.again.Add(1)
		found = &s
	}
}

// Insert implements driver.Driver, with one PutItem.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	version := newVersion()
	put, err := d.put(key, v, life, version)
	if err != nil {
		return 0, err
	}
	err = d.conditional(func(found *stored) error {
		var c condition
		if found == nil {
			c.text = "attribute_not_exists(#k) OR #e <= " + c.set(":now", seconds(now))
			return d.sendPut(ctx, put, c, d.names.key)
		}
		c.exactly("#e", found.expiry)
		return d.sendPut(ctx, put, c, d.names.expiry)
	}, func(found stored) verdict {
		switch {
		case found.Version == version:
			return landed
		case !found.Alive(now):
			return meant
		}
		return inTheWay
	})
	return versionUnless(err, version), err
}

// Replace implements driver.Driver, with one PutItem, or two; see the package comment.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	version := newVersion()
	put, err := d.put(key, v, life, version)
	if err != nil {
		return 0, err
	}
	err = d.conditional(func(found *stored) error {
		c := existing()
		if found == nil {
			c.life(was.Life, now)
			c.version(was.Version)
		} else {
			c.exactly("#c", found.created)
			c.exactly("#e", found.expiry)
			c.exactly("#v", found.version)
		}
		return d.sendPut(ctx, put, c, d.names.all)
	}, func(found stored) verdict {
		switch {
		case found.Version == version:
			return landed
		case !found.Alive(now):
			return dead
		case found.Meta == was:
			return meant
		}
		return inTheWay
	})
	return versionUnless(err, version), err
}

func versionUnless(err error, v driver.Version) driver.Version {
	if err != nil {
		return 0
	}
	return v
}

// put is the request that writes v under key.
func (d *Driver[T]) put(key string, v T, life driver.Life, version driver.Version) (*dynamodb.PutItemInput, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return nil, err
	}
	if err := d.opts.CreatedAtFormat.check(life); err != nil {
		return nil, err
	}
	item, err := d.item(k, v, life, version)
	if err != nil {
		return nil, err
	}
	return &dynamodb.PutItemInput{
		TableName:                           &d.table,
		Item:                                item,
		ReturnConsumedCapacity:              d.capacity,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, nil
}

func (d *Driver[T]) sendPut(ctx context.Context, put *dynamodb.PutItemInput, c condition, names map[string]string) error {
	put.ConditionExpression = &c.text
	put.ExpressionAttributeNames, put.ExpressionAttributeValues = names, c.values
	sent := time.Now()
	out, err := d.client.PutItem(ctx, put)
	if err != nil {
		return err
	}
	d.clock.observe(sent, out.ResultMetadata)
	d.stats.consumed(&d.stats.write, out.ConsumedCapacity)
	return nil
}
