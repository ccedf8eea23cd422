package dynamodb

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Touch implements driver.Driver, with one UpdateItem, or two; see the package
// comment. It leaves the version as it is; an item that has none gets one. A record whose life is in
// Options.LifeTable is touched there.
func (d *Driver[T]) Touch(ctx context.Context, key string, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return 0, err
	}
	format := d.format(was, life)
	if err := format.check(life); err != nil {
		return 0, err
	}
	ctx, cancel := kit.WithLife(ctx, was, now, d.opts.MaxSkew)
	defer cancel()
	f := attempts{Attempts: kit.Attempts{Named: true}}
	switch toLife := d.writesApart(life) && life.CreatedAt == was.CreatedAt; {
	case was.Version&apartBit == 0:
	case toLife:
		return d.touchApart(ctx, &f, k, was, life, now)
	default:
		return d.touchValue(ctx, &f, k, was, life, format, now)
	}
	version := was.Version
	drawn := versionOf(version) == nil || d.writesApart(life) // a generation is not used twice
	if drawn {
		version = d.drawGeneration()
	}
	g := generationOf(version)
	if d.writesApart(life) {
		_, _, version = d.bornApart(life, g, version)
	}
	version = marked(version, format)
	opts := d.opts
	if life.CreatedAt == 0 { // back to another program's record
		opts.Retain, version = 0, 0
	}
	err = d.conditional(ctx, &f, k, func(found *stored) error {
		c := over(found, was, now)
		set, remove := opts.move(&c, life.ExpiresAt)
		if d.writesApart(life) {
			ttl, beside, _ := d.bornApart(life, g, 0)
			set, remove = []string{"#e = " + c.set(":e", ttl), "#x = " + c.set(":x", beside)}, nil
		}
		if life.CreatedAt == 0 {
			remove = append(remove, "#c", "#v")
		} else if life.CreatedAt != was.CreatedAt || found != nil {
			set = append(set, "#c = "+c.set(":c", format.written(life.CreatedAt)))
		}
		if life.CreatedAt != 0 && drawn {
			set = append(set, "#v = "+c.set(":v", versionOf(version)))
		}
		return d.update(ctx, k, c, updateOf(set, remove), f.follow)
	}, func(found stored) kit.Verdict {
		switch {
		case found.odd != nil:
			return kit.Unreadable
		case f.Stored(found.Meta, driver.Meta{Life: life, Version: version}, drawn, now):
			return kit.Landed
		}
		return kit.Still(found.Meta, was, now)
	})
	return versionUnless(err, version), err
}

// update updates the item under k on a condition, at a touch's cost.
func (d *core) update(ctx context.Context, k primaryKey, c condition, update string, opts ...func(*dynamodb.Options)) error {
	out, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                           &d.table,
		Key:                                 d.attributes(k),
		UpdateExpression:                    &update,
		ConditionExpression:                 &c.text,
		ExpressionAttributeNames:            d.used(update + c.text),
		ExpressionAttributeValues:           c.values,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, opts...)
	if err == nil {
		d.stats.consumed(&d.stats.TouchUnits, out.ConsumedCapacity)
	}
	return err
}
