package dynamodb

import (
	"context"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Whole implements driver.Eraser. It scans the table, because Options.ScanIndex may lack records.
func (d *Driver[T]) Whole(driver.Erasure) driver.Scanner { return unfiltered[T]{d} }

type unfiltered[T any] struct{ *Driver[T] }

func (u unfiltered[T]) Segments(_ context.Context, n int) ([]driver.Cursor, error) {
	return u.segments(n)
}

func (u unfiltered[T]) Scan(ctx context.Context, from driver.Cursor, limit int) (driver.Page, error) {
	return u.scan(ctx, from, limit, "")
}

// EraseEnded implements driver.Eraser: it removes the items of Options.LifeTable whose record is gone. For
// an hour after a record's deletion a touch under way may have to find there that it was deleted. For a
// prefix it scans that table.
func (d *Driver[T]) EraseEnded(ctx context.Context, what driver.Erasure, apply bool) (ended, later int64, err error) {
	if d.opts.LifeTable == "" {
		return 0, 0, nil
	}
	erase := func(item map[string]types.AttributeValue) error {
		k := d.keyOf(item)
		key, ok := d.recordKey(k)
		if !ok || !what.Has(key) {
			return nil
		}
		l := lifeItem{item: item}
		l.doubt, _ = strconv.ParseUint(plain(item[doubtName]), 10, 64)
		record, err := d.itemOf(ctx, d.table, k)
		if err != nil || len(record) > 0 {
			return err
		}
		if !d.doubtful(&l) {
			if apply {
				err = d.removeLife(ctx, k, l.exactly(&d.opts))
			}
			if _, changed := refused(err); err == nil {
				ended++
				return nil
			} else if !changed {
				return failed(err)
			}
		}
		later++
		return nil
	}
	if what.Prefix == "" {
		for _, key := range what.Keys {
			k, err := d.primaryKey(key)
			if err != nil { // no record has it
				continue
			}
			item, err := d.itemOf(ctx, d.opts.LifeTable, k)
			if err == nil && len(item) > 0 {
				err = erase(item)
			}
			if err != nil {
				return ended, later, err
			}
		}
		return ended, later, nil
	}
	if err := d.opts.checkKeyOf(); err != nil {
		return 0, 0, err
	}
	in := dynamodb.ScanInput{TableName: &d.opts.LifeTable, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal}
	for {
		out, err := d.client.Scan(ctx, &in)
		if err != nil {
			return ended, later, failed(err)
		}
		d.stats.consumed(&d.stats.ReadUnits, out.ConsumedCapacity)
		for _, item := range out.Items {
			if err := erase(item); err != nil {
				return ended, later, err
			}
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return ended, later, nil
		}
	}
}

func (d *core) removeLife(ctx context.Context, k primaryKey, c condition) error {
	out, err := d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &d.opts.LifeTable, Key: d.attributes(k),
		ConditionExpression: &c.text, ExpressionAttributeNames: d.used(c.text), ExpressionAttributeValues: c.values,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err == nil {
		d.stats.consumed(&d.stats.WriteUnits, out.ConsumedCapacity)
	}
	return err
}

// Scrub implements driver.Eraser. It does nothing.
func (d *Driver[T]) Scrub(context.Context, driver.Erasure) ([]string, error) { return nil, nil }
