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
			if life.CreatedAt != was.CreatedAt {
				created = d.opts.CreatedAtFormat.canonical(life.CreatedAt)
			}
		} else {
			c.exactly("#c", found.created)
			c.exactly("#e", found.expiry)
			created = d.rewritten(*found, life.CreatedAt)
		}
		after, err = d.sendTouch(ctx, touch, c, life.ExpiresAt, created)
		return err
	}, func(found stored) verdict {
		switch {
		case !found.Alive(now):
			return dead
		case found.Life == was.Life:
			return meant
		}
		return inTheWay
	})
	return versionUnless(err, after.Version), err
}

// TouchKey implements driver.KeyToucher, with one UpdateItem. Only a created_at in the
// form that Options.CreatedAtFormat writes is compared in that request; one in another
// form costs a second.
func (d *Driver[T]) TouchKey(ctx context.Context, key string, t driver.KeyTouch) (driver.Meta, error) {
	touch, err := d.touch(key, driver.Life{ExpiresAt: t.Expiry})
	if err != nil {
		return driver.Meta{}, err
	}
	var after stored
	err = d.conditional(func(found *stored) (err error) {
		c := existing()
		var created types.AttributeValue
		if found == nil {
			c.born(d.opts.CreatedAtFormat, t.Born)
			c.alive(t.Now)
			c.and("#e < " + c.set(":due", seconds(t.Due)))
		} else {
			c.exactly("#c", found.created)
			c.exactly("#e", found.expiry)
			created = d.rewritten(*found, found.CreatedAt)
		}
		after, err = d.sendTouch(ctx, touch, c, t.Expiry, created)
		return err
	}, func(found stored) verdict {
		switch {
		case !found.Alive(t.Now):
			return dead
		case found.CreatedAt != 0 && found.CreatedAt >= t.Born && found.ExpiresAt != 0 && found.ExpiresAt < t.Due:
			return meant
		}
		return inTheWay
	})
	if err != nil {
		return driver.Meta{}, err
	}
	return after.Meta, nil
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
