package dynamodb

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// encoding is attributevalue as o has it.
func (o *Options) encoding() *kit.Encoding {
	var encoder attributevalue.EncoderOptions
	var decoder attributevalue.DecoderOptions
	if o.Encoder != nil {
		o.Encoder(&encoder)
	}
	if o.Decoder != nil {
		o.Decoder(&decoder)
	}
	e := &kit.Encoding{
		Name: func(tag reflect.StructTag) (name, options string, omits bool) {
			name, options, _ = strings.Cut(tag.Get("dynamodbav"), ",")
			if text := tag.Get(encoder.TagKey); text != "" {
				of, more, _ := strings.Cut(text, ",")
				name, options = of, options+","+more
			}
			return name, options, name == "-"
		},
		Pairs:  []kit.Methods{{Encode: reflect.TypeFor[attributevalue.Marshaler](), Decode: reflect.TypeFor[attributevalue.Unmarshaler]()}},
		Keys:   []reflect.Type{toText, ofText, reflect.TypeFor[fmt.Stringer](), reflect.TypeFor[error](), reflect.TypeFor[fmt.Formatter]()},
		Native: func(t reflect.Type) bool { return t.ConvertibleTo(reflect.TypeFor[time.Time]()) },
		Lost:   []reflect.Kind{reflect.Complex64, reflect.Complex128, reflect.Uintptr},
		Named:  true,
		Blind:  true,
		Encode: func(v any) (any, error) { return attributevalue.MarshalWithOptions(v, o.encoder()...) },
		Decode: func(encoded, into any) error {
			return attributevalue.UnmarshalWithOptions(encoded.(types.AttributeValue), into, o.decoder()...)
		},
		Says: func(encoded any, in kit.Said, order bool) error {
			var v any
			err := attributevalue.UnmarshalWithOptions(encoded.(types.AttributeValue), &v, func(d *attributevalue.DecoderOptions) { d.UseNumber = true })
			says(v, in, kit.Place{}, order)
			return err
		},
	}
	for _, m := range []kit.Methods{{Encode: toText, Decode: ofText}, {Encode: reflect.TypeFor[encoding.BinaryMarshaler](), Decode: reflect.TypeFor[encoding.BinaryUnmarshaler]()}} {
		if !encoder.UseEncodingMarshalers {
			m.Encode = nil
		}
		if !decoder.UseEncodingUnmarshalers {
			m.Decode = nil
		}
		e.Pairs = append(e.Pairs, m)
	}
	return e
}

var toText, ofText = reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[encoding.TextUnmarshaler]()

// says adds v, which attributevalue has decoded into an any. A set has no order, and one that an interface holds is read as a list.
func says(v any, said kit.Said, at kit.Place, order bool) {
	switch v := v.(type) {
	case map[string]any:
		said.Add(at, '{')
		for name, in := range v {
			said.Add(at, name)
			says(in, said, at.In(name), order)
		}
	case []any:
		said.Add(at, '[')
		for i, v := range v {
			says(v, said, at.At(i, order), order)
		}
	case []string:
		saysEach(v, said, at, order)
	case []attributevalue.Number:
		saysEach(v, said, at, order)
	case [][]byte:
		saysEach(v, said, at, order)
	case []byte:
		said.Add(at, string(v))
	case attributevalue.Number:
		said.Add(at, json.Number(v))
	default:
		said.Add(at, v)
	}
}

func saysEach[E any](set []E, said kit.Said, at kit.Place, order bool) {
	said.Add(at, '[')
	for _, v := range set {
		if !order {
			says(v, said, at.At(0, order), order)
		}
	}
}

func (o *Options) encoder() (opts []func(*attributevalue.EncoderOptions)) {
	opts = append(opts, func(e *attributevalue.EncoderOptions) { e.EncodeTime = encodeTime }) // unless o.Encoder sets another
	if o.Encoder != nil {
		opts = append(opts, o.Encoder)
	}
	return opts
}

// encodeTime writes times as attributevalue does, and none that it does not read: RFC 3339 has years of four digits and
// zones of minutes.
func encodeTime(t time.Time) (types.AttributeValue, error) {
	s := t.Format(time.RFC3339Nano)
	if read, err := time.Parse(time.RFC3339, s); err != nil || !read.Equal(t) {
		return nil, &driver.InvalidError{Field: "value", Value: "a time", Rule: "must be one that RFC 3339 has"}
	}
	return text(s), nil
}

func (o *Options) decoder() (opts []func(*attributevalue.DecoderOptions)) {
	if o.Decoder != nil {
		opts = append(opts, o.Decoder)
	}
	return opts
}

// encode encodes v into a map that the caller may modify. A map of attributes is stored unchanged.
func (d *Driver[T]) encode(v T) (_ map[string]types.AttributeValue, err error) {
	invalid := func(rule string, err error) error {
		return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: rule, Err: err}
	}
	defer func() {
		if recover() != nil { // attributevalue calls methods of nil pointers
			err = invalid("must be one that attributevalue encodes", errPanic)
		}
	}()
	raw, ok := any(v).(map[string]types.AttributeValue)
	if !ok {
		given, encoded, err := d.encoding.Given(v, reflect.TypeFor[T]().Kind() == reflect.Interface)
		if err != nil {
			return nil, err
		}
		if encoded == nil {
			if encoded, err = d.encoding.Encode(given); errors.Is(err, driver.ErrInvalid) {
				return nil, err
			} else if err != nil {
				return nil, invalid("must be one that attributevalue encodes", unquoted{err})
			}
		}
		m, ok := encoded.(*types.AttributeValueMemberM)
		if !ok {
			return nil, invalid("must encode to a map of attributes, as a struct or a map does", nil)
		}
		raw = m.Value
	}
	item := make(map[string]types.AttributeValue, len(raw)+6)
	for name, av := range raw { // a copy: a Marshaler may keep the map it returns
		if !sendable(av) || !utf8.ValidString(name) {
			return nil, invalid(`must have no nil attribute, and no String or name that is not UTF-8, as in "`+strings.ToValidUTF8(name, "\uFFFD")+`"`, nil)
		}
		item[name] = av
	}
	return item, nil
}

// sendable reports whether the SDK sends av as it is. It replaces what is not UTF-8, leaves out a nil
// attribute, and cannot send one in a list.
func sendable(av types.AttributeValue) bool {
	switch av := av.(type) {
	case *types.AttributeValueMemberS:
		return av != nil && utf8.ValidString(av.Value)
	case *types.AttributeValueMemberSS:
		return av != nil && !slices.ContainsFunc(av.Value, func(s string) bool { return !utf8.ValidString(s) })
	case *types.AttributeValueMemberL:
		return av != nil && !slices.ContainsFunc(av.Value, func(e types.AttributeValue) bool { return !sendable(e) })
	case *types.AttributeValueMemberM:
		if av == nil {
			return false
		}
		for name, e := range av.Value {
			if !sendable(e) || !utf8.ValidString(name) {
				return false
			}
		}
		return true
	}
	return av != nil && !reflect.ValueOf(av).IsNil()
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
	err = attributevalue.UnmarshalMapWithOptions(item, &v, d.opts.decoder()...)
	return v, err
}

// entry decodes item, which is read as s.
func (d *Driver[T]) entry(item map[string]types.AttributeValue, s stored) (driver.Entry[T], error) {
	if s.odd != nil {
		return driver.Entry[T]{}, s.odd
	}
	if s.ended() && s.ExpiresAt.Add(d.opts.MaxSkew) > driver.Floor(d.clock()) { // a clock that is behind would take it for alive
		return driver.Entry[T]{}, driver.ErrNotFound
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

// checkValue rejects a T with a field that does not suit an attribute that the driver writes. It
// sends samples through attributevalue, and so sees what that sees. triesKeys: whether T holds a key
// only the key itself can tell.
func (d *Driver[T]) checkValue() (triesKeys bool, err error) {
	if _, err := d.decode(map[string]types.AttributeValue{"any": text("")}); errors.Is(err, errPanic) {
		return false, &driver.InvalidError{Field: "T", Value: reflect.TypeFor[T]().String(), Rule: "must be one that attributevalue decodes into", Err: err}
	}
	if err := d.encoding.Check(reflect.TypeFor[T]()); err != nil {
		return false, err
	}
	// What one writes the other reads: the names of fields, and times, which an option may spell anew.
	type sample struct {
		Name string `json:"renamed"`
		At   time.Time
	}
	was, is := sample{"a", time.Unix(1e9, 0).UTC()}, sample{}
	if av, err := d.encoding.Encode(was); err != nil || d.encoding.Decode(av, &is) != nil || is.Name != was.Name || !is.At.Equal(was.At) {
		return false, &driver.InvalidError{Field: "Options.Decoder", Value: "one that reads another form", Rule: "must read names and times as Options.Encoder writes them"}
	}
	o := &d.opts
	beside := number("1") // without Retain it is not written
	if o.Retain > 0 {
		beside = retained(0, kit.NumberSeconds)
	}
	if o.LifeTable != "" {
		beside = apartMap(latest, latest, 1)
	}
	for _, a := range []struct {
		option, name string
		sample       types.AttributeValue
	}{
		{"PartitionKey", o.PartitionKey.Name, o.PartitionKey.attribute("1")},
		{"SortKey", o.SortKey.Name, o.SortKey.attribute("1")},
		{"Expiry", o.Expiry, seconds(latest)},
		{"CreatedAt", o.CreatedAt, o.CreatedAtFormat.written(latest)},
		{"Version", o.Version, versionOf(maxVersion)},
		{"RetainedExpiry", o.RetainedExpiry, beside},
	} {
		if a.name == "" {
			continue
		}
		own := kit.OwnField{
			Name: a.name, Kind: "attribute", Option: "Options." + a.option,
			Sole: a.option == "Version" || a.option == "RetainedExpiry",
		}
		if a.option == "PartitionKey" || a.option == "SortKey" {
			own.Guess = func(err error) bool { return !errors.As(err, new(*attributevalue.UnmarshalTypeError)) }
		}
		unsure, err := own.Check(reflect.TypeFor[T]().String(), func(name string) (any, map[string]any, error) {
			if name == "" {
				return d.through(nil)
			}
			return d.through(map[string]types.AttributeValue{name: a.sample})
		})
		if err != nil {
			return false, err
		}
		triesKeys = triesKeys || unsure
	}
	return triesKeys, nil
}

// through decodes item, and returns the T and its attributes encoded again.
func (d *Driver[T]) through(item map[string]types.AttributeValue) (any, map[string]any, error) {
	v, err := d.decode(item)
	if err != nil {
		return nil, nil, unquoted{err}
	}
	encoded, err := d.encode(v)
	fields := make(map[string]any, len(encoded))
	for name, av := range encoded {
		fields[name] = av
	}
	return v, fields, err
}
