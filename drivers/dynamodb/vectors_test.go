package dynamodb

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/spec"
	"github.com/slidingttl/slidingttl/internal/spec/check"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func TestVectors(t *testing.T) {
	t.Parallel()
	t.Run("forms", func(t *testing.T) {
		check.Forms(t, "dynamodb", func(t *testing.T, layout string, retain time.Duration) check.Layout[spec.Item] {
			opts := Options{Retain: retain, ConsistentRead: true}
			switch layout {
			case "unix milli":
				opts.CreatedAtFormat = UnixMilli
			case "life table":
				opts.LifeTable, opts.Hold = "its own", 12*time.Hour
			}
			tbl := open[check.Value](t, &opts)
			return check.Layout[spec.Item]{
				Driver:  tbl,
				Version: func(v driver.Version) string { return strconv.FormatUint(uint64(v&anyVersion), 10) },
				Put: func(t *testing.T, key string, i *spec.Item) {
					tbl.putIn(t, tbl.Driver.table, key, fromJSON(t, i.Item))
					if i.Life != nil {
						tbl.putIn(t, tbl.opts.LifeTable, key, fromJSON(t, i.Life))
					}
				},
				Read: func(t *testing.T, key string) *spec.Item {
					i := &spec.Item{Item: toJSON(tbl.raw(t, key))}
					delete(i.Item, "pk")
					if layout == "life table" {
						k, err := tbl.primaryKey(key)
						if err != nil {
							t.Fatal(err)
						}
						life, err := tbl.itemOf(t.Context(), tbl.opts.LifeTable, k)
						if err != nil {
							t.Fatal(err)
						}
						i.Life = toJSON(life)
						delete(i.Life, "pk")
					}
					return i
				},
			}
		})
	})
	for name, opts := range map[string]Options{"": {}, ", lives apart": {LifeTable: "its own", Hold: 400 * 24 * time.Hour}} {
		tbl := open[check.Value](t, &opts)
		s := check.Store{Driver: tbl, Plant: func(_ context.Context, key string, v check.Value, expires driver.Instant) error {
			item := attrs{"v": text(v.V)}
			if expires != 0 {
				item["ttl"] = seconds(expires)
			}
			tbl.put(t, key, item)
			return nil
		}}
		if name == "" {
			t.Run("decisions", s.Decisions)
		}
		t.Run("histories"+name, s.Histories)
	}
}

// putIn is put into a table.
func (tbl *table[T]) putIn(t *testing.T, name, key string, item attrs) {
	t.Helper()
	k, err := tbl.primaryKey(key)
	if err != nil {
		t.Fatal(err)
	}
	tbl.setKey(item, k)
	if _, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item}); err != nil {
		t.Fatal(err)
	}
}

func fromJSON(t *testing.T, item map[string]any) attrs {
	t.Helper()
	var of map[string]tagged
	text, err := json.Marshal(item)
	if err == nil {
		err = json.Unmarshal(text, &of)
	}
	if err != nil {
		t.Fatal(err)
	}
	return untagged(of)
}

// toJSON returns an item in DynamoDB's own JSON, nil for none.
func toJSON(item attrs) map[string]any {
	if item == nil {
		return nil
	}
	all := make(map[string]any, len(item))
	for name, av := range item {
		switch av := av.(type) {
		case *types.AttributeValueMemberS:
			all[name] = map[string]any{"S": av.Value}
		case *types.AttributeValueMemberN:
			all[name] = map[string]any{"N": av.Value}
		case *types.AttributeValueMemberM:
			all[name] = map[string]any{"M": toJSON(av.Value)}
		default:
			all[name] = av
		}
	}
	return all
}
