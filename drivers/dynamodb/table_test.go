package dynamodb

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/dynamodb/dynamodbtest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// unmade is a driver on a table that does not exist.
func unmade(t *testing.T, opts *Options) *table[session] {
	t.Helper()
	server := dynamodbtest.Start(t)
	tbl := &table[session]{wire: newWire(), client: server.Client()}
	d, err := New[session](tbl.wire.client(server), server.Table(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	tbl.Driver = d
	return tbl
}

func (tbl *table[T]) again(t testing.TB, opts *Options) *Driver[T] {
	t.Helper()
	d, err := newDriver[T](tbl.Driver.client, tbl.Driver.table, opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTableMissing(t *testing.T) {
	tbl := unmade(t, nil)
	ctx := t.Context()
	_, errGet := tbl.Get(ctx, "k")
	_, errInsert := tbl.Insert(ctx, "k", session{}, lasting(time.Minute), base)
	_, errTouch := tbl.Touch(ctx, "k", driver.Meta{}, lasting(time.Minute), base)
	_, errMulti := tbl.GetMulti(ctx, []string{"k"})
	for _, err := range []error{errGet, errInsert, errTouch, errMulti, tbl.Delete(ctx, "k"), tbl.Check(ctx, time.Hour)} {
		var missing *types.ResourceNotFoundException
		if !errors.As(err, &missing) || errors.Is(err, driver.ErrNotFound) {
			t.Errorf("error %v, want DynamoDB's own, and not ErrNotFound", err)
		}
	}
}

func TestEnsureTable(t *testing.T) {
	opts := &Options{
		PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeN},
		SortKey:      KeyAttribute{Name: "sk", Of: Fixed("x")},
		Expiry:       "expires",
	}
	tbl := unmade(t, opts)
	ctx := t.Context()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := tbl.EnsureTable(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if err := tbl.EnsureTable(ctx); err != nil {
		t.Errorf("once more: %v", err)
	}
	if err := tbl.Check(ctx, time.Hour); err != nil {
		t.Errorf("Check: %v", err)
	}

	// What is there already is not changed.
	for name, other := range map[string]*Options{
		"key": {Expiry: "expires"},
		"TTL": {PartitionKey: opts.PartitionKey, SortKey: opts.SortKey},
	} {
		wantInvalid(t, name, tbl.again(t, other).EnsureTable(ctx), "table "+tbl.Driver.table+": "+name)
	}
	if err := tbl.Check(ctx, time.Hour); err != nil {
		t.Errorf("Check: %v", err)
	}
}

func TestCheck(t *testing.T) {
	tbl := open[session](t, nil)
	ctx := t.Context()
	if err := tbl.Check(ctx, time.Hour); err != nil {
		t.Fatal(err)
	}
	tbl.wire.want(t, "Check", "DescribeTable", "DescribeTimeToLive", "BatchGetItem", "GetItem", "PutItem", "UpdateItem", "DeleteItem")
	if item := tbl.raw(t, "0"); item != nil {
		t.Errorf("Check has written %v", item)
	}

	name := "table " + tbl.Driver.table + ": "
	for what, tt := range map[string]struct {
		opts     Options
		field    string
		mentions []string
	}{
		"another name":     {Options{PartitionKey: KeyAttribute{Name: "id"}}, name + "key", []string{`"pk" S`, `"id" S`}},
		"another type":     {Options{PartitionKey: KeyAttribute{Type: "N"}}, name + "key", []string{`"pk" S`, `"pk" N`}},
		"a sort key":       {Options{SortKey: KeyAttribute{Name: "sk", Of: Fixed("x")}}, name + "key", []string{`"pk" S, "sk" S`}},
		"TTL on another":   {Options{Expiry: "expires"}, name + "TTL", []string{`"ttl"`, `"expires"`}},
		"the default skew": {Options{}, "system clock", []string{"at least", "ahead of", "1s"}},
	} {
		if what == "the default skew" {
			tbl.wire.between(dated(func(now time.Time) time.Time { return now.Add(-4 * time.Second) }))
		} else {
			tbl.wire.reset()
		}
		wantInvalid(t, what, tbl.again(t, &tt.opts).Check(ctx, time.Hour), tt.field, tt.mentions...)
	}
	tbl.wire.between(dated(func(now time.Time) time.Time { return now.Add(4 * time.Second) }))
	wantInvalid(t, "behind", tbl.again(t, nil).Check(ctx, time.Hour), "system clock", "behind")
	if err := tbl.again(t, &Options{MaxSkew: 6 * time.Second}).Check(ctx, time.Hour); err != nil {
		t.Errorf("a skew that is allowed: %v", err)
	}
	tbl.wire.reset()

	off := unmade(t, nil)
	_, err := off.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            &off.Driver.table,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = off.Check(ctx, time.Hour)
	for _, what := range []string{"key", "TTL"} { // all that is wrong, at once
		found := false
		for _, one := range flatten(err) {
			var invalid *driver.InvalidError
			if errors.As(one, &invalid) && invalid.Field == "table "+off.Driver.table+": "+what {
				found = true
			}
		}
		if !found {
			t.Errorf("Check does not name the %s: %v", what, err)
		}
	}
}

// Check tries each call that a record needs, on a key of its own, and changes no record that is there.
func TestCheckRights(t *testing.T) {
	opts := apartly()
	opts.PartitionKey.Of = func(key string) string { return key[:1] + "#" + key[1:] }
	opts.KeyOf = func(partition, _ string) (string, bool) { return strings.Replace(partition, "#", "", 1), true }
	for name, opts := range map[string]*Options{"plain": nil, "a life table, and a key that is computed": opts} {
		tbl := open[session](t, opts)
		tbl.mustInsert(t, "0", session{User: "ann"}, lasting(time.Hour), base)
		was := tbl.raw(t, "0")
		for _, denied := range []string{"none", "GetItem", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem", `"ReturnValues":"ALL_OLD"`, `"slidingttl_expiry"`} {
			tbl.wire.between(func(op string, req *request, send sender) (*response, error) {
				asked, err := io.ReadAll(req.Body)
				if err != nil {
					return nil, err
				}
				req.Body = io.NopCloser(bytes.NewReader(asked))
				if (op == denied || strings.Contains(string(asked), denied)) && strings.Contains(string(asked), `"`+tbl.Driver.table+`"`) {
					return failure(req, 400, "AccessDeniedException"), nil
				}
				return send()
			})
			err := tbl.Check(t.Context(), time.Hour)
			if denied == "none" {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if denied[0] == '"' { // by the IAM condition keys dynamodb:ReturnValues and dynamodb:Attributes
				denied = "PutItem"
			}
			if !errors.Is(err, driver.ErrRefused) || !strings.Contains(err.Error(), "table "+tbl.Driver.table+": "+denied) {
				t.Errorf("%s, without the right to %s: %v", name, denied, err)
			}
		}
		if is := tbl.raw(t, "0"); !reflect.DeepEqual(is, was) {
			t.Errorf("%s: after Check the record is %v; was %v", name, is, was)
		}
	}
}

// A function that computes keys and panics on the one that Check tries is not Check's to report.
func TestCheckOfAKeyThatPanics(t *testing.T) {
	tbl := open[session](t, &Options{
		PartitionKey: KeyAttribute{Of: func(key string) string { return strings.Split(key, "/")[1] }},
		KeyOf:        func(partition, _ string) (string, bool) { return "x/" + partition, true },
	})
	if err := tbl.Check(t.Context(), time.Hour); err != nil {
		t.Error(err)
	}
}

func flatten(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var all []error
		for _, e := range joined.Unwrap() {
			all = append(all, flatten(e)...)
		}
		return all
	}
	return []error{err}
}

// dated has the server say that it is another time.
func dated(by func(time.Time) time.Time) fault {
	return func(_ string, _ *request, send sender) (*response, error) {
		resp, err := send()
		if err == nil {
			resp.Header.Set("Date", by(time.Now()).UTC().Format(http.TimeFormat))
		}
		return resp, err
	}
}

// TestDeletionByDynamoDB waits for the emulator to delete an expired item by itself,
// which it does about ten seconds late. Until then the item is read as what it is.
func TestDeletionByDynamoDB(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	tbl := open[session](t, nil)
	now := driver.Ceil(time.Now())
	expired := driver.Life{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(-time.Second).RoundUp(time.Second)}
	tbl.mustInsert(t, "dead", session{}, expired, expired.CreatedAt)
	tbl.mustInsert(t, "alive", session{}, driver.Life{CreatedAt: now, ExpiresAt: now.Add(time.Hour).RoundUp(time.Second)}, now)
	// The string is ignored, which is why the driver does not take it.
	tbl.put(t, "string", attrs{"ttl": text(itoa(expired.ExpiresAt / 1000))})

	seen := 0
	deadline := time.Now().Add(time.Minute)
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		e, err := tbl.Get(ctx, "dead")
		if errors.Is(err, driver.ErrNotFound) {
			if seen > 0 {
				break
			}
			// Its turn came before the first read.
			tbl.mustInsert(t, "dead", session{}, expired, expired.CreatedAt)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		seen++
		if e.Life != expired || e.Alive(driver.Floor(time.Now())) {
			t.Fatalf("an expired item is read as %+v", e.Meta)
		}
		_, err = tbl.Touch(ctx, "dead", e.Meta, lasting(time.Hour), driver.Floor(time.Now()))
		wantNotFound(t, "Touch of an expired item", err)
		if (<-ticker.C).After(deadline) {
			t.Fatal("the emulator has not deleted the item within a minute")
		}
	}
	tbl.mustGet(t, "alive")
	if tbl.raw(t, "string") == nil {
		t.Error("an item whose expiry is a String was deleted")
	}
	_, err := tbl.Touch(ctx, "dead", driver.Meta{Life: expired}, lasting(time.Hour), expired.CreatedAt)
	wantNotFound(t, "Touch of a deleted item", err)
	if tbl.raw(t, "dead") != nil {
		t.Error("the touch made a ghost item")
	}
}

// An index by created_at as a Number suits a driver that writes it as one, and no other.
func TestIndexOfAnotherType(t *testing.T) {
	numbers := &Options{CreatedAtFormat: UnixMilli}
	tbl := unmade(t, numbers)
	ctx := t.Context()
	_, err := tbl.client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &tbl.Driver.table, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("created_at"), AttributeType: types.ScalarAttributeTypeN},
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String("by-age"),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("created_at"), KeyType: types.KeyTypeHash}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := tbl.EnsureTable(ctx); err != nil {
		t.Fatal(err)
	}
	if err := tbl.Check(ctx, time.Hour); err != nil {
		t.Errorf("Check of a driver that writes Numbers: %v", err)
	}
	tbl.mustInsert(t, "k", session{}, lasting(time.Hour), base)

	texts := tbl.again(t, nil)
	wantInvalid(t, "Check of one that writes Strings", texts.Check(ctx, time.Hour), "table "+tbl.Driver.table+": index", `"created_at" of type N`, "S")
	_, err = texts.Insert(ctx, "other", session{}, lasting(time.Hour), base)
	wantInvalid(t, "its write", err, "item", "indexes")
}
