package sources

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamodb "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

var (
	removals    = flag.Int("removals", 300, "how many dead items are removed in TestKilledStream")
	streamBatch = flag.Int("stream-batch", 10, "how many of them are buried at once")
)

func openDynamoDB(endpoint, table string) (*dynamodb.Driver[session], *dynamodbtest.Server, error) {
	s := &dynamodbtest.Server{Endpoint: endpoint}
	d, err := dynamodb.New[session](s.Client(), table, nil)
	return d, s, err
}

// streamTime bounds a reader of a stream: TTL removes dead items at its own pace.
const streamTime = 5 * time.Minute

// readStream reads a stream into the archive until that has r.Records records.
func readStream(ctx context.Context, r run, a archive.Bucket, g *archive.Grave) error {
	d, server, err := openDynamoDB(r.Address, r.Name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, streamTime)
	defer cancel()
	complete := func() (bool, error) {
		keys := make(map[string]struct{})
		for a, err := range archive.NewReader(a).All(ctx, archive.Span{}) {
			if err != nil {
				return false, err
			}
			keys[a.Key] = struct{}{}
		}
		return len(keys) >= r.Records, nil
	}
	if done, err := complete(); done || err != nil {
		return err
	}
	const name = "stream"
	s, err := d.Stream(server.Streams(), dynamodb.StreamOptions{
		Bury: g.Bury,
		Load: func(ctx context.Context) ([]byte, error) { return g.Writer.Checkpoint(ctx, name) },
		Save: func(ctx context.Context, place []byte) error {
			if err := g.Writer.SaveCheckpoint(ctx, name, place); err != nil {
				return err
			}
			done, err := complete()
			if done {
				cancel()
			}
			return err
		},
		Batch:   r.Batch,
		Every:   100 * time.Millisecond,
		OnError: func(err error) { fmt.Fprintln(os.Stderr, err) },
	})
	if err != nil {
		return err
	}
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// byTTL is how many of them TTL removes: DynamoDB Local removes some 20 in ten seconds. The test
// removes the others, like a reaper.
const byTTL = 15

// Each record that died and was removed is in the archive once, although the reader was killed
// repeatedly.
func TestKilledStream(t *testing.T) {
	server := dynamodbtest.StartTTL(t)
	client := server.Client()
	table := server.Table(t)
	d, _, err := openDynamoDB(server.Endpoint, table)
	ok(t, err)
	ok(t, d.EnsureTable(t.Context()))
	_, err = client.UpdateTable(t.Context(), &awsdynamodb.UpdateTableInput{TableName: &table, StreamSpecification: &types.StreamSpecification{
		StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
	}})
	ok(t, err)
	now := driver.Floor(time.Now()).RoundUp(time.Second)
	dead := make(map[string]archive.Record, *removals)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range *removals {
		key := fmt.Sprint("dead-", i)
		died := now.Add(-time.Hour - time.Duration(i%1000)*time.Second)
		life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
		dead[key] = archive.Record{CreatedAt: life.CreatedAt, ExpiredAt: died, Reason: archive.Idle}
		group.Go(func() error {
			_, err := d.Insert(t.Context(), key, session{User: key}, life, life.CreatedAt)
			if err == nil && i >= byTTL {
				err = d.Delete(t.Context(), key)
			}
			return err
		})
	}
	ok(t, group.Wait())
	path := t.TempDir()
	killed(t, run{Kind: "streams", Address: server.Endpoint, Name: table, Archive: path, Batch: *streamBatch, Records: len(dead)}, nil)
	holds(t, path, dead)
}
