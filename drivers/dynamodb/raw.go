package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader, with one GetItem, strongly consistent.
//
// With Options.LifeTable it makes one there before. The format is "dynamodb-json": the whole item as the service writes it,
// {"user": {"S": "ann"}, ...}.
func (d *Driver[T]) Raw(ctx context.Context, key string) (driver.Raw, error) {
	k, err := d.primaryKey(key)
	if err != nil {
		return driver.Raw{}, err
	}
	var l lifeItem
	var odd error
	if d.opts.LifeTable != "" {
		if l, err = d.lifeOf(ctx, k); errors.Is(err, driver.ErrInvalid) {
			odd = err
		} else if err != nil {
			return driver.Raw{}, err
		}
	}
	item, s, err := d.valueAfter(ctx, k, l)
	if err == nil && len(item) == 0 {
		err = driver.ErrNotFound
	}
	if err != nil {
		return driver.Raw{}, err
	}
	if s.generation != 0 && odd != nil {
		s.unseen = odd
	}
	return d.rawOf(item, s), nil
}

// rawOf returns item, which is read as s, in the store's own form.
func (d *core) rawOf(item map[string]types.AttributeValue, s stored) driver.Raw {
	if s.unseen != nil {
		s.odd = s.unseen
	}
	tagged := make(map[string]any, len(item))
	for name, av := range item {
		tagged[name] = tag(av, func() {
			s.odd = &driver.InvalidError{Field: fmt.Sprintf("attribute %q", name), Value: "not known to the SDK", Rule: "must be of a type that it knows"}
		})
	}
	value, _ := json.Marshal(tagged) // cannot fail for texts and bytes
	raw := driver.Raw{Meta: s.Meta, Format: "dynamodb-json", Value: value, Fields: make(map[string]string), Problem: s.odd}
	for _, name := range []string{d.opts.Expiry, d.opts.CreatedAt, d.opts.Version} {
		if av, ok := item[name]; ok {
			raw.Fields[name] = plain(av)
		}
	}
	if beside, ok := item[d.opts.RetainedExpiry].(*types.AttributeValueMemberM); ok {
		for name, av := range beside.Value {
			raw.Fields[d.opts.RetainedExpiry+"."+name] = plain(av)
		}
	}
	if beside, ok := s.life.item[d.opts.RetainedExpiry].(*types.AttributeValueMemberM); ok && s.life.of(&s) {
		raw.Fields[tableName(d.opts.LifeTable)+"."+retainedAt] = plain(beside.Value[retainedAt])
	}
	return raw
}

// tag returns av in DynamoDB's JSON, tagged with its type. It calls odd for an unknown type.
func tag(av types.AttributeValue, odd func()) any {
	one := func(kind string, v any) map[string]any { return map[string]any{kind: v} }
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return one("S", av.Value)
	case *types.AttributeValueMemberN:
		return one("N", av.Value)
	case *types.AttributeValueMemberB:
		return one("B", av.Value)
	case *types.AttributeValueMemberBOOL:
		return one("BOOL", av.Value)
	case *types.AttributeValueMemberNULL:
		return one("NULL", av.Value)
	case *types.AttributeValueMemberSS:
		return one("SS", av.Value)
	case *types.AttributeValueMemberNS:
		return one("NS", av.Value)
	case *types.AttributeValueMemberBS:
		return one("BS", av.Value)
	case *types.AttributeValueMemberL:
		list := make([]any, len(av.Value))
		for i, v := range av.Value {
			list[i] = tag(v, odd)
		}
		return one("L", list)
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(av.Value))
		for name, v := range av.Value {
			m[name] = tag(v, odd)
		}
		return one("M", m)
	}
	odd()
	return nil
}
