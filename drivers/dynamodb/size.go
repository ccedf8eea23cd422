package dynamodb

import (
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// largest is DynamoDB's limit on an item, in bytes.
const largest = 400 << 10

// room returns item's size, and an *InvalidError if a touch would make it too large for DynamoDB.
func (d *core) room(item map[string]types.AttributeValue) (size int, full error) {
	o := &d.opts
	touched := maps.Clone(item)
	touched[o.CreatedAt], touched[o.Version] = o.CreatedAtFormat.written(kit.NumberMillis/10), versionOf(maxVersion)
	life := driver.Life{CreatedAt: kit.NumberMillis / 10, ExpiresAt: kit.NumberMillis / 10}
	if d.writesApart(life) {
		touched[o.Expiry], touched[o.RetainedExpiry], _ = d.bornApart(life, 1, 0)
	} else if ttl, beside := o.expiry(life.ExpiresAt); beside != nil {
		touched[o.Expiry], touched[o.RetainedExpiry] = ttl, beside
	} else {
		touched[o.Expiry] = ttl
	}
	if sizeOfMap(touched) > largest {
		full = tooLarge(nil)
	}
	return sizeOfMap(item), full
}

func sizeOfMap(m map[string]types.AttributeValue) (n int) {
	for name, v := range m {
		n += len(name) + sizeOf(v)
	}
	return n
}

// sizeOf returns v's size as DynamoDB counts it. Source: docs.aws.amazon.com, DynamoDB, item sizes
// and formats.
func sizeOf(v types.AttributeValue) (n int) {
	const collection, element = 3, 1
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return len(v.Value)/2 + 2 // about: a byte for two digits
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberSS:
		for _, s := range v.Value {
			n += len(s)
		}
		return n
	case *types.AttributeValueMemberNS:
		for _, s := range v.Value {
			n += len(s)/2 + 2
		}
		return n
	case *types.AttributeValueMemberBS:
		for _, b := range v.Value {
			n += len(b)
		}
		return n
	case *types.AttributeValueMemberL:
		for _, e := range v.Value {
			n += element + sizeOf(e)
		}
		return collection + n
	case *types.AttributeValueMemberM:
		return collection + element*len(v.Value) + sizeOfMap(v.Value)
	}
	return 1 // a Boolean or null
}
