package dynamodb

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// encode encodes v into a map that the caller may modify. A map of attributes is stored unchanged.
func (d *Driver[T]) encode(v T) (map[string]types.AttributeValue, error) {
	var opts []func(*attributevalue.EncoderOptions)
	if d.opts.Encoder != nil {
		opts = append(opts, d.opts.Encoder)
	}
	invalid := func(rule string, err error) error {
		return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: rule, Err: err}
	}
	raw, ok := any(v).(map[string]types.AttributeValue)
	if !ok {
		av, err := attributevalue.MarshalWithOptions(v, opts...)
		if err != nil {
			return nil, invalid("must be one that attributevalue encodes", unquoted{err})
		}
		m, ok := av.(*types.AttributeValueMemberM)
		if !ok {
			return nil, invalid("must encode to a map of attributes, as a struct or a map does", nil)
		}
		raw = m.Value
	}
	item := make(map[string]types.AttributeValue, len(raw)+6)
	maps.Copy(item, raw) // a Marshaler may keep the map it returns
	return item, nil
}

// errPanic says that attributevalue panics on a T or a field of it, for example one of type
// AttributeValue.
var errPanic = errors.New("attributevalue panics")

func (d *Driver[T]) decode(item map[string]types.AttributeValue) (v T, err error) {
	if raw, ok := any(&v).(*map[string]types.AttributeValue); ok {
		*raw = item
		return v, nil
	}
	defer func() {
		if recover() != nil {
			err = errPanic
		}
	}()
	var opts []func(*attributevalue.DecoderOptions)
	if d.opts.Decoder != nil {
		opts = append(opts, d.opts.Decoder)
	}
	err = attributevalue.UnmarshalMapWithOptions(item, &v, opts...)
	return v, err
}

// entry reads and decodes item.
func (d *Driver[T]) entry(item map[string]types.AttributeValue) (driver.Entry[T], error) {
	s := d.read(item)
	if s.odd != nil {
		return driver.Entry[T]{}, s.odd
	}
	v, err := d.decode(item)
	if err != nil {
		return driver.Entry[T]{}, d.misshapen(item, err)
	}
	return driver.Entry[T]{Value: v, Meta: s.Meta}, nil
}

// misshapen names the attributes of item that do not decode; attributevalue's error does not.
func (d *Driver[T]) misshapen(item map[string]types.AttributeValue, err error) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(item)) {
		if _, err := d.decode(map[string]types.AttributeValue{name: item[name]}); err != nil {
			names = append(names, fmt.Sprintf("%q", name))
		}
	}
	return &driver.InvalidError{
		Field: strings.TrimSpace("attribute " + strings.Join(names, ", ")),
		Value: "of another shape",
		Rule:  "must decode into " + reflect.TypeFor[T]().String(),
		Err:   unquoted{err},
	}
}

// checkValue rejects a T whose field for an attribute of the driver's cannot hold what is
// written there, or goes by a name that differs in case alone, which attributevalue reads
// as the same; and one with any field for the version or the retained expiry, which are not the
// application's. It sends samples through attributevalue, and so sees what that sees.
func (d *Driver[T]) checkValue() error {
	o := &d.opts
	for _, a := range []struct {
		option, name string
		sample       types.AttributeValue
	}{
		{"Expiry", o.Expiry, seconds(driver.NumberSeconds)},
		{"CreatedAt", o.CreatedAt, o.CreatedAtFormat.written(driver.NumberMillis / 10)},
		{"Version", o.Version, versionOf(maxVersion)},
		{"RetainedExpiry", o.RetainedExpiry, retained(0, driver.NumberSeconds)},
	} {
		took, same, err := d.takes(a.name, a.sample)
		// If any attribute gives the same result, T is a map or decodes itself.
		any, _, errAny := d.takes("any "+a.name, a.sample)
		if any || errAny != nil && !errors.Is(errAny, errPanic) {
			continue
		}
		rule := ""
		switch {
		case errAny != nil:
			return &driver.InvalidError{Field: "T", Value: reflect.TypeFor[T]().String(), Rule: "must be one that attributevalue decodes into", Err: errAny}
		case err != nil:
			rule = "cannot hold what the driver writes there"
		case took && !same:
			rule = "differs from it in case alone"
		case took && (a.option == "Version" || a.option == "RetainedExpiry"):
			rule = "would be overwritten"
		default:
			continue
		}
		return &driver.InvalidError{
			Field: fmt.Sprintf("attribute %q", a.name),
			Value: "a field of " + reflect.TypeFor[T]().String(),
			Rule:  "must belong to the driver alone, since the field " + rule + ": rename one of them (Options." + a.option + ")",
			Err:   err,
		}
	}
	return nil
}

// takes reports whether a T reads an attribute, and if so whether it writes one of the same name.
func (d *Driver[T]) takes(name string, av types.AttributeValue) (took, same bool, err error) {
	zero, errZero := d.decode(nil)
	v, err := d.decode(map[string]types.AttributeValue{name: av})
	if err = errors.Join(errZero, err); err != nil {
		return false, false, unquoted{err}
	}
	before, errBefore := d.encode(zero)
	after, err := d.encode(v)
	return !reflect.DeepEqual(before, after), after[name] != nil, errors.Join(errBefore, err)
}
