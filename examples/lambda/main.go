// Lambda is an AWS Lambda function that archives what died in a DynamoDB table. Lambda
// calls it with records of the table's stream, and keeps the position in the stream. If a
// call fails, Lambda calls again with its records, and the archive stores them once.
//
//	GOOS=linux GOARCH=arm64 go build -tags lambda.norpc -o bootstrap ./examples/lambda
//
// The table's stream has the view NEW_AND_OLD_IMAGES. The function needs DEAD_DIR, a
// directory that outlives it (a mounted EFS), DEAD_TABLE, the table's name, and
// DEAD_POLICY, such as "idle 30d, max 90d". Give its event source mapping a batch size of
// some thousand and a batching window of minutes, for few and large files; an on-failure
// destination; the response type ReportBatchItemFailures, without which Lambda does not
// send a failed record again; and this filter, which leaves out mere writes:
//
//	{"eventName": ["REMOVE"]}
//
// The filter also leaves out lives that an overwrite ended; omit it if you need those.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/slidingttl"
)

func main() {
	log.SetFlags(0)
	h, err := open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(h.handle)
}

func open(ctx context.Context) (*handler, error) {
	var policy slidingttl.Policy
	if err := policy.UnmarshalText([]byte(os.Getenv("DEAD_POLICY"))); err != nil {
		return nil, fmt.Errorf("DEAD_POLICY: %w", err)
	}
	bucket, err := archive.OpenDirectory(os.Getenv("DEAD_DIR"))
	if err != nil {
		return nil, fmt.Errorf("DEAD_DIR: %w", err)
	}
	w, err := archive.NewWriter(bucket, nil)
	if err != nil {
		return nil, err
	}
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	// The application's driver, which knows the keys and the attributes of a life. It makes
	// no requests here.
	d, err := dynamodb.New[map[string]any](awsdynamodb.NewFromConfig(cfg), os.Getenv("DEAD_TABLE"), nil)
	if err != nil {
		return nil, err
	}
	return &handler{
		dead: d.Dead,
		grave: &archive.Grave{
			Writer: w,
			Source: os.Getenv("DEAD_TABLE"),
			Policy: func(string) slidingttl.Policy { return policy },
		},
	}, nil
}
