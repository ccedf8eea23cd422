package dynamodb

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Mend implements driver.Mender, with one GetItem, strongly consistent, and one UpdateItem.
// It writes an expiry that is a String (of digits, or RFC 3339) or counts milliseconds,
// which DynamoDB ignores, as a Number of seconds that means the same, rounded up.
func (d *Driver[T]) Mend(ctx context.Context, key string, apply bool) (string, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return "", err
	}
	names, projection := d.projection()
	item, err := d.item(ctx, key, dynamodb.GetItemInput{ConsistentRead: aws.Bool(true), ProjectionExpression: &projection, ExpressionAttributeNames: names})
	if err != nil {
		return "", err
	}
	s := d.read(item)
	if s.odd != nil {
		return "", s.odd
	}
	fault := d.fault(s)
	if fault == "" || !apply {
		return fault, nil
	}
	c := over(&s, s.Meta, 0)
	update := updateOf(d.opts.move(&c, s.ExpiresAt))
	// If the SDK sends it twice, the second attempt reports a conflict with the first. The caller
	// then reads again, and finds no fault.
	err = d.update(ctx, k, c, update)
	if _, refusal := refused(err); refusal {
		d.stats.count(&d.stats.Refused)
		return "", fmt.Errorf("%w: %w", driver.ErrConflict, err)
	}
	if err != nil {
		return "", failed(err)
	}
	return fault, nil
}
