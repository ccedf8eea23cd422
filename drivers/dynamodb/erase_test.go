package dynamodb

import (
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// An erasure counts the life items that it leaves because a touch may be under way, and removes them an
// hour later, by a prefix and by keys, and no others.
func TestEraseLifeTable(t *testing.T) {
	tbl := open[session](t, apartly())
	now := driver.Floor(time.Now())
	l := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}
	keys := []string{"user:42:a", "user:42:b", "user:42:c", "user:43:a"}
	insert := func(key string) {
		v, err := tbl.Insert(t.Context(), key, session{User: "42"}, l, now)
		if err != nil {
			t.Fatal(err)
		}
		if key != "user:42:b" { // of which the life table knows nothing
			tbl.mustTouch(t, key, driver.Meta{Life: l, Version: v}, driver.Life{CreatedAt: l.CreatedAt, ExpiresAt: l.ExpiresAt.Add(time.Hour)}, now)
		}
	}
	for _, key := range keys {
		insert(key)
	}
	erase := func(apply bool, keys []string, erased, ended, later int64) {
		t.Helper()
		o := upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Apply: apply, Keys: keys}}
		if keys == nil {
			o.Prefix = "user:42:"
		}
		r, err := upkeep.Erase(t.Context(), tbl.Driver, &o)
		if err != nil || r.Counts["erased"] != erased || r.Counts["ended"] != ended || r.Counts["later"] != later || r.Counts["missed"]+r.Failed != 0 {
			t.Errorf("%+v, %v; want %d, %d, %d", r, err, erased, ended, later)
		}
	}
	held := func() (held []string) {
		for _, key := range keys {
			if tbl.lifeItemOf(t, key) != nil {
				held = append(held, key)
			}
		}
		return held
	}
	erase(false, nil, 3, 0, 0)
	erase(true, nil, 3, 0, 3)
	if got := held(); len(got) != 4 {
		t.Errorf("held are %q", got)
	}
	erase(true, nil, 0, 0, 3)
	tbl.clock = func() time.Time { return time.Now().Add(doubtLasts + time.Minute) }
	erase(false, nil, 0, 3, 0)
	erase(false, []string{"user:42:a", "user:43:a", "nobody"}, 1, 1, 0)
	insert("user:42:c") // again
	erase(true, nil, 1, 2, 1)
	if got := held(); !slices.Equal(got, []string{"user:42:c", "user:43:a"}) {
		t.Errorf("held are %q", got)
	}
	tbl.clock = func() time.Time { return time.Now().Add(3 * doubtLasts) }
	erase(true, []string{"user:42:c"}, 0, 1, 0)
	erase(false, nil, 0, 0, 0)
	if got := held(); !slices.Equal(got, []string{"user:43:a"}) {
		t.Errorf("held are %q", got)
	}
}

// A process that read a record before its deletion touches it after an erasure has removed its life item: it
// finds none, and does not write the key again. Because no life item is no sign of life then, the first touch of
// a record that is older than half an hour reads the value's item.
func TestTouchAfterErasure(t *testing.T) {
	tbl, clock := open[session](t, apartly()), handsAt(base)
	tbl.clock = clock.Now
	gone := tbl.mustInsert(t, "gone", session{}, lasting(5*time.Hour), base)
	lives := tbl.mustInsert(t, "lives", session{}, lasting(5*time.Hour), base)
	erase := func(erased, ended int64) {
		t.Helper()
		r, err := upkeep.Erase(t.Context(), tbl.Driver, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Apply: true, Keys: []string{"gone"}}})
		if err != nil || r.Counts["erased"] != erased || r.Counts["ended"] != ended {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	erase(1, 0)
	clock.forward(doubtLasts + 10*time.Minute)
	erase(0, 1)
	now := base.Add(doubtLasts + 10*time.Minute)
	_, err := tbl.Touch(t.Context(), "gone", gone, lasting(7*time.Hour), now)
	wantNotFound(t, "a touch after the erasure", err)
	_, err = tbl.Replace(t.Context(), "gone", session{}, gone, lasting(7*time.Hour), now)
	wantNotFound(t, "an overwrite after it", err)
	if item := tbl.lifeItemOf(t, "gone"); item != nil {
		t.Errorf("the life table has %v", item)
	}
	tbl.wire.reset()
	for i, want := range [][]string{{"UpdateItem", "GetItem", "UpdateItem"}, {"UpdateItem"}} {
		lives = tbl.mustTouch(t, "lives", lives, lasting(time.Duration(7+i)*time.Hour), now)
		tbl.wire.want(t, "a touch of one that lives", want...)
	}
	young := tbl.mustInsert(t, "young", session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now)
	tbl.wire.reset()
	now = now.Add(29 * time.Minute)
	tbl.mustTouch(t, "young", young, driver.Life{CreatedAt: young.CreatedAt, ExpiresAt: now.Add(time.Hour)}, now)
	tbl.wire.want(t, "a first touch of a young one", "UpdateItem")
}

// An erasure finds the records that Options.ScanIndex lacks.
func TestEraseOutsideIndex(t *testing.T) {
	tbl := open[session](t, nil)
	ctx, index := t.Context(), "audited"
	now := driver.Floor(time.Now())
	for _, key := range []string{"user:42:in", "user:42:out"} {
		if _, err := tbl.Insert(ctx, key, session{User: "42"}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour)}, now); err != nil {
			t.Fatal(err)
		}
	}
	k, err := tbl.primaryKey("user:42:in")
	if err != nil {
		t.Fatal(err)
	}
	_, err = tbl.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &tbl.table, Key: tbl.attributes(k), UpdateExpression: aws.String("SET audited = :a"), ExpressionAttributeValues: attrs{":a": text("x")}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = tbl.client.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:            &tbl.table,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &index, AttributeType: types.ScalarAttributeTypeS}},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: &index, KeySchema: []types.KeySchemaElement{{AttributeName: &index, KeyType: types.KeyTypeHash}}, Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		out, err := tbl.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &tbl.table})
		if err != nil {
			t.Fatal(err)
		}
		if of := out.Table.GlobalSecondaryIndexes; len(of) == 1 && of[0].IndexStatus == types.IndexStatusActive {
			break
		}
	}
	d := tbl.again(t, &Options{ScanIndex: index})
	for i, want := range []int64{2, 2, 0} {
		r, err := upkeep.Erase(ctx, d, &upkeep.EraseOptions{WriteOptions: upkeep.WriteOptions{Apply: i > 0, Options: upkeep.Options{Prefix: "user:42:"}}})
		if err != nil || r.Counts["erased"] != want {
			t.Errorf("%+v, %v; want %d", r, err, want)
		}
	}
}
