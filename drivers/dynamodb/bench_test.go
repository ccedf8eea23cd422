package dynamodb

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// profile is an item of a usual size, about 500 bytes.
type profile struct {
	User   string     `dynamodbav:"user"`
	Email  string     `dynamodbav:"email"`
	Roles  []string   `dynamodbav:"roles"`
	Locale string     `dynamodbav:"locale"`
	Cart   []cartItem `dynamodbav:"cart"`
}

type cartItem struct {
	SKU   string  `dynamodbav:"sku"`
	Count int     `dynamodbav:"count"`
	Price float64 `dynamodbav:"price"`
}

func aProfile() profile {
	p := profile{User: "user-4711", Email: "someone@example.com", Roles: []string{"customer", "beta", "newsletter"}, Locale: "de-AT"}
	for i := range 8 {
		p.Cart = append(p.Cart, cartItem{fmt.Sprint("SKU-00", i), i + 1, 19.9})
	}
	return p
}

// contender is one way to read a profile.
type contender struct {
	name string
	get  func(ctx context.Context, key string) error
}

// contenders are a store's Get whose touch is not due, the bare call with the decoding
// that a program would do by itself, and a read that touches every time.
func contenders(t testing.TB, client *dynamodb.Client, d *Driver[profile]) []contender {
	s := openStore(t, d, policy, slidingttl.Options[profile]{})
	bare := func(ctx context.Context, key string) error {
		consistent := false
		out, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName:      &d.table,
			Key:            attrs{"pk": &types.AttributeValueMemberS{Value: key}},
			ConsistentRead: &consistent,
		})
		if err != nil {
			return err
		}
		var p profile
		return attributevalue.UnmarshalMap(out.Item, &p)
	}
	return []contender{
		{"slidingttl", func(ctx context.Context, key string) error {
			_, err := s.Get(ctx, key)
			return err
		}},
		{"bare_GetItem", bare},
		{"naive_touch", func(ctx context.Context, key string) error {
			if err := bare(ctx, key); err != nil {
				return err
			}
			update := "SET #e = :e"
			_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName:                 &d.table,
				Key:                       attrs{"pk": &types.AttributeValueMemberS{Value: key}},
				UpdateExpression:          &update,
				ExpressionAttributeNames:  map[string]string{"#e": "ttl"},
				ExpressionAttributeValues: attrs{":e": number(itoa(driver.Floor(time.Now())/1000 + 1800))},
			})
			return err
		}},
	}
}

// BenchmarkFigureGetSideBySide lets the contenders take turns of some milliseconds on
// DynamoDB Local, so that whatever else the machine does falls on all of them, and
// reports the throughput of slidingttl as a multiple of the others', by the median turn.
func BenchmarkFigureGetSideBySide(b *testing.B) {
	for _, readers := range []int{1, 16} {
		b.Run(fmt.Sprint(readers), func(b *testing.B) {
			transport := http.DefaultTransport.(*http.Transport).Clone()
			transport.MaxIdleConnsPerHost = readers
			tbl := open[profile](b, nil)
			tbl.wire.base = transport
			d := tbl.Driver
			const keys, turn = 1024, 160
			now := driver.Floor(time.Now())
			life := driver.Life{CreatedAt: now, ExpiresAt: now.Add(policy.IdleGrace + policy.Slack).RoundUp(time.Second)}
			all := contenders(b, d.client.(*dynamodb.Client), d)
			key := func(c contender, i int) string { return fmt.Sprint(c.name, i%keys) }
			for _, c := range all {
				for i := range keys {
					if _, err := d.Insert(b.Context(), key(c, i), aProfile(), life, now); err != nil {
						b.Fatal(err)
					}
				}
			}
			took := make([][]time.Duration, len(all))
			for turns := 0; b.Loop(); turns++ {
				for n := range all {
					i := (turns + n) % len(all)
					c := all[i]
					began := time.Now()
					var wg sync.WaitGroup
					for r := range readers {
						wg.Go(func() {
							for n := range turn / readers {
								if err := c.get(b.Context(), key(c, r*turn+n)); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					took[i] = append(took[i], time.Since(began))
				}
			}
			median := func(i int) float64 {
				slices.Sort(took[i])
				return float64(took[i][len(took[i])/2])
			}
			for i, c := range all[1:] {
				b.ReportMetric(median(i+1)/median(0), "x_"+c.name)
			}
			b.ReportMetric(median(0)/turn*float64(readers)/1e3, "µs/get")
		})
	}
}

// canned answers every request with the same item, without a network.
type canned []byte

func (c canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if _, err := io.Copy(io.Discard, req.Body); err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: int64(len(c)),
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
		Body:   io.NopCloser(bytes.NewReader(c)),
	}, nil
}

// cannedContenders are the contenders on a connection that costs nothing, so that what
// is left is what runs in the program.
func cannedContenders(t testing.TB) []contender {
	tbl := open[profile](t, nil)
	var item canned
	tbl.wire.between(func(op string, _ *request, send sender) (*response, error) {
		resp, err := send()
		if err == nil && op == "GetItem" {
			item, err = io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(bytes.NewReader(item))
		}
		return resp, err
	})
	now := driver.Floor(time.Now())
	tbl.mustInsert(t, "k", aProfile(), driver.Life{CreatedAt: now, ExpiresAt: now.Add(policy.IdleGrace + policy.Slack).RoundUp(time.Second)}, now)
	tbl.mustGet(t, "k")
	tbl.wire.reset()
	tbl.wire.base = item
	return contenders(t, tbl.Driver.client.(*dynamodb.Client), tbl.Driver)[:2]
}

// BenchmarkFigureGetInProcess is what a Get costs in the program itself.
func BenchmarkFigureGetInProcess(b *testing.B) {
	for _, c := range cannedContenders(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.get(b.Context(), "k"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestGetAllocations keeps a Get whose touch is not due within 15 % of the allocations of
// the bare call and its decoding.
func TestGetAllocations(t *testing.T) {
	all := cannedContenders(t)
	var allocs [2]float64
	for i, c := range all {
		allocs[i] = testing.AllocsPerRun(200, func() {
			if err := c.get(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Logf("%v allocations, %v bare", allocs[0], allocs[1])
	if allocs[0] > 1.15*allocs[1] {
		t.Errorf("%v allocations, more than 1.15 times %v", allocs[0], allocs[1])
	}
}
