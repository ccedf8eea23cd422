package backend

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
)

// DynamoDB is a DynamoDB in use.
type DynamoDB struct {
	Client  *dynamodb.Client
	Streams *dynamodbstreams.Client
	About   string // what it is, in a few words
	close   func() error
}

// Close ends what OpenDynamoDB began.
func (d *DynamoDB) Close() error { return d.close() }

// OpenDynamoDB opens the DynamoDB that c names. One started for the occasion tells its
// streams of what TTL has deleted.
func OpenDynamoDB(ctx context.Context, c Choice) (*DynamoDB, error) {
	if c.Address == "" {
		server, err := dynamodbtest.RunTTL(ctx)
		if err != nil {
			return nil, err
		}
		return &DynamoDB{server.Client(), server.Streams(), "DynamoDB Local", server.Close}, nil
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	// AWS has another host for streams.
	streams := strings.Replace(c.Address, "://dynamodb.", "://streams.dynamodb.", 1)
	return &DynamoDB{
		Client:  dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) { o.BaseEndpoint = &c.Address }),
		Streams: dynamodbstreams.NewFromConfig(cfg, func(o *dynamodbstreams.Options) { o.BaseEndpoint = &streams }),
		About:   "DynamoDB at " + c.Address,
		close:   func() error { return nil },
	}, nil
}
