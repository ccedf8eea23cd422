package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streams "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/examples/internal/backend"
	"github.com/slidingttl/slidingttl/examples/internal/bucket"
	"github.com/slidingttl/slidingttl/examples/internal/function"
)

// openLambda opens the example on a table with its archive in S3, and the function that is to
// archive there. The program itself reads no stream.
func openLambda(t *testing.T, server *dynamodbtest.Server, table string) (*site, *function.Handler) {
	t.Helper()
	const place = "s3://archive/events"
	startS3(t)
	b, err := bucket.Open(t.Context(), place)
	ok(t, err)
	db := &backend.DynamoDB{Client: server.Client(), Streams: server.Streams()}
	s := newSiteOn(t, b, func(_ *archive.Archiver, r rules, _ func() time.Time) (*shelf, error) {
		return openTable(t.Context(), db, table, nil, r)
	})
	for name, value := range map[string]string{
		"DEAD_ARCHIVE": place, "DEAD_TABLE": table, "DEAD_POLICY": s.active.String(), "DEAD_PREFIX": "EVENT#", "DEAD_SORT": "EVENT",
	} {
		t.Setenv(name, value)
	}
	h, err := function.Open(t.Context())
	ok(t, err)
	return s, h
}

// testLambda has the function archive in S3 the events that TTL removes. The page finds both
// there.
func testLambda(t *testing.T, server *dynamodbtest.Server, s *site, h *function.Handler) {
	s.t = t
	s.until(-100)
	founding := s.begin("Founding") // which TTL may remove at once
	s.until(-99)                    // keys of one instant have no order
	idle := s.begin("Rehearsal")
	s.until(0)
	s.begin("Launch")

	f := &feed{t: t, client: server.Streams()}
	out, err := server.Client().DescribeTable(t.Context(), &awsdynamodb.DescribeTableInput{TableName: aws.String(os.Getenv("DEAD_TABLE"))})
	ok(t, err)
	f.open(out.Table.LatestStreamArn)
	dead := func() (n int) {
		for _, err := range archive.NewReader(s.archive).All(t.Context(), archive.Span{}) {
			ok(t, err)
			n++
		}
		return n
	}
	for begun := time.Now(); dead() < 2; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 5*time.Minute {
			t.Fatalf("%d events are in the archive", dead())
		}
		for range 2 { // Lambda may call twice with the same records
			answer, err := lambda.NewHandler(h.Handle).Invoke(t.Context(), f.records())
			ok(t, err)
			if want := `{"batchItemFailures":null}`; string(answer) != want {
				t.Fatalf("the function answers %s, want %s", answer, want)
			}
		}
		f.next()
	}
	s.archived("Founding idle", "Rehearsal idle") // and no marker
	s.stages("Launch active", "Rehearsal archived", "Founding archived")
	s.shows("/event/"+founding, "Founding", "in the archive")
	s.shows("/event/"+idle, "Rehearsal", "in the archive", "for nobody visited it")
}

// startS3 starts an S3 server with the bucket archive, which the SDK finds by the environment.
func startS3(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_S3": server.URL, "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "secret",
	} {
		t.Setenv(name, value)
	}
	cfg, err := awsconfig.LoadDefaultConfig(t.Context())
	ok(t, err)
	_, err = awss3.NewFromConfig(cfg).CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String("archive")})
	ok(t, err)
}

// feed reads a stream of one shard and hands its records on as Lambda's event source mapping
// does. The answer of GetRecords has the form of Lambda's event.
type feed struct {
	t      *testing.T
	client *dynamodbstreams.Client
	at     *string
	body   bytes.Buffer
	after  *string
}

func (f *feed) open(arn *string) {
	f.t.Helper()
	out, err := f.client.DescribeStream(f.t.Context(), &dynamodbstreams.DescribeStreamInput{StreamArn: arn})
	ok(f.t, err)
	if n := len(out.StreamDescription.Shards); n != 1 {
		f.t.Fatalf("the stream has %d shards", n)
	}
	at, err := f.client.GetShardIterator(f.t.Context(), &dynamodbstreams.GetShardIteratorInput{
		StreamArn: arn, ShardId: out.StreamDescription.Shards[0].ShardId, ShardIteratorType: streams.ShardIteratorTypeTrimHorizon,
	})
	ok(f.t, err)
	f.at = at.ShardIterator
}

// records is the event with the records from where the feed is, until next.
func (f *feed) records() []byte {
	f.t.Helper()
	if f.after == nil {
		out, err := f.client.GetRecords(f.t.Context(), &dynamodbstreams.GetRecordsInput{ShardIterator: f.at}, func(o *dynamodbstreams.Options) {
			o.HTTPClient = copying{o.HTTPClient, &f.body}
		})
		ok(f.t, err)
		if f.after = out.NextShardIterator; f.after == nil {
			f.t.Fatal("the shard has ended")
		}
	}
	return f.body.Bytes()
}

func (f *feed) next() { f.at, f.after = f.after, nil }

// copying copies the body of the last answer.
type copying struct {
	dynamodbstreams.HTTPClient
	to *bytes.Buffer
}

func (c copying) Do(r *http.Request) (*http.Response, error) {
	a, err := c.HTTPClient.Do(r)
	if err == nil {
		c.to.Reset() // of an attempt before
		a.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(a.Body, c.to), a.Body}
	}
	return a, err
}
