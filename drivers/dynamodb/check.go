package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Check implements driver.Checker, with one DescribeTable and one DescribeTimeToLive. It
// requires that the table is active, that its key is the one configured, that no index has a
// key of another type than the driver writes there, that Options.ScanIndex exists and has what Scan
// reads, that TTL is enabled on the expiry attribute, and that the system's clock is within
// Options.MaxSkew of DynamoDB's. DynamoDB has no longest time to live. It requires the same of
// Options.LifeTable, and that Options.Hold is at least longest and Options.Retain.
//
// If all that is right, it tries whether this client may read and write: it reads the item of the key
// "0" by GetItem and BatchGetItem, and sends a PutItem, an UpdateItem and a DeleteItem of it with a
// condition that never holds. Without such an item they cost 1.5 read and 3 write units.
func (d *Driver[T]) Check(ctx context.Context, longest time.Duration) error {
	at := kit.ServerTime{Sent: time.Now(), Step: time.Second}
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
	wrong := errors.Join(d.checkTable(d.table, out.Table), d.checkIndex(out.Table), d.checkTTL(d.table, status, attribute), at.CheckSkew("DynamoDB", d.opts.MaxSkew))
	if wrong == nil {
		wrong = d.checkRights(ctx, d.table)
	}
	return errors.Join(wrong, d.checkLives(ctx, longest))
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
		errs = append(errs, d.checkRights(ctx, table))
	}
	return errors.Join(errs...)
}

// checkRights makes the calls that a record needs in a table, with writes that a condition refuses.
func (d *core) checkRights(ctx context.Context, table string) error {
	k := d.triedKey()
	none := func(bool, map[string]types.AttributeValue) {}
	_, err := d.batches(ctx, []primaryKey{k}, []string{table}, false, none)
	if err != nil {
		return fmt.Errorf("table %s: BatchGetItem: %w", table, err)
	}
	if _, err := d.itemOf(ctx, table, k); err != nil {
		return fmt.Errorf("table %s: GetItem: %w", table, err)
	}
	// A role may be kept from attributes and from the answers that writes ask for.
	never, key := condition{text: "attribute_exists(#k) AND attribute_not_exists(#k)"}, d.attributes(k)
	names, returns, update := d.used(never.text), types.ReturnValueNone, "REMOVE #e, #c, #v, #x"
	if table == d.opts.LifeTable {
		returns, update = types.ReturnValueAllOld, update+", #d, #b"
	}
	writes := map[string]func() error{"UpdateItem": func() error {
		_, err := d.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &table, Key: key, UpdateExpression: &update, ConditionExpression: &never.text,
			ExpressionAttributeNames: d.used(update + never.text), ReturnValues: returns, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld})
		return err
	}}
	if table == d.table {
		writes["PutItem"] = func() error {
			item := d.written(table)
			maps.Copy(item, key)
			_, err := d.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item, ConditionExpression: &never.text,
				ExpressionAttributeNames: names, ReturnValues: types.ReturnValueAllOld, ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld})
			return err
		}
		writes["DeleteItem"] = func() error {
			_, err := d.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key, ConditionExpression: &never.text, ExpressionAttributeNames: names})
			return err
		}
	}
	var errs []error
	for call, send := range writes {
		err := send()
		if _, refusal := refused(err); !refusal {
			errs = append(errs, fmt.Errorf("table %s: %s: %w", table, call, failed(err)))
		}
	}
	return errors.Join(errs...)
}

// triedKey is the key "0", as computed for a record if that can be.
func (d *core) triedKey() (k primaryKey) {
	plain := primaryKey{"0", "0"} // which each type of attribute takes
	defer func() {
		if recover() != nil {
			k = plain
		}
	}()
	k, err := d.primaryKey("0")
	if err != nil {
		return plain
	}
	return k
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
	for attribute, av := range d.written(name) {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", av), "*types.AttributeValueMember")
		for _, a := range table.AttributeDefinitions { // of keys, the indexes' included
			if *a.AttributeName == attribute && string(a.AttributeType) != kind {
				errs = append(errs, invalidTable(name, "index", fmt.Sprintf("by %q of type %s", attribute, a.AttributeType), "must have no key of another type than the driver writes there, "+kind+": DynamoDB would refuse every write"))
			}
		}
	}
	return errors.Join(errs...)
}

// written returns what the driver writes to an item of a table beside its key and its value.
func (d *core) written(table string) map[string]types.AttributeValue {
	o := &d.opts
	item := map[string]types.AttributeValue{o.Expiry: seconds(latest), o.CreatedAt: o.CreatedAtFormat.written(latest), o.Version: versionOf(maxVersion), o.RetainedExpiry: retained(latest, latest)}
	if table == o.LifeTable { // which has created_at as text
		item[o.CreatedAt], item[doubtName], item[formerName] = RFC3339.written(latest), number("1"), &types.AttributeValueMemberL{}
	}
	return item
}

// checkIndex requires of Options.ScanIndex that it projects what Scan reads. What a local index lacks
// DynamoDB reads from the table, but not with Options.ScanSizes, which asks for no attribute by name.
func (d *core) checkIndex(table *types.TableDescription) error {
	o := &d.opts
	if o.ScanIndex == "" {
		return nil
	}
	wrong := func(rule string) error {
		return &driver.InvalidError{Field: "Options.ScanIndex", Value: fmt.Sprintf("%q", o.ScanIndex), Rule: rule}
	}
	var p *types.Projection
	var key []types.KeySchemaElement
	for _, i := range table.GlobalSecondaryIndexes {
		if *i.IndexName == o.ScanIndex {
			p, key = i.Projection, i.KeySchema
		}
	}
	for _, i := range table.LocalSecondaryIndexes {
		if *i.IndexName == o.ScanIndex {
			if p, key = i.Projection, i.KeySchema; !o.ScanSizes {
				return nil
			}
		}
	}
	switch {
	case p == nil:
		return wrong("must be an index of the table")
	case p.ProjectionType == types.ProjectionTypeAll:
		return nil
	}
	has := slices.Clone(p.NonKeyAttributes)
	for _, k := range slices.Concat(key, table.KeySchema) {
		has = append(has, *k.AttributeName)
	}
	for _, name := range []string{o.Expiry, o.CreatedAt, o.Version, o.RetainedExpiry} {
		if !slices.Contains(has, name) {
			return wrong(fmt.Sprintf("must be an index that projects %q", name))
		}
	}
	return nil
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
