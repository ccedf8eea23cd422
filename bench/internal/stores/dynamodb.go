package stores

import (
	"context"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl"
)

const tableName = "bench"

var dynamodbContenders = []contender{
	{name: bareName, open: bareItems(func(b *bareTable) dynamodbGet { return b.read })},
	{name: naiveName, open: bareItems(func(b *bareTable) dynamodbGet { return b.readThenTouch })},
	{name: atOnceName, open: bareItems(func(b *bareTable) dynamodbGet { return b.readAndTouch })},
	{name: exactName, open: ownItems(0)},
	{name: own1, open: ownItems(1)},
	{name: own10, open: ownItems(10)},
}

type dynamodbGet func(ctx context.Context, key string) (session, error)

// openTable returns a client that keeps its connections, and a driver with a table.
func openTable(ctx context.Context, address string) (*awsdynamodb.Client, *dynamodb.Driver[session], error) {
	server := dynamodbtest.Server{Endpoint: address}
	client := server.Client(func(o *awsdynamodb.Options) { o.HTTPClient = keepsConnections() })
	d, err := dynamodb.New[session](client, tableName, nil)
	if err != nil {
		return nil, nil, err
	}
	return client, d, d.EnsureTable(ctx)
}

// insert returns a function that puts records into the store.
func insert(s *slidingttl.Store[session]) func(context.Context, string) error {
	return func(ctx context.Context, key string) error { return s.Insert(ctx, key, aSession()) }
}

// ownItems is slidingttl.
func ownItems(slackPercent time.Duration) func(context.Context, string) (way, error) {
	return func(ctx context.Context, address string) (way, error) {
		_, d, err := openTable(ctx, address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(slackPercent), nil)
		if err != nil {
			return way{}, err
		}
		return way{get: s.Get, put: insert(s), spent: func() spent {
			units, done := d.Stats(), s.Stats()
			return spent{
				writes:     float64(done.Touched) + float64(units.Refused),
				readUnits:  units.ReadUnits,
				writeUnits: units.TouchUnits + float64(units.Refused),
			}
		}}, nil
	}
}

// bareTable is what a program does by itself. Like the driver it asks what each request
// consumed.
type bareTable struct {
	client *awsdynamodb.Client
	bill
}

func bareItems(get func(*bareTable) dynamodbGet) func(context.Context, string) (way, error) {
	return func(ctx context.Context, address string) (way, error) {
		client, d, err := openTable(ctx, address)
		if err != nil {
			return way{}, err
		}
		s, err := slidingttl.New(d, policy(10), nil)
		if err != nil {
			return way{}, err
		}
		b := &bareTable{client: client}
		return way{get: get(b), put: insert(s), spent: b.spent}, nil
	}
}

func itemKey(key string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: key}}
}

func (b *bareTable) read(ctx context.Context, key string) (s session, err error) {
	out, err := b.client.GetItem(ctx, &awsdynamodb.GetItemInput{
		TableName:              aws.String(tableName),
		Key:                    itemKey(key),
		ConsistentRead:         aws.Bool(false),
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return s, err
	}
	b.add(spent{readUnits: *out.ConsumedCapacity.CapacityUnits})
	return s, attributevalue.UnmarshalMap(out.Item, &s)
}

func (b *bareTable) touch(ctx context.Context, key string, back types.ReturnValue) (map[string]types.AttributeValue, error) {
	out, err := b.client.UpdateItem(ctx, &awsdynamodb.UpdateItemInput{
		TableName:                aws.String(tableName),
		Key:                      itemKey(key),
		UpdateExpression:         aws.String("SET #e = :e"),
		ExpressionAttributeNames: map[string]string{"#e": "ttl"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":e": &types.AttributeValueMemberN{Value: strconv.FormatInt(time.Now().Add(idleTimeout).Unix(), 10)},
		},
		ReturnValues:           back,
		ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	if err != nil {
		return nil, err
	}
	b.add(spent{writes: 1, writeUnits: *out.ConsumedCapacity.CapacityUnits})
	return out.Attributes, nil
}

func (b *bareTable) readThenTouch(ctx context.Context, key string) (session, error) {
	s, err := b.read(ctx, key)
	if err == nil {
		_, err = b.touch(ctx, key, types.ReturnValueNone)
	}
	return s, err
}

func (b *bareTable) readAndTouch(ctx context.Context, key string) (s session, err error) {
	attributes, err := b.touch(ctx, key, types.ReturnValueAllNew)
	if err != nil {
		return s, err
	}
	return s, attributevalue.UnmarshalMap(attributes, &s)
}
