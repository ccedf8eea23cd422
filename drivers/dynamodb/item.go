package dynamodb

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"reflect"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// stored is what an item says of its record, as read and as it stands there.
type stored struct {
	driver.Meta
	mend bool // DynamoDB does not understand the expiry

	expiry, created, version types.AttributeValue // nil: absent
}

// read reads what item says of its record.
func (d *Driver[T]) read(item map[string]types.AttributeValue) (s stored, err error) {
	o := &d.opts
	s.expiry, s.created, s.version = item[o.Expiry], item[o.CreatedAt], item[o.Version]
	if s.CreatedAt, err = parseCreated(o.CreatedAt, s.created); err != nil {
		return s, err
	}
	if s.ExpiresAt, s.mend, err = parseExpiry(o.Expiry, s.expiry, o.Repair); err != nil {
		return s, err
	}
	s.Version, err = parseVersion(o.Version, s.version)
	return s, err
}

// maxVersion keeps versions within what every language holds exactly.
const maxVersion = 1 << 53

// newVersion is a version that no write has had before. A counter could start anew
// with the record and come to the same number twice.
func newVersion() driver.Version { return driver.Version(rand.Uint64N(maxVersion-1) + 1) }

// foreignVersion marks a version that stands for an attribute written by others.
const foreignVersion driver.Version = 1 << 63

// parseVersion reads a version: zero if there is none, a positive whole Number
// itself, a hash of whatever else another program keeps there.
func parseVersion(name string, av types.AttributeValue) (driver.Version, error) {
	kind := ""
	switch av := av.(type) {
	case nil:
		return 0, nil
	case *types.AttributeValueMemberN:
		if v, err := strconv.ParseInt(av.Value, 10, 64); err == nil && v > 0 {
			return driver.Version(v), nil
		}
		kind = "N"
	case *types.AttributeValueMemberS:
		kind = "S"
	case *types.AttributeValueMemberB:
		kind = "B"
	case *types.AttributeValueMemberNULL:
	default:
		return 0, odd(name, av, "must be a Number, a String or Binary")
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind + plain(av)))
	return foreignVersion | driver.Version(h.Sum64()), nil
}

// entry decodes item.
func (d *Driver[T]) entry(item map[string]types.AttributeValue) (driver.Entry[T], stored, error) {
	var e driver.Entry[T]
	s, err := d.read(item)
	if err != nil {
		return e, s, err
	}
	if d.opts.Decoder == nil {
		err = attributevalue.UnmarshalMap(item, &e.Value)
	} else {
		err = attributevalue.UnmarshalMapWithOptions(item, &e.Value, d.opts.Decoder)
	}
	if err != nil {
		return driver.Entry[T]{}, s, &driver.InvalidError{
			Field: "stored item",
			Value: "of another shape",
			Rule:  "must decode into " + reflect.TypeFor[T]().String(),
			Err:   unquoted{err},
		}
	}
	e.Meta = s.Meta
	return e, s, nil
}

// item encodes v as the item under k with life and version.
func (d *Driver[T]) item(k primaryKey, v T, life driver.Life, version driver.Version) (map[string]types.AttributeValue, error) {
	var opts []func(*attributevalue.EncoderOptions)
	if d.opts.Encoder != nil {
		opts = append(opts, d.opts.Encoder)
	}
	av, err := attributevalue.MarshalWithOptions(v, opts...)
	if err != nil {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must be one that attributevalue encodes", Err: unquoted{err}}
	}
	m, ok := av.(*types.AttributeValueMemberM)
	if !ok {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must encode to a map of attributes, as a struct or a map does"}
	}
	item := make(map[string]types.AttributeValue, len(m.Value)+5)
	maps.Copy(item, m.Value) // a Marshaler may have handed out a map of its own
	o := &d.opts
	delete(item, o.Expiry)
	delete(item, o.CreatedAt)
	if life.ExpiresAt != 0 {
		item[o.Expiry] = wholeSeconds(life.ExpiresAt)
	}
	if life.CreatedAt != 0 {
		item[o.CreatedAt] = o.CreatedAtFormat.canonical(life.CreatedAt)
	}
	item[o.Version] = versionNumber(version)
	d.setKey(item, k)
	return item, nil
}

func versionNumber(v driver.Version) types.AttributeValue {
	return number(strconv.FormatUint(uint64(v), 10))
}
