package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Check implements driver.Checker, with one DescribeTable and one DescribeTimeToLive. It
// requires that the table is active, that its key is the one configured, that no index has a
// key of another type than the driver writes there, that TTL is enabled on the expiry attribute,
// and that the system's clock is within Options.MaxSkew of DynamoDB's. DynamoDB has no longest
// time to live. It requires the same of Options.LifeTable, that Options.Hold is at least longest and
// Options.Retain, and that this client may read and write there: it sends a read of no record, and an
// update that a condition refuses.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	at := driver.ServerTime{Sent: time.Now(), Step: time.Second}
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &d.table})
	if err != nil {
		return err
	}
	at.At, _ = awsmiddleware.GetServerTime(out.ResultMetadata) // zero if there is none
	at.Got, _ = awsmiddleware.GetResponseAt(out.ResultMetadata)
	status, attribute, err := d.describeTTL(ctx, d.table)
	if err != nil {
		return err
	}
	return errors.Join(d.checkTable(d.table, out.Table), d.checkTTL(d.table, status, attribute), at.CheckSkew("DynamoDB", d.opts.MaxSkew), d.checkLives(ctx, longest))
}

// checkLives is Check of Options.LifeTable.
func (d *core) checkLives(ctx context.Context, longest time.Duration) error {
	table := d.opts.LifeTable
	if table == "" {
		return nil
	}
	var errs []error
	if least := driver.Instant(0).Add(longest).Add(d.opts.Retain).Sub(0); d.opts.Hold < least {
		errs = append(errs, &driver.InvalidError{Field: "Options.Hold", Value: d.opts.Hold.String(), Rule: "must be at least " + least.String() + ", the longest time to live and Options.Retain"})
	}
	out, err := d.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	status, attribute, err := d.describeTTL(ctx, table)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	errs = append(errs, d.checkTable(table, out.Table), d.checkTTL(table, status, attribute))
	if errors.Join(errs...) == nil {
		errs = append(errs, d.checkLifeRights(ctx))
	}
	return errors.Join(errs...)
}

// checkLifeRights makes the calls that a record in Options.LifeTable needs, for no record.
func (d *core) checkLifeRights(ctx context.Context) error {
	k := primaryKey{"0", "0"} // which any type of attribute takes
	none := func(bool, map[string]types.AttributeValue) {}
	if err := d.batches(ctx, []primaryKey{k}, []string{d.opts.LifeTable}, false, none); err != nil {
		return fmt.Errorf("table %s: %w", d.opts.LifeTable, err)
	}
	if _, err := d.itemOf(ctx, d.opts.LifeTable, k); err != nil {
		return fmt.Errorf("table %s: %w", d.opts.LifeTable, err)
	}
	c := condition{text: "attribute_exists(#k) AND attribute_not_exists(#k)"}
	var f attempts
	_, err := d.updateLife(ctx, &f, k, c, "REMOVE #d")
	if _, refusal := refused(err); !refusal {
		return fmt.Errorf("table %s: %w", d.opts.LifeTable, failed(err))
	}
	return nil
}

// describeTTL returns the state of a table's TTL and the attribute it is on.
func (d *core) describeTTL(ctx context.Context, table string) (types.TimeToLiveStatus, string, error) {
	out, err := d.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		return "", "", err
	}
	if ttl := out.TimeToLiveDescription; ttl != nil {
		return ttl.TimeToLiveStatus, aws.ToString(ttl.AttributeName), nil
	}
	return types.TimeToLiveStatusDisabled, "", nil
}

func invalidTable(table, what, value, rule string) error {
	return &driver.InvalidError{Field: fmt.Sprintf("table %s: %s", table, what), Value: value, Rule: rule}
}

func (d *core) checkTable(name string, table *types.TableDescription) error {
	var errs []error
	if s := table.TableStatus; s != types.TableStatusActive && s != types.TableStatusUpdating {
		errs = append(errs, invalidTable(name, "status", string(s), "must be ACTIVE"))
	}
	if got, want := keySchema(table.KeySchema, table.AttributeDefinitions), keySchema(d.schema()); got != want {
		errs = append(errs, invalidTable(name, "key", got, "must be "+want+", or Options.PartitionKey and SortKey must be the table's"))
	}
	o := &d.opts
	for attribute, av := range map[string]types.AttributeValue{
		o.Expiry: seconds(latest), o.CreatedAt: o.CreatedAtFormat.written(latest), o.Version: versionOf(maxVersion), o.RetainedExpiry: retained(0, 0),
	} {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", av), "*types.AttributeValueMember")
		for _, a := range table.AttributeDefinitions { // of keys, the indexes' included
			if *a.AttributeName == attribute && string(a.AttributeType) != kind {
				errs = append(errs, invalidTable(name, "index", fmt.Sprintf("by %q of type %s", attribute, a.AttributeType), "must have no key of another type than the driver writes there, "+kind+": DynamoDB would refuse every write"))
			}
		}
	}
	return errors.Join(errs...)
}

// schema returns the table's key as configured.
func (d *core) schema() (key []types.KeySchemaElement, attributes []types.AttributeDefinition) {
	for i, a := range []*KeyAttribute{&d.opts.PartitionKey, &d.opts.SortKey} {
		if a.Name != "" {
			key = append(key, types.KeySchemaElement{AttributeName: &a.Name, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
			attributes = append(attributes, types.AttributeDefinition{AttributeName: &a.Name, AttributeType: a.Type})
		}
	}
	return key, attributes
}

// keySchema formats a key, partition key first: `"pk" S, "sk" S`.
func keySchema(key []types.KeySchemaElement, attributes []types.AttributeDefinition) string {
	var words []string
	for _, k := range key {
		for _, a := range attributes {
			if *a.AttributeName == *k.AttributeName {
				words = append(words, fmt.Sprintf("%q %s", *k.AttributeName, a.AttributeType))
			}
		}
	}
	return strings.Join(words, ", ")
}

func (d *core) checkTTL(table string, status types.TimeToLiveStatus, attribute string) error {
	enabled := status == types.TimeToLiveStatusEnabled || status == types.TimeToLiveStatusEnabling
	switch {
	case !enabled:
		return invalidTable(table, "TTL", string(status), fmt.Sprintf("must be enabled, on the attribute %q", d.opts.Expiry))
	case attribute != d.opts.Expiry:
		return invalidTable(table, "TTL", fmt.Sprintf("on the attribute %q", attribute), fmt.Sprintf("must be on %q, or Options.Expiry must be the attribute it is on", d.opts.Expiry))
	}
	return nil
}
