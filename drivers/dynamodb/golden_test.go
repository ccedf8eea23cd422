package dynamodb

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/golden"
)

// TestGolden puts items in DynamoDB's own JSON.
func TestGolden(t *testing.T) {
	t.Parallel()
	golden.Run(t, func(t *testing.T, layout string, retain time.Duration) golden.Store {
		opts := configurations[map[string]string{"default": "default", "single-table": "single table"}[layout]]
		opts.Retain, opts.ConsistentRead = retain, true
		tbl := open[golden.Value](t, &opts)
		return golden.Store{
			Driver: tbl.Driver,
			Plant: func(raw json.RawMessage) error {
				var item map[string]tagged
				if err := json.Unmarshal(raw, &item); err != nil {
					return err
				}
				_, err := tbl.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &tbl.Driver.table, Item: untagged(item)})
				return err
			},
		}
	})
}

// tagged is an attribute's value with its type before it.
type tagged struct{ types.AttributeValue }

func (t *tagged) UnmarshalJSON(text []byte) error {
	var v struct {
		S, N *string
		B    []byte
		BOOL *bool
		NULL bool
		L    []tagged
		M    map[string]tagged
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return err
	}
	switch {
	case v.S != nil:
		t.AttributeValue = &types.AttributeValueMemberS{Value: *v.S}
	case v.N != nil:
		t.AttributeValue = &types.AttributeValueMemberN{Value: *v.N}
	case v.B != nil:
		t.AttributeValue = &types.AttributeValueMemberB{Value: v.B}
	case v.BOOL != nil:
		t.AttributeValue = &types.AttributeValueMemberBOOL{Value: *v.BOOL}
	case v.NULL:
		t.AttributeValue = &types.AttributeValueMemberNULL{Value: true}
	case v.L != nil:
		list := make([]types.AttributeValue, len(v.L))
		for i, av := range v.L {
			list[i] = av.AttributeValue
		}
		t.AttributeValue = &types.AttributeValueMemberL{Value: list}
	case v.M != nil:
		t.AttributeValue = &types.AttributeValueMemberM{Value: untagged(v.M)}
	default:
		return fmt.Errorf("no type is known of %s", text)
	}
	return nil
}

func untagged(m map[string]tagged) attrs {
	all := make(attrs, len(m))
	for name, av := range m {
		all[name] = av.AttributeValue
	}
	return all
}
