package dynamodb

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// repair writes the expiry of the item s so that DynamoDB understands it, and m as it
// then is. The expiry stays what it was meant to be, rounded up. On failure m stays as
// it was read.
//
// It does not wait for the record's next touch: a touch may not be due for long, and
// an item that is not read again would never be deleted.
func (d *Driver[T]) repair(ctx context.Context, k primaryKey, m *driver.Meta, s stored) {
	sent := time.Now()
	out, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &d.table,
		Key:                      d.attributes(k),
		UpdateExpression:         aws.String("SET #e = :to"),
		ConditionExpression:      aws.String("#e = :e"),
		ExpressionAttributeNames: d.names.expiry,
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":to": wholeSeconds(s.ExpiresAt),
			":e":  s.expiry,
		},
		ReturnConsumedCapacity: d.capacity,
	})
	if err != nil {
		if _, refusal := refused(err); refusal {
			d.stats.refused.Add(1) // another write was faster, and wrote it well
			return
		}
		d.stats.repairFailed.Add(1)
		return
	}
	d.clock.observe(sent, out.ResultMetadata)
	d.stats.consumed(&d.stats.touch, out.ConsumedCapacity)
	d.stats.repaired.Add(1)
	m.ExpiresAt = m.ExpiresAt.RoundUp(time.Second)
}
