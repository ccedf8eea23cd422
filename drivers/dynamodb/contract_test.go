package dynamodb

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/drivertest"
)

// configurations are the ways to keep a record. The default is held to the whole contract,
// the other to the cases that drivertest.OfLayout chooses, and at night (-tags night) to the
// whole as well.
var configurations = map[string]Options{
	"default": {},
	"single table": {
		PartitionKey: KeyAttribute{Name: "PK", Type: types.ScalarAttributeTypeB, Of: Prefix("SESSION#")},
		SortKey:      KeyAttribute{Name: "SK", Of: Fixed("METADATA")},
		Expiry:       "ExpiresAt", CreatedAt: "CreatedAt", Version: "Version", RetainedExpiry: "Expiry",
		Retain:          90 * time.Minute,
		CreatedAtFormat: UnixMilli,
		ConsistentRead:  true,
	},
	"life table": {LifeTable: "of its own", Hold: 100 * 24 * time.Hour},
}

// allCases has every layout held to the whole contract.
var allCases bool

// TestContract runs the suite against DynamoDB Local. The requests contain the time by which a
// record is dead, so the suite moves that clock and no case waits. DynamoDB Local meanwhile
// keeps dead records, like DynamoDB, which deletes late.
func TestContract(t *testing.T) {
	t.Parallel()
	for name, opts := range configurations {
		t.Run(name, func(t *testing.T) {
			tbl := open[drivertest.Value](t, &opts)
			opts := tbl.opts
			server := dynamodbtest.Start(t)
			var chosen func(string) bool
			if !allCases && name != "default" {
				chosen = drivertest.OfLayout
			}
			if opts.LifeTable != "" { // which a touch sees alone: see TestLifeTableBesideOthers
				of := chosen
				chosen = func(name string) bool {
					return name != "touch/foreign-overwrite" && (of == nil || of(name))
				}
			}
			drivertest.Run(t, drivertest.Harness{
				Parallel: true,
				Cases:    chosen,
				Open: func(t testing.TB) *drivertest.Backend {
					w, gate, away := newWire(), new(drivertest.Gate), new(apart)
					client := w.client(server, impatient(2), gated(gate, w))
					over := func(client api, opts Options) *Driver[drivertest.Value] {
						d, err := newDriver[drivertest.Value](client, tbl.Driver.table, &opts)
						if err != nil {
							t.Fatal(err)
						}
						return d
					}
					most := maxPartitionKey
					if opts.PartitionKey.Of != nil {
						most -= len("SESSION#")
					}
					var ahead atomic.Int64
					return &drivertest.Backend{
						Driver: over(client, opts),
						Now:    func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
						Wait:   func(d time.Duration) { ahead.Add(int64(d)) },
						MaxKey: most,
						Plant: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
							return plant(ctx, tbl, key, v, life)
						},
						Malform: func(ctx context.Context, key string, v drivertest.Value) error {
							return malform(ctx, tbl, key, v)
						},
						Mar: func(ctx context.Context, key string, v drivertest.Value, life driver.Life) error {
							return mar(ctx, tbl, key, v, life)
						},
						Again: func() driver.Driver[drivertest.Value] { return over(server.Client(away.client), opts) },
						Gate:  gate,
						Apart: func(d time.Duration) { away.off.Store(int64(d)) },
						Hostile: func(ctx context.Context, r drivertest.HostileRecord) error {
							return loadHostile(ctx, tbl, r)
						},
						MaxValue: mostItem,
						Retain: func(retain time.Duration) driver.Driver[drivertest.Value] {
							opts := opts
							opts.Retain = retain
							return over(client, opts)
						},
						Fail: func() func() {
							w.between(func(_ string, req *request, _ sender) (*response, error) {
								return failure(req, 500, "InternalServerError"), nil
							})
							return w.reset
						},
						Own: func(err error) bool {
							var own *types.InternalServerError
							return errors.As(err, &own)
						},
						Hang: func() func() {
							released := make(chan struct{})
							w.between(func(_ string, req *request, send sender) (*response, error) {
								select {
								case <-released:
									return send()
								case <-req.Context().Done():
									return nil, req.Context().Err()
								}
							})
							return sync.OnceFunc(func() { close(released) })
						},
					}
				},
				Lacks: map[drivertest.Feature]string{
					drivertest.Local:       "the store is across a network",
					drivertest.Clock:       "DynamoDB's time is for a store's Options.Now, for those who want it",
					drivertest.ReadToucher: "a read and a touch are two requests",
				},
			})
		})
	}
}

// malform writes a record whose expiry is a word.
func malform[T any](ctx context.Context, tbl *table[T], key string, v T) error {
	item, err := attributevalue.MarshalMap(v)
	if err != nil {
		return err
	}
	k, err := tbl.primaryKey(key)
	if err != nil {
		return err
	}
	tbl.setKey(item, k)
	item[tbl.opts.Expiry] = text("tomorrow")
	_, err = tbl.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: item})
	return err
}

// mar writes a record as plant does, with an expiry in milliseconds.
func mar[T any](ctx context.Context, tbl *table[T], key string, v T, life driver.Life) error {
	if err := plant(ctx, tbl, key, v, life); err != nil {
		return err
	}
	k, err := tbl.primaryKey(key)
	if err != nil {
		return err
	}
	_, err = tbl.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &tbl.Driver.table,
		Key:                       tbl.attributes(k),
		UpdateExpression:          aws.String("SET #e = :e"),
		ExpressionAttributeNames:  map[string]string{"#e": tbl.opts.Expiry},
		ExpressionAttributeValues: map[string]types.AttributeValue{":e": number(itoa(life.ExpiresAt))},
	})
	return err
}

// plant writes a record as a program would that knows the table and not the driver.
func plant[T any](ctx context.Context, tbl *table[T], key string, v T, life driver.Life) error {
	item, err := attributevalue.MarshalMap(v)
	if err != nil {
		return err
	}
	k, err := tbl.primaryKey(key)
	if err != nil {
		return err
	}
	tbl.setKey(item, k)
	if life.CreatedAt != 0 {
		item[tbl.opts.CreatedAt] = text(life.CreatedAt.Time().In(time.FixedZone("", 2*60*60)).Format(time.RFC3339Nano))
	}
	if life.ExpiresAt != 0 {
		item[tbl.opts.Expiry] = number(itoa(life.ExpiresAt / 1000))
	}
	_, err = tbl.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: item})
	return err
}
