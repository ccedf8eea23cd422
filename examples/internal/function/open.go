// Package function is what examples/lambda runs, for tests of other programs to call.
package function

import (
	"context"
	"fmt"
	"os"

	"github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/examples/internal/bucket"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// Open returns the handler that the environment describes. It makes no requests. For the
// variables see examples/lambda.
func Open(ctx context.Context) (*Handler, error) {
	var policy slidingttl.Policy
	if err := policy.UnmarshalText([]byte(os.Getenv("DEAD_POLICY"))); err != nil {
		return nil, fmt.Errorf("DEAD_POLICY: %w", err)
	}
	b, err := bucket.Open(ctx, os.Getenv("DEAD_ARCHIVE"))
	if err != nil {
		return nil, fmt.Errorf("DEAD_ARCHIVE: %w", err)
	}
	w, err := archive.NewWriter(b, nil)
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	// The application's driver, which knows the keys and the attributes of a life.
	opts := &dynamodb.Options{PartitionKey: dynamodb.KeyAttribute{Name: "pk", Of: dynamodb.Prefix(os.Getenv("DEAD_PREFIX"))}}
	if sort := os.Getenv("DEAD_SORT"); sort != "" {
		opts.SortKey = dynamodb.KeyAttribute{Name: "sk", Of: dynamodb.Fixed(sort)}
	}
	d, err := dynamodb.New[map[string]any](awsdynamodb.NewFromConfig(cfg), os.Getenv("DEAD_TABLE"), opts)
	if err != nil {
		return nil, err
	}
	return &Handler{
		dead: d.Dead,
		archiver: &archive.Archiver{
			Writer: w,
			Source: os.Getenv("DEAD_TABLE"),
			Policy: func(string) slidingttl.Policy { return policy },
		},
	}, nil
}
