// Lambda is an AWS Lambda function that archives in S3 what died in a DynamoDB table. Lambda
// calls it with records of the table's stream, and keeps the position in the stream. If a
// call fails, Lambda calls again with its records, and the archive stores them once. If one
// record fails, the function answers with a partial batch: Lambda calls again from that
// record on.
//
//	GOOS=linux GOARCH=arm64 go build -tags lambda.norpc -o bootstrap ./examples/lambda
//
// The table's stream has the view NEW_AND_OLD_IMAGES. The function's environment has
//
//	DEAD_ARCHIVE   s3://bucket/prefix, or, for a try, a directory
//	DEAD_TABLE     the table's name
//	DEAD_POLICY    the policy of its records: idle 30d, max 90d
//	DEAD_PREFIX    what stands before a record's key in the attribute pk; empty: nothing
//	DEAD_SORT      the attribute sk of each record; empty: the table has none
//
// Items with another prefix or sort key are not archived, nor are items that somebody deletes
// while they live. The function's role needs to read the stream, and to get, put and list
// objects of the bucket.
//
// Give its event source mapping a batch size of some thousand and a batching window of
// minutes, for few and large files; an on-failure destination; the response type
// ReportBatchItemFailures, without which Lambda does not send a failed record again; and
// this filter, which leaves out mere writes:
//
//	{"eventName": ["REMOVE"]}
//
// The filter also leaves out lives that an overwrite ended; omit it if you need those.
//
// With DEAD_PREFIX=EVENT# and DEAD_SORT=EVENT it archives the events of examples/lifecycle,
// which then finds them in S3: see there.
package main

import (
	"context"
	"log"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/slidingttl/slidingttl/examples/internal/function"
)

func main() {
	log.SetFlags(0)
	h, err := function.Open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	lambda.Start(h.Handle)
}
