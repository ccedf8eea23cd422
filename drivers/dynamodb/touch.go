package dynamodb

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Touch implements driver.Driver, with one UpdateItem, or two; see the package
// comment. It leaves the version as it is; an item that has none gets one.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	touch, err := d.touch(key, life)
	if err != nil {
		return 0, err
	}
	var after stored
	err = d.conditional(func(found *stored) (err error) {
		c := existing()
		var created types.AttributeValue
		if found == nil {
			c.life(was.Life, now)
			c.version(was.Version)
			if life.CreatedAt != was.CreatedAt {
				created = d.opts.CreatedAtFormat.canonical(life.CreatedAt)
			}
		} else {
			c.exactly("#c", found.created)
			c.exactly("#e", found.expiry)
			c.exactly("#v", found.version)
			created = d.rewritten(*found, life.CreatedAt)
		}
		after, err = d.sendTouch(ctx, touch, c, life.ExpiresAt, created)
		return err
	}, func(found stored) verdict {
		switch {
		case !found.Alive(now):
			return dead
		case found.Meta == was:
			return meant
		}
		return inTheWay
	})
	return versionUnless(err, after.Version), err
}

// rewritten is the created_at that a touch writes over found's, nil for none: where the
// instant is another, or the form is unusual and its type is kept.
func (d *Driver[T]) rewritten(found stored, created driver.Instant) types.AttributeValue {
	to := d.opts.CreatedAtFormat.canonical(created)
	if created != found.CreatedAt {
		return to
	}
	_, wasText := found.created.(*types.AttributeValueMemberS)
	_, isText := to.(*types.AttributeValueMemberS)
	if wasText != isText || plain(found.created) == plain(to) {
		return nil
	}
	return to
}

// touch is the request that gives the record under key life.
func (d *Driver[T]) touch(key string, life driver.Life) (*dynamodb.UpdateItemInput, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return nil, err
	}
	if err := d.opts.CreatedAtFormat.check(life); err != nil {
		return nil, err
	}
	return &dynamodb.UpdateItemInput{
		TableName:                           &d.table,
		Key:                                 d.attributes(k),
		ExpressionAttributeNames:            d.names.all,
		ReturnConsumedCapacity:              d.capacity,
		ReturnValues:                        types.ReturnValueUpdatedNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, nil
}

// sendTouch writes expiry, and created unless that is nil, and returns what is stored
// then. Attributes written as they were come back with the others.
func (d *Driver[T]) sendTouch(ctx context.Context, touch *dynamodb.UpdateItemInput, c condition, expiry driver.Instant, created types.AttributeValue) (stored, error) {
	update := "SET #v = if_not_exists(#v, " + c.set(":v", versionNumber(newVersion())) + ")"
	if created == nil {
		update += ", #c = #c"
	} else {
		update += ", #c = " + c.set(":c", created)
	}
	if expiry == 0 {
		update += " REMOVE #e"
	} else {
		update += ", #e = " + c.set(":e", wholeSeconds(expiry))
	}
	touch.UpdateExpression = aws.String(update)
	touch.ConditionExpression, touch.ExpressionAttributeValues = &c.text, c.values
	sent := time.Now()
	out, err := d.client.UpdateItem(ctx, touch)
	if err != nil {
		return stored{}, err
	}
	d.clock.observe(sent, out.ResultMetadata)
	d.stats.consumed(&d.stats.touch, out.ConsumedCapacity)
	return d.read(out.Attributes)
}
