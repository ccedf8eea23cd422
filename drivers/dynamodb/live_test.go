package dynamodb

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// index adds an index by the attribute "holder" to tbl, with the given projection.
func index(t *testing.T, tbl *table[session], projection types.Projection) {
	t.Helper()
	_, err := tbl.client.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName:            &tbl.Driver.table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("holder"), AttributeType: types.ScalarAttributeTypeS}},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName:  aws.String("by-owner"),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("holder"), KeyType: types.KeyTypeHash}},
			Projection: &projection,
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	waiter := dynamodb.NewTableExistsWaiter(tbl.client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = tablePoll, tablePoll
		o.Retryable = func(_ context.Context, _ *dynamodb.DescribeTableInput, out *dynamodb.DescribeTableOutput, err error) (bool, error) {
			return err == nil && out.Table.GlobalSecondaryIndexes[0].IndexStatus != types.IndexStatusActive, err
		}
	})
	if err := waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &tbl.Driver.table}, tableTimeout); err != nil {
		t.Fatal(err)
	}
}

// An application's own query with Live, here of an index, finds live items, and those that the
// filter cannot judge.
func TestLive(t *testing.T) {
	tbl := open[session](t, nil)
	index(t, tbl, types.Projection{ProjectionType: types.ProjectionTypeAll})
	for key, expiry := range map[string]types.AttributeValue{
		"next second": number(itoa(base/1000 + 1)),
		"now":         number(itoa(base / 1000)),
		"before":      number(itoa(base/1000 - 1)),
		"negative":    number("-1"),
		"millis":      number(itoa(base)),
		"text":        text("tomorrow"),
		"never":       nil,
	} {
		item := attrs{"holder": text("ann")}
		if expiry != nil {
			item["ttl"] = expiry
		}
		tbl.put(t, key, item)
	}
	live := tbl.Live(base)
	values := map[string]types.AttributeValue{":owner": text("ann")}
	maps.Copy(values, live.Values)
	out, err := tbl.client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &tbl.Driver.table, IndexName: aws.String("by-owner"),
		KeyConditionExpression:    aws.String("holder = :owner"),
		FilterExpression:          &live.Expression,
		ExpressionAttributeNames:  live.Names,
		ExpressionAttributeValues: values,
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, item := range out.Items {
		found = append(found, plain(item["pk"]))
	}
	slices.Sort(found)
	if want := []string{"millis", "never", "next second", "text"}; !slices.Equal(found, want) {
		t.Errorf("the query finds %q; want %q", found, want)
	}
}

// A scan of an index returns each of its items once, whatever the pages.
func TestScanOfAnIndex(t *testing.T) {
	tbl := open[session](t, nil)
	index(t, tbl, types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"ttl", "created_at", "slidingttl_version", "slidingttl_expiry"}})
	life := driver.Life{CreatedAt: base, ExpiresAt: base.Add(time.Hour)}
	for i := range 20 {
		item := attrs{"ttl": number(itoa(life.ExpiresAt / 1000)), "created_at": text(base.Time().Format(kit.RFC3339Milli))}
		if i%2 == 0 {
			item["holder"] = text("ann")
		}
		tbl.put(t, fmt.Sprint(i), item)
	}
	d := tbl.again(t, &Options{ScanIndex: "by-owner", ConsistentRead: true})
	met := scanAll(t, d, 3)
	if len(met) != 10 || met["4"].Life != life {
		t.Errorf("the scan met %v", met)
	}
	if met := scanAll(t, tbl.again(t, nil), 3); len(met) != 20 {
		t.Errorf("the scan of the table met %d", len(met))
	}
}

// An index without the attributes of lives is refused, and not read as records without lives.
func TestScanOfAPoorIndex(t *testing.T) {
	tbl := open[session](t, nil)
	index(t, tbl, types.Projection{ProjectionType: types.ProjectionTypeKeysOnly})
	tbl.put(t, "a", attrs{"holder": text("ann"), "ttl": number("1")})
	d := tbl.again(t, &Options{ScanIndex: "by-owner"})
	wantInvalid(t, "Check", d.Check(t.Context(), time.Hour), "Options.ScanIndex", `"ttl"`)
	cursors, err := d.Segments(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := d.Scan(t.Context(), cursors[0], 10); err == nil {
		t.Errorf("the scan returns %v", p.Records)
	}
}

// DynamoDB refuses nothing if no projection is sent, as with ScanSizes: then Segments does.
func TestScanSizesOfAPoorIndex(t *testing.T) {
	life := []string{"ttl", "created_at", "slidingttl_version", "slidingttl_expiry"}
	for _, projected := range [][]string{nil, life[:3], life[1:], life} {
		tbl := open[session](t, nil)
		p := types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: projected}
		if projected == nil {
			p.ProjectionType = types.ProjectionTypeKeysOnly
		}
		index(t, tbl, p)
		d := tbl.again(t, &Options{ScanIndex: "by-owner", ScanSizes: true})
		errCheck := d.Check(t.Context(), time.Hour)
		_, err := d.Segments(t.Context(), 1)
		if _, whole := d.Whole(driver.Erasure{}).Segments(t.Context(), 1); whole != nil {
			t.Errorf("with %v an erasure, which reads the table, returns %v", projected, whole)
		}
		if len(projected) == len(life) {
			if err != nil || errCheck != nil {
				t.Errorf("Segments returns %v, Check %v", err, errCheck)
			}
			continue
		}
		wantInvalid(t, "Segments", err, "Options.ScanIndex", "projects")
		wantInvalid(t, "Check", errCheck, "Options.ScanIndex", "projects")
	}
	tbl := open[session](t, nil)
	_, err := tbl.again(t, &Options{ScanIndex: "none", ScanSizes: true}).Segments(t.Context(), 1)
	wantInvalid(t, "an index that does not exist", err, "Options.ScanIndex", "index of the table")
}

// DynamoDB fetches from the table what a local index lacks, but not for ScanSizes.
func TestScanSizesOfALocalIndex(t *testing.T) {
	for _, sizes := range []bool{false, true} {
		d, err := New[session](&dynamodb.Client{}, "t", &Options{ScanIndex: "local", ScanSizes: sizes})
		if err != nil {
			t.Fatal(err)
		}
		err = d.checkIndex(&types.TableDescription{LocalSecondaryIndexes: []types.LocalSecondaryIndexDescription{{
			IndexName: aws.String("local"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}}})
		if (err != nil) != sizes {
			t.Errorf("with ScanSizes %t: %v", sizes, err)
		}
	}
}
