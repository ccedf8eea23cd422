package dynamodb

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// KeyAttribute is one attribute of a table's primary key.
type KeyAttribute struct {
	// Name is the attribute's name.
	Name string

	// Type is the attribute's type. Empty: S, a String. For N, a Number, Of must
	// give an integer in plain decimal digits; for B, Binary, it gives the bytes.
	Type types.ScalarAttributeType

	// Of computes the attribute from a record's key: [Fixed], [Prefix] or any pure function. Nil:
	// the record's key itself. Different keys must give different items, by the partition key or
	// the sort key.
	Of func(key string) string
}

// Fixed is a KeyAttribute.Of that returns the same for every record: "METADATA".
func Fixed(value string) func(key string) string {
	return func(string) string { return value }
}

// Prefix is a KeyAttribute.Of that puts prefix before the record's key: "SESSION#".
//
//go:noinline
func Prefix(prefix string) func(key string) string {
	return func(key string) string { return prefix + key }
}

// DynamoDB's limits on keys, in bytes and decimal digits.
const (
	maxPartitionKey = 2048
	maxSortKey      = 1024
	maxDigits       = 38
)

// primaryKey is the primary key of a record's item.
type primaryKey struct{ partition, sort string }

// primaryKey computes the primary key of the record under key.
func (d *core) primaryKey(key string) (primaryKey, error) {
	if key == "" {
		return primaryKey{}, driver.CheckKey(key, 0)
	}
	k := primaryKey{partition: key}
	o := &d.opts
	if o.PartitionKey.Of != nil {
		k.partition = o.PartitionKey.Of(key)
	}
	if err := o.PartitionKey.check(k.partition, maxPartitionKey); err != nil {
		return k, err
	}
	if o.SortKey.Name == "" {
		return k, nil
	}
	k.sort = o.SortKey.Of(key)
	return k, o.SortKey.check(k.sort, maxSortKey)
}

// keyAmong is primaryKey of one key of a call for many. A panic in a caller's function is that key's error.
func (d *core) keyAmong(key string) (k primaryKey, err error) {
	err = hook.Recover(func() (err error) {
		k, err = d.primaryKey(key)
		return err
	})
	if _, panicked := err.(*driver.PanicError); panicked {
		err = &driver.InvalidError{Field: "key", Value: "one on which a function panics", Rule: "must be one that the functions of Options take", Err: unquoted{err}}
	}
	return k, err
}

// check checks that DynamoDB takes value. Its error does not quote value.
func (a *KeyAttribute) check(value string, most int) error {
	if a.Type == types.ScalarAttributeTypeN {
		if !plainInteger(value) {
			return &driver.InvalidError{
				Field: "key",
				Value: "not a plain integer",
				Rule:  fmt.Sprintf("must be an integer of at most %d decimal digits, without leading zeros or +, for the Number %q", maxDigits, a.Name),
			}
		}
		return nil
	}
	if a.Type == types.ScalarAttributeTypeS && !utf8.ValidString(value) {
		// JSON replaces invalid UTF-8, so two keys could become one.
		return &driver.InvalidError{
			Field: "key",
			Value: "not UTF-8",
			Rule:  fmt.Sprintf("must be valid UTF-8 for the String %q, or that Binary", a.Name),
		}
	}
	return driver.CheckKey(value, most)
}

// plainInteger reports whether DynamoDB would write the integer s in the same way. Then different
// keys are different Numbers, and a Number reads back as its key.
func plainInteger(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > maxDigits || digits[0] == '0' && s != "0" {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

// attributes returns k as an item's attributes hold it.
func (d *core) attributes(k primaryKey) map[string]types.AttributeValue {
	attrs := make(map[string]types.AttributeValue, 2)
	d.setKey(attrs, k)
	return attrs
}

func (d *core) setKey(item map[string]types.AttributeValue, k primaryKey) {
	item[d.opts.PartitionKey.Name] = d.opts.PartitionKey.attribute(k.partition)
	if d.opts.SortKey.Name != "" {
		item[d.opts.SortKey.Name] = d.opts.SortKey.attribute(k.sort)
	}
}

func (a *KeyAttribute) attribute(value string) types.AttributeValue {
	switch a.Type {
	case types.ScalarAttributeTypeN:
		return number(value)
	case types.ScalarAttributeTypeB:
		return &types.AttributeValueMemberB{Value: []byte(value)}
	default:
		return text(value)
	}
}

// keyOf returns the primary key that item was read under.
func (d *core) keyOf(item map[string]types.AttributeValue) primaryKey {
	k := primaryKey{partition: plain(item[d.opts.PartitionKey.Name])}
	if d.opts.SortKey.Name != "" {
		k.sort = plain(item[d.opts.SortKey.Name])
	}
	return k
}

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

func plain(av types.AttributeValue) string {
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return av.Value
	case *types.AttributeValueMemberN:
		return av.Value
	case *types.AttributeValueMemberB:
		return string(av.Value)
	}
	return ""
}
