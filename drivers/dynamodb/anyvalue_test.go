package dynamodb

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/anyvalue"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// anyValues is how many cases of any value over any record are judged.
var anyValues = 1000

// anyItem is a value of any type, as attributevalue sees it.
type anyItem struct{ anyvalue.Any }

// MarshalDynamoDBAttributeValue is a method of the pointer, as UnmarshalDynamoDBAttributeValue always is.
func (a *anyItem) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return attributevalue.Marshal(anyvalue.Addressed(a.V))
}

func (a *anyItem) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	return a.Fill(func(into any) error { return attributevalue.Unmarshal(av, into) })
}

// anyTarget is a table with a layout.
func anyTarget[T any](t *testing.T, clock *hands, name string, o Options, box func(any) T, key func(n uint64) string, shape anyvalue.Shape, others ...func(*Options)) anyvalue.Target[T] {
	tbl := open[T](t, &o)
	layouts, opened := []Options{tbl.opts}, 0 // of the processes, in turn
	for _, change := range others {
		other := tbl.opts
		change(&other)
		layouts = append(layouts, other)
	}
	own := slicesOf(tbl.opts)
	shape.Own = own
	return anyvalue.Target[T]{
		Name: name, Shape: shape, Box: box, Key: key, Now: clock.Now, Advance: clock.forward,
		Open: func() (driver.Driver[T], error) {
			opened++
			return newDriver[T](tbl.client, tbl.Driver.table, &layouts[opened%len(layouts)])
		},
		Image: func(v T) (image T, err error) {
			item, err := tbl.encode(v)
			if err != nil {
				return image, err
			}
			for _, name := range own {
				delete(item, name)
			}
			return tbl.decode(sameNumbers(&types.AttributeValueMemberM{Value: item}).(*types.AttributeValueMemberM).Value)
		},
		Foreign: func(ctx context.Context, key string, r *rand.Rand) (string, error) { return tbl.putAny(ctx, key, r) },
	}
}

func slicesOf(o Options) []string {
	own := []string{o.PartitionKey.Name, o.Expiry, o.CreatedAt, o.Version, o.RetainedExpiry}
	if o.SortKey.Name != "" {
		own = append(own, o.SortKey.Name)
	}
	return own
}

// sameNumbers gives equal Numbers the same text, and sets an order.
func sameNumbers(av types.AttributeValue) types.AttributeValue {
	switch av := av.(type) {
	case *types.AttributeValueMemberN:
		if f, err := strconv.ParseFloat(av.Value, 64); err == nil && (strings.ContainsAny(av.Value, ".eE") || av.Value == "-0") {
			return number(strconv.FormatFloat(f+0, 'f', -1, 64))
		}
	case *types.AttributeValueMemberSS:
		slices.Sort(av.Value)
	case *types.AttributeValueMemberNS:
		for i := range av.Value {
			av.Value[i] = plain(sameNumbers(number(av.Value[i])))
		}
		slices.Sort(av.Value)
	case *types.AttributeValueMemberBS:
		slices.SortFunc(av.Value, bytes.Compare)
	case *types.AttributeValueMemberL:
		for i := range av.Value {
			av.Value[i] = sameNumbers(av.Value[i])
		}
	case *types.AttributeValueMemberM:
		for name := range av.Value {
			av.Value[name] = sameNumbers(av.Value[name])
		}
	}
	return av
}

// anyAttribute returns an attribute of any type.
func anyAttribute(r *rand.Rand, depth int) types.AttributeValue {
	switch n := r.IntN(10 + 2*min(2-depth, 1)); n {
	case 0:
		return &types.AttributeValueMemberNULL{Value: true}
	case 1:
		return &types.AttributeValueMemberBOOL{Value: r.IntN(2) == 0}
	case 2:
		return &types.AttributeValueMemberB{Value: []byte{0, 255}}
	case 3:
		return &types.AttributeValueMemberSS{Value: []string{"a", "b"}}
	case 4:
		return &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}}
	case 5:
		return &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2}}}
	case 6, 7:
		return text([]string{"", "text", "17", "1771234567", "2036-03-01T11:00:00+01:00", "2026-03-01T11:00:00.123456789Z", "0001-01-01T00:00:00Z"}[r.IntN(7)])
	case 8, 9:
		return number([]string{"0", "-1", "1.5", "1771234567", "1971234567890", "4102444800.5", "99999999999999999999", "1E+125", "1E-130"}[r.IntN(9)])
	case 10:
		return &types.AttributeValueMemberL{Value: []types.AttributeValue{anyAttribute(r, depth+1)}}
	}
	m := map[string]types.AttributeValue{}
	for _, name := range []string{retainedAt, retainedTTL, "a"} {
		if r.IntN(2) == 0 {
			m[name] = anyAttribute(r, depth+1)
		}
	}
	return &types.AttributeValueMemberM{Value: m}
}

// putAny writes an item with attributes of any type in place of the driver's.
func (tbl *table[T]) putAny(ctx context.Context, key string, r *rand.Rand) (string, error) {
	o := &tbl.opts
	item := attrs{"name": anyAttribute(r, 0)}
	for _, name := range []string{o.Expiry, o.CreatedAt, o.Version, o.RetainedExpiry} {
		if r.IntN(2) == 0 {
			item[name] = anyAttribute(r, 0)
		}
	}
	if beside, ok := item[o.RetainedExpiry].(*types.AttributeValueMemberM); ok && item[o.Expiry] != nil && r.IntN(2) == 0 {
		beside.Value[retainedTTL] = item[o.Expiry]
	}
	k, err := tbl.primaryKey(key)
	if err != nil {
		return "", err
	}
	tbl.setKey(item, k)
	what := fmt.Sprint(asJSON(item))
	_, err = tbl.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: item})
	return what, err
}

func asJSON(item attrs) map[string]any {
	all := make(map[string]any, len(item))
	for name, av := range item {
		all[name] = tag(av, func() {})
	}
	return all
}

// What is written is read back, or refused by name: any value, over any item.
func TestAnyValue(t *testing.T) {
	clock := handsAt(base)
	box := func(v any) anyItem { return anyItem{anyvalue.Any{V: v}} }
	shape := anyvalue.Shape{
		Tag:   "dynamodbav",
		Flags: []string{"omitempty", "omitemptyelem", "nullempty", "string", "stringset", "numberset", "binaryset", "unixtime"},
		Leaves: []anyvalue.Leaf{
			{Type: reflect.TypeFor[attributevalue.Number](), Value: func(r *rand.Rand) any {
				return attributevalue.Number([]string{"0", "-0", "1.50", "1e3", "12345678901234567890123456789012345678", "123456789012345678901234567890123456789", "1E-130", "1e126", "x"}[r.IntN(9)])
			}},
			{Type: reflect.TypeFor[attributevalue.UnixTime](), Value: func(r *rand.Rand) any { return attributevalue.UnixTime(time.Unix(r.Int64N(1<<33), 0)) }},
		},
	}
	anyvalue.Run(t, anyValues,
		anyTarget(t, clock, "default", Options{}, box, nil, shape),
		anyTarget(t, clock, "single table", configurations["single table"], box, nil, shape),
		anyTarget(t, clock, "number", Options{PartitionKey: KeyAttribute{Name: "id", Type: types.ScalarAttributeTypeN}, CreatedAtFormat: UnixMilli, ConsistentRead: true}, box, nil, shape),
		anyTarget(t, clock, "life table", *apartly(), box, nil, shape),
		anyTarget(t, clock, "life table, and lives in values", *apartly(), box, nil, shape, inValue),
	)
}

// The same with items that are kept as they are.
func TestAnyAttributes(t *testing.T) {
	shape := anyvalue.Shape{Tops: []reflect.Type{reflect.TypeFor[attrs]()}, Leaves: []anyvalue.Leaf{
		{Type: reflect.TypeFor[attrs](), Value: func(r *rand.Rand) any {
			item := make(attrs)
			for _, name := range []string{"a", "PK", "TTL", "created_at", "Created_at", "b.c", "é"} {
				if r.IntN(3) == 0 {
					item[name] = anyAttribute(r, 0)
				}
			}
			switch r.IntN(12) {
			case 0:
				item["nil"] = nil
			case 1:
				item["nil"] = (*types.AttributeValueMemberS)(nil)
			case 2:
				item["list"] = &types.AttributeValueMemberL{Value: []types.AttributeValue{nil}}
			case 3:
				item["set"] = &types.AttributeValueMemberSS{}
			case 4:
				item["twice"] = &types.AttributeValueMemberNS{Value: []string{"1", "1.0"}}
			case 5:
				item["text"] = text("\xff")
			}
			return maps.Clone(item)
		}},
	}}
	as := func(v any) attrs {
		item, _ := v.(attrs)
		return item
	}
	anyvalue.Run(t, anyValues/4, anyTarget(t, handsAt(base), "default", Options{}, as, nil, shape))
}
