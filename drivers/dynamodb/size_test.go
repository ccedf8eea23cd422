package dynamodb

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A scan reports an item's room as the touch that adopts it finds it, byte by byte near the
// limit.
func TestScanSizes(t *testing.T) {
	server := dynamodbtest.Start(t)
	d, err := New[map[string]any](server.Client(), server.Table(t), &Options{ScanSizes: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	for size := largest - 120; size <= largest-40; size += 10 {
		key := "k"
		_, err := server.Client().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &d.table, Item: map[string]types.AttributeValue{
			"pk": text(key), "list": &types.AttributeValueMemberL{Value: []types.AttributeValue{number("17"), &types.AttributeValueMemberBOOL{Value: true}}},
			"v": text(strings.Repeat("v", size)),
		}})
		if err != nil {
			t.Fatal(err)
		}
		r := scanned(t, d)
		if r.Size < size || r.Size > size+40 {
			t.Errorf("an item of %d bytes has a size of %d", size, r.Size)
		}
		_, err = d.Touch(t.Context(), key, r.Meta, driver.Life{CreatedAt: kit.NumberMillis / 10, ExpiresAt: kit.NumberMillis / 10}, 1)
		if errors.Is(err, driver.ErrInvalid) && r.Full == nil || err == nil && r.Full != nil && size < largest-110 {
			t.Errorf("of an item of %d bytes a scan says %v, and a touch %v", size, r.Full, err)
		}
	}
}

// scanned returns the only record of d.
func scanned(t *testing.T, d *Driver[map[string]any]) driver.Scanned {
	t.Helper()
	segments, err := d.Segments(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	page, err := d.Scan(t.Context(), segments[0], 10)
	if err != nil || len(page.Records) != 1 {
		t.Fatalf("%d records, %v", len(page.Records), err)
	}
	return page.Records[0]
}
