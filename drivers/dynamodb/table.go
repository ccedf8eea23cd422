package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	tableTimeout = 2 * time.Minute
	tablePoll    = 50 * time.Millisecond
)

// EnsureTable creates the table if there is none, enables its TTL, and waits until it is
// active. The table has on-demand billing. EnsureTable is for development and tests: in
// production, define the table with the rest of the infrastructure, so that the program
// does not need the permission. It may run several times, and at once. A table that has
// another key, or its TTL on another attribute, is left as it is and is a
// *driver.InvalidError. DynamoDB may take up to an hour to enable TTL, which it does not
// wait for. It does the same for Options.LifeTable.
func (d *Driver[T]) EnsureTable(ctx context.Context) error {
	err := d.ensureTable(ctx, d.table)
	if err == nil && d.opts.LifeTable != "" {
		err = d.ensureTable(ctx, d.opts.LifeTable)
	}
	return err
}

func (d *core) ensureTable(ctx context.Context, table string) error {
	key, attributes := d.schema()
	_, err := d.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &table,
		KeySchema:            key,
		AttributeDefinitions: attributes,
		BillingMode:          types.BillingModePayPerRequest,
	})
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return err
	}
	waiter := dynamodb.NewTableExistsWaiter(d.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = tablePoll, time.Second
	})
	out, err := waiter.WaitForOutput(ctx, &dynamodb.DescribeTableInput{TableName: &table}, tableTimeout)
	if err != nil {
		return fmt.Errorf("waiting for table %s: %w", table, err)
	}
	if err := d.checkTable(table, out.Table); err != nil {
		return err
	}
	status, attribute, err := d.describeTTL(ctx, table)
	if err != nil {
		return err
	}
	if status == types.TimeToLiveStatusDisabled {
		_, enableErr := d.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
			TableName:               &table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &d.opts.Expiry, Enabled: aws.Bool(true)},
		})
		if status, attribute, err = d.describeTTL(ctx, table); err != nil {
			return errors.Join(enableErr, err)
		}
		if enableErr != nil && d.checkTTL(table, status, attribute) != nil {
			return enableErr // else another process enabled it
		}
	}
	return d.checkTTL(table, status, attribute)
}
