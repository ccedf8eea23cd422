package main

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/couchbase/gocb/v2"

	"github.com/slidingttl/slidingttl/drivers/couchbase"
	"github.com/slidingttl/slidingttl/drivers/couchbase/couchbasetest"
	"github.com/slidingttl/slidingttl/drivers/dynamodb"
	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/internal/survey"
	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

var records = flag.Int("figure.records", 200_000, "how many records of 1 KB the figures are of")

// rates compares an audit of all records with a scan of them by the SDK alone, by turns.
func rates(b *testing.B, s driver.Scanner, bare func(segments int) int) {
	policy, err := slidingttl.ParsePolicy(thirty)
	if err != nil {
		b.Fatal(err)
	}
	for _, segments := range []int{1, 4} {
		b.Run(fmt.Sprint("segments=", segments), func(b *testing.B) {
			var audits, scans time.Duration
			for b.Loop() {
				began := time.Now()
				if n := bare(segments); n != *records {
					b.Fatalf("the SDK's scan finds %d records", n)
				}
				scans += time.Since(began)
				began = time.Now()
				r, err := survey.Audit(b.Context(), s, policy, &survey.LookOptions{Options: upkeep.Options{Segments: segments, Page: 1000}})
				if err != nil || r.Records != int64(*records) {
					b.Fatal(err, r)
				}
				audits += time.Since(began)
			}
			rate := float64(*records) * float64(b.N)
			b.ReportMetric(rate/audits.Seconds(), "records/s")
			b.ReportMetric(rate/scans.Seconds(), "bare/s")
			b.ReportMetric(scans.Seconds()/audits.Seconds(), "of-bare")
		})
	}
}

// fill puts the records, several at once.
func fill(b *testing.B, at int, put func(from, to int) error) {
	b.Helper()
	var writers sync.WaitGroup
	next := make(chan int)
	for range 16 {
		writers.Go(func() {
			for from := range next {
				if err := put(from, min(from+at, *records)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for from := 0; from < *records; from += at {
		next <- from
	}
	close(next)
	writers.Wait()
}

var kilobyte = strings.Repeat("x", 1000)

// BenchmarkFigureAuditCouchbase: of-bare is to be 0.8 at least. A range scan returns no
// xattrs, so the SDK alone too looks up each document to learn what an audit does.
func BenchmarkFigureAuditCouchbase(b *testing.B) {
	n := couchbasetest.Start(b)
	c := n.Cluster(b).Bucket(n.Bucket()).DefaultCollection()
	fill(b, 1000, func(from, to int) error {
		for i := from; i < to; i++ {
			if _, err := c.Upsert(fmt.Sprint("user:", i), map[string]any{"v": kilobyte}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	d, err := couchbase.New[any](c, nil)
	if err != nil {
		b.Fatal(err)
	}
	rates(b, d, func(segments int) int {
		res, err := c.Scan(gocb.RangeScan{}, &gocb.ScanOptions{IDsOnly: true, Concurrency: uint16(segments), Timeout: 10 * time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		keys := make(chan string, 1000)
		var found atomic.Int64
		var readers sync.WaitGroup
		xattr := &gocb.GetSpecOptions{IsXattr: true}
		for range 64 {
			readers.Go(func() {
				for key := range keys {
					_, err := c.LookupIn(key, []gocb.LookupInSpec{gocb.GetSpec("$document.exptime", xattr), gocb.GetSpec("slidingttl.created_at", xattr)}, nil)
					if err != nil {
						b.Error(err)
					}
					found.Add(1)
				}
			})
		}
		for item := res.Next(); item != nil; item = res.Next() {
			keys <- item.ID()
		}
		close(keys)
		readers.Wait()
		if err := res.Err(); err != nil {
			b.Fatal(err)
		}
		return int(found.Load())
	})
}

// BenchmarkFigureAuditDynamoDB: of-bare is to be 0.8 at least.
func BenchmarkFigureAuditDynamoDB(b *testing.B) {
	server := dynamodbtest.Start(b)
	client, table := server.Client(), server.Table(b)
	d, err := dynamodb.New[any](client, table, nil)
	if err != nil {
		b.Fatal(err)
	}
	if err := d.EnsureTable(b.Context()); err != nil {
		b.Fatal(err)
	}
	fill(b, 25, func(from, to int) error {
		batch := make([]types.WriteRequest, 0, to-from)
		for i := from; i < to; i++ {
			batch = append(batch, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("user:", i)}, "v": &types.AttributeValueMemberS{Value: kilobyte},
			}}})
		}
		_, err := client.BatchWriteItem(b.Context(), &sdk.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{table: batch}})
		return err
	})
	rates(b, d, func(segments int) (found int) {
		counts := make([]int, segments)
		var readers sync.WaitGroup
		for i := range counts {
			readers.Go(func() {
				segment, of := int32(i), int32(segments)
				pages := sdk.NewScanPaginator(client, &sdk.ScanInput{TableName: &table, Segment: &segment, TotalSegments: &of})
				for pages.HasMorePages() {
					page, err := pages.NextPage(b.Context())
					if err != nil {
						b.Error(err)
						return
					}
					counts[i] += len(page.Items)
				}
			})
		}
		readers.Wait()
		for _, n := range counts {
			found += n
		}
		return found
	})
}
