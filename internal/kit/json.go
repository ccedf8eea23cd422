package kit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{ loose bool }

// JSONOf returns the codec for a T. The error is of a T of which encoding/json never keeps a part: see [Encoding.Check].
func JSONOf[T any]() (JSON, error) {
	t := reflect.TypeFor[T]()
	return JSON{t.Kind() == reflect.Interface}, ofJSON.Check(t)
}

// Given returns what encoding/json is given for v. See [Encoding.Given].
func (c JSON) Given(v any) (any, error) {
	given, _, err := ofJSON.Given(v, c.loose)
	return given, err
}

// Encode implements driver.Codec.
func (c JSON) Encode(v any) ([]byte, error) {
	given, encoded, err := ofJSON.Given(v, c.loose)
	if encoded == nil && err == nil {
		encoded, err = ofJSON.Encode(given)
	}
	b, _ := encoded.([]byte)
	return b, err
}

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

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
	Name: func(tag reflect.StructTag) (string, bool) {
		text := tag.Get("json")
		name, _, _ := strings.Cut(text, ",")
		return name, text == "-"
	},
	Pairs:  []Methods{{"MarshalJSON", "UnmarshalJSON"}, {"MarshalText", "UnmarshalText"}},
	Keys:   []string{"MarshalText", "UnmarshalText"},
	Encode: func(v any) (any, error) { return json.Marshal(v) },
	Decode: func(encoded, into any) error { return json.Unmarshal(bytes.Clone(encoded.([]byte)), into) }, // of which a method may write over its part
	Says: func(encoded any, in Said) error {
		d := json.NewDecoder(bytes.NewReader(encoded.([]byte)))
		d.UseNumber()
		return says(d, in, 0)
	},
}

// says adds the next value of d, with every value of a name that an object has twice.
func says(d *json.Decoder, said Said, at uint64) error {
	token, err := d.Token()
	said.Add(at, token)
	if token != json.Delim('{') && token != json.Delim('[') {
		return err
	}
	for in := said.In(at, ""); err == nil && d.More(); err = says(d, said, in) {
		if token == json.Delim('{') {
			name, _ := d.Token()
			said.Add(at, name)
			in = said.In(at, fmt.Sprint(name))
		}
	}
	if err == nil {
		_, err = d.Token()
	}
	return err
}
