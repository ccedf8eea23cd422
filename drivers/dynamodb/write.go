package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// maxSends limits how often one write is sent: again each time that the item found is the planned
// one in another form.
const maxSends = 4

// conditional executes a write. send sends it on condition that the item is exactly found, or on
// the usual condition if found is nil. judge decides about the item that failed the condition.
func (d *core) conditional(ctx context.Context, f *attempts, k primaryKey, send func(found *stored) error, judge func(found stored) kit.Verdict) error {
	var found *stored
	for sends := 1; ; sends++ {
		err := send(found)
		if err == nil {
			return nil
		}
		item, refusal := refused(err)
		if !refusal {
			return f.Failed(ctx, failed(err))
		}
		d.stats.count(&d.stats.Refused)
		s, v := d.read(item), kit.Gone
		if len(item) > 0 {
			var lifeErr error
			s, lifeErr = d.current(ctx, k, s)
			if lifeErr == nil {
				v = judge(s)
			} else if !errors.Is(lifeErr, driver.ErrNotFound) {
				return f.Failed(ctx, lifeErr)
			}
		}
		if v != kit.Meant || sends == maxSends {
			return f.Refused(ctx, v, s.Meta, s.odd, err)
		}
		d.stats.count(&d.stats.Again)
		found = &s
	}
}

// Insert implements driver.Driver, with one PutItem. Over a dead record whose life is in
// Options.LifeTable it makes three requests more.
func (d *Driver[T]) Insert(ctx context.Context, key string, v T, life driver.Life, now driver.Instant) (driver.Version, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return 0, err
	}
	put, version, err := d.put(key, v, life, d.opts.CreatedAtFormat, 0)
	if err != nil {
		return 0, err
	}
	var f attempts
	for range maxSends {
		err = d.insert(ctx, &f, k, put, life, version, now)
		if !errors.Is(err, driver.ErrNotFound) || f.Unsure() {
			break // else the dead record has gone meanwhile
		}
	}
	return versionUnless(err, version), err
}

func (d *core) insert(ctx context.Context, f *attempts, k primaryKey, put *dynamodb.PutItemInput, life driver.Life, version driver.Version, now driver.Instant) error {
	put.ReturnValues = types.ReturnValueAllOld // to get the dead item it replaces; costs no units
	return d.conditional(ctx, f, k, func(found *stored) error {
		var c condition
		switch {
		case found == nil:
			// A comparison with a Number holds for Numbers alone, as reads have it.
			c.set(":now", seconds(now))
			dead := "(#e <= :now OR #e > :now AND " + retaining + " AND #x.#at <= :now)"
			if d.opts.LifeTable != "" {
				dead = "attribute_not_exists(#x.#g) AND " + dead
			}
			c.text = "attribute_not_exists(#k) OR " + dead
		case found.generation != 0:
			m, ended, err := d.end(ctx, k, found)
			if err != nil {
				return err
			} else if !ended {
				return d.met(ctx, k)
			}
			c = over(found, found.Meta, now)
			put.ReturnValues = types.ReturnValueNone
			if err = d.sendPut(ctx, f, put, c); err != nil {
				return err
			}
			if m.id != 0 {
				d.settle(ctx, k, m, life, version)
			}
			driver.Replaced(ctx, found.Meta)
			return nil
		default:
			c.exactly("#e", found.expiry)
		}
		return d.sendPut(ctx, f, put, c)
	}, func(found stored) kit.Verdict {
		switch {
		case found.Version == version:
			return kit.Landed // a proxy sent it twice
		case found.odd != nil && found.unseen != nil:
			return kit.Unreadable
		case !found.dead(now):
			return kit.InTheWay
		}
		return kit.Meant
	})
}

// met is the refusal of a write by the item that is stored now.
func (d *core) met(ctx context.Context, k primaryKey) error {
	item, err := d.itemOf(ctx, d.table, k)
	if err != nil {
		return err
	}
	return &types.ConditionalCheckFailedException{Item: item}
}

// Replace implements driver.Driver, with one PutItem, or two; see the package comment. A record whose
// life is in Options.LifeTable takes one UpdateItem there before.
func (d *Driver[T]) Replace(ctx context.Context, key string, v T, was driver.Meta, life driver.Life, now driver.Instant) (driver.Version, error) {
	ctx, cancel := kit.WithLife(ctx, was, now, d.opts.MaxSkew)
	defer cancel()
	f := attempts{Attempts: kit.Attempts{Named: true}}
	if was.Version&apartBit != 0 {
		return d.replaceApart(ctx, &f, key, v, was, life, now)
	}
	k, err := d.primaryKey(key)
	if err != nil {
		return 0, err
	}
	put, version, err := d.put(key, v, life, d.format(was, life), 0)
	if err != nil {
		return 0, err
	}
	err = d.conditional(ctx, &f, k, func(found *stored) error {
		return d.sendPut(ctx, &f, put, over(found, was, now))
	}, func(found stored) kit.Verdict {
		switch {
		case found.Version == version:
			return kit.Landed
		case found.odd != nil && found.unseen != nil:
			return kit.Unreadable
		}
		return kit.Still(found.Meta, was, now)
	})
	return versionUnless(err, version), err
}

func versionUnless(err error, v driver.Version) driver.Version {
	if err != nil {
		return 0
	}
	return v
}

// put returns the request that writes v, and its new version. g is the generation that it continues
// in, zero for none.
func (d *Driver[T]) put(key string, v T, life driver.Life, format TimeFormat, g generation) (*dynamodb.PutItemInput, driver.Version, error) {
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
	version := d.drawGeneration()
	if g != 0 {
		version = d.drawVersion(g)
	}
	o := &d.opts
	item[o.Version] = versionOf(version)
	delete(item, o.Expiry)
	delete(item, o.RetainedExpiry)
	if d.writesApart(life) {
		var beside *types.AttributeValueMemberM
		item[o.Expiry], beside, version = d.bornApart(life, generationOf(version), version)
		item[o.RetainedExpiry] = beside
	} else if life.ExpiresAt != 0 {
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
	if d.triesKeys {
		if _, err := d.decode(d.attributes(k)); err != nil {
			return nil, 0, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must be one whose fields hold the item's key", Err: unquoted{err}}
		}
	}
	d.setKey(item, k)
	if life.CreatedAt != 0 && format != o.CreatedAtFormat { // as another program has written it
		if _, err := d.decode(item); err != nil {
			return nil, 0, &driver.InvalidError{Field: o.CreatedAt, Value: "in another program's form", Rule: fmt.Sprintf("must fit the field that a %T has for it", v), Err: unquoted{err}}
		}
	}
	return &dynamodb.PutItemInput{
		TableName:                           &d.table,
		Item:                                item,
		ReturnConsumedCapacity:              types.ReturnConsumedCapacityTotal,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}, version, nil
}

func (d *core) sendPut(ctx context.Context, f *attempts, put *dynamodb.PutItemInput, c condition) error {
	put.ConditionExpression = &c.text
	put.ExpressionAttributeNames, put.ExpressionAttributeValues = d.used(c.text), c.values
	out, err := d.client.PutItem(ctx, put, f.follow)
	if err == nil {
		d.stats.consumed(&d.stats.WriteUnits, out.ConsumedCapacity)
		if len(out.Attributes) > 0 {
			driver.Replaced(ctx, d.read(out.Attributes).Meta)
		}
	}
	return failedPut(err)
}

// Delete implements driver.Driver, with one unconditional DeleteItem.
//
// With Options.LifeTable it makes one UpdateItem there before.
func (d *Driver[T]) Delete(ctx context.Context, key string) error {
	k, err := d.primaryKey(key)
	if err != nil {
		return err
	}
	var f attempts
	if d.opts.LifeTable != "" {
		if err := d.doubtAny(ctx, &attempts{Attempts: kit.Attempts{Named: true}}, k); err != nil {
			return err
		}
	}
	if err := d.sendDelete(ctx, &f, k, condition{}); err != nil {
		return f.Failed(ctx, failed(err))
	}
	return nil
}

// Remove implements driver.Remover, with one DeleteItem, or two; see the package comment. It
// deletes the item, because DynamoDB never deletes an item whose expiry is more than five years
// past, as driver.Remove's fallback would write.
func (d *Driver[T]) Remove(ctx context.Context, key string, was driver.Meta, now driver.Instant) error {
	k, err := d.primaryKey(key)
	if err != nil {
		return err
	}
	var f attempts
	if was.Version&apartBit != 0 {
		return d.removeApart(ctx, &f, k, was, now)
	}
	return d.conditional(ctx, &f, k, func(found *stored) error {
		return d.sendDelete(ctx, &f, k, over(found, was, now))
	}, func(found stored) kit.Verdict { return kit.Still(found.Meta, was, now) })
}

func (d *core) sendDelete(ctx context.Context, f *attempts, k primaryKey, c condition) error {
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
