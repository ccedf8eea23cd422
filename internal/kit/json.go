package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{ loose bool }

// JSONOf returns the codec for a T. The error is of a T of which encoding/json never keeps a part: see [Encoding.Check].
func JSONOf[T any]() (JSON, error) {
	t := reflect.TypeFor[T]()
	return JSON{t.Kind() == reflect.Interface}, ofJSON.Check(t)
}

// Encode implements driver.Codec. See [Encoding.Given] for what is refused.
func (c JSON) Encode(v any) ([]byte, error) {
	given, encoded, err := ofJSON.Given(v, c.loose)
	if err != nil {
		return nil, err
	}
	b, tried := encoded.([]byte)
	if !tried {
		b, err = json.Marshal(given)
	}
	if err == nil {
		err = c.refused(given, b)
	}
	return b, err
}

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// levels is how many encoding/json decodes.
const levels = 10_000

// refused returns an *InvalidError if encoding/json does not decode what it has encoded given to, or has replaced a part of its text.
func (c JSON) refused(given any, encoded []byte) error {
	rule := ""
	if bytes.Count(encoded, []byte("{"))+bytes.Count(encoded, []byte("[")) > levels && !json.Valid(encoded) {
		rule = "must have at most 10,000 levels, as encoding/json decodes no more"
	} else if !utf8.Valid(encoded) && (c.loose || !isRaw(given)) {
		rule = notText
	} else if escaped(encoded) > 0 {
		rule = search{ofJSON, true}.in(reflect.ValueOf(given), deepest, 0)
	}
	if rule == "" {
		return nil
	}
	return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", given), Rule: rule}
}

// isRaw reports whether v is read back as it was encoded, byte for byte, into its own type.
func isRaw(v any) bool {
	switch v.(type) {
	case json.RawMessage, *json.RawMessage:
		return true
	}
	return false
}

// escaped is how often encoding/json has replaced what is not UTF-8 in a text. It writes that as an escape, and the character
// itself as it is.
func escaped(encoded any) int { return bytes.Count(encoded.([]byte), []byte(`\ufffd`)) }

// replaces reports whether encoding/json has replaced a part of the text that v's methods write: what is read from that is
// another text, and has no such escape.
func replaces(v reflect.Value) bool {
	form := func(v reflect.Value) (encoded any, err error) {
		if v.CanAddr() {
			v = v.Addr()
		}
		return ofJSON.Encode(v.Interface())
	}
	read := reflect.New(v.Type())
	was, err := form(v)
	if err != nil || escaped(was) == 0 {
		return false
	}
	if ofJSON.Decode(was, read.Interface()) != nil {
		return true
	}
	is, err := form(read.Elem())
	return err != nil || escaped(is) != escaped(was)
}

// NotEncoded returns the error of a write whose value the codec refused with err: an *InvalidError says all itself.
func NotEncoded(v, codec any, err error) error {
	if invalid, ok := errors.AsType[*driver.InvalidError](err); ok {
		return invalid
	}
	name := fmt.Sprintf("%T", codec)
	if _, ok := codec.(JSON); ok {
		name = "encoding/json"
	}
	return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must be one that " + name + " encodes", Err: err}
}

var ofJSON = &Encoding{
	Name: func(tag reflect.StructTag) (name, options string, omits bool) {
		text := tag.Get("json")
		name, options, _ = strings.Cut(text, ",")
		return name, options, text == "-"
	},
	Pairs:  []Methods{{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[json.Unmarshaler]()}, {toText, ofText}},
	Keys:   []reflect.Type{toText, ofText},
	Encode: func(v any) (any, error) { return json.Marshal(v) },
	Decode: func(encoded, into any) error { return json.Unmarshal(bytes.Clone(encoded.([]byte)), into) }, // of which a method may write over its part
	Says: func(encoded any, in Said, order bool) error {
		d := json.NewDecoder(bytes.NewReader(encoded.([]byte)))
		d.UseNumber()
		return says(d, in, Place{}, order)
	},
}

// says adds the next value of d, with every value of a name that an object has twice.
func says(d *json.Decoder, said Said, at Place, order bool) error {
	token, err := d.Token()
	said.Add(at, token)
	if token != json.Delim('{') && token != json.Delim('[') {
		return err
	}
	for i := 0; err == nil && d.More(); i++ {
		in := at.At(i, order)
		if token == json.Delim('{') {
			name, _ := d.Token()
			said.Add(at, name)
			in = at.In(fmt.Sprint(name))
		}
		err = says(d, said, in, order)
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}
