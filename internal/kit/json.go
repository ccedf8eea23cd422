package kit

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{}

// Encode implements driver.Codec.
func (JSON) Encode(v any) ([]byte, error) {
	given, err := ForJSON(v)
	if err != nil {
		return nil, err
	}
	return json.Marshal(given)
}

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// Check refuses a type of which encoding/json keeps nothing of a part. See [Encoding.Check].
func (JSON) Check(t reflect.Type) error { return ofJSON.Check(t) }

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

// ForJSON returns what encoding/json is given for v. See [Encoding.Given].
func ForJSON(v any) (any, error) { return ofJSON.Given(v) }

var ofJSON = &Encoding{
	Omits:  func(tag reflect.StructTag) bool { return tag.Get("json") == "-" },
	Pairs:  []Methods{{"MarshalJSON", "UnmarshalJSON"}, {"MarshalText", "UnmarshalText"}},
	Encode: func(v any) (any, error) { return json.Marshal(v) },
	Decode: func(encoded, into any) error { return json.Unmarshal(encoded.([]byte), into) },
}
