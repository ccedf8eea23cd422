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

// openDynamoDB opens the table of r.
func openDynamoDB(r run) (*dynamodb.Driver[session], *dynamodbtest.Server, error) {
	s := &dynamodbtest.Server{Endpoint: r.Address}
	o := &dynamodb.Options{LifeTable: r.LifeTable}
	if r.LifeTable != "" {
		o.Hold = 30 * day
	}
	d, err := dynamodb.New[session](s.Client(), r.Name, o)
	return d, s, err
}

// streamTime bounds a reader of a stream: TTL removes dead items at its own pace.
const streamTime = 5 * time.Minute

// readStream reads a stream into the archive until that has r.Records records.
func readStream(ctx context.Context, r run, a archive.Bucket, g *archive.Archiver) error {
	d, server, err := openDynamoDB(r)
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
		Bury: g.Archive,
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
// repeatedly. With a life table it died at the expiry that a touch wrote there.
func TestKilledStream(t *testing.T) {
	server := dynamodbtest.StartTTL(t)
	for name, lifeTable := range map[string]string{"one table": "", "life table": server.Table(t)} {
		t.Run(name, func(t *testing.T) {
			r := run{Kind: "streams", Address: server.Endpoint, Name: server.Table(t), LifeTable: lifeTable, Archive: t.TempDir(), Batch: *streamBatch, Records: *removals}
			d, _, err := openDynamoDB(r)
			ok(t, err)
			ok(t, d.EnsureTable(t.Context()))
			_, err = server.Client().UpdateTable(t.Context(), &awsdynamodb.UpdateTableInput{TableName: &r.Name, StreamSpecification: &types.StreamSpecification{
				StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages,
			}})
			ok(t, err)
			now := driver.Floor(time.Now()).RoundUp(time.Second)
			dead := make(map[string]archive.Record, r.Records)
			var group errgroup.Group
			group.SetLimit(8)
			for i := range r.Records {
				key := fmt.Sprint("dead-", i)
				died := now.Add(-time.Hour - time.Duration(i%1000)*time.Second)
				life := driver.Life{CreatedAt: died.Add(-30 * day), ExpiresAt: died}
				dead[key] = archive.Record{CreatedAt: life.CreatedAt, ExpiredAt: died, Reason: archive.Idle}
				group.Go(func() error {
					born := life
					if lifeTable != "" {
						born.ExpiresAt = life.CreatedAt.Add(day)
					}
					v, err := d.Insert(t.Context(), key, session{User: key}, born, life.CreatedAt)
					if err == nil && born != life {
						_, err = d.Touch(t.Context(), key, driver.Meta{Life: born, Version: v}, life, life.CreatedAt)
					}
					if err == nil && i >= byTTL {
						err = d.Delete(t.Context(), key)
					}
					return err
				})
			}
			ok(t, group.Wait())
			killed(t, r, nil)
			holds(t, r.Archive, dead)
		})
	}
}
