package kit

import (
	"encoding/json"
	"reflect"
)

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{}

// Encode implements driver.Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(ForJSON(v)) }

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// Check refuses a type that encoding/json does not keep. See [Encoding.Check].
func (JSON) Check(t reflect.Type) error { return ofJSON.Check(t) }

// ForJSON returns what encoding/json is given for v. See [Encoding.Addressable].
func ForJSON(v any) any { return ofJSON.Addressable(v) }

var ofJSON = &Encoding{
	Tag:   "json",
	Pairs: []Methods{{"MarshalJSON", "UnmarshalJSON"}, {"MarshalText", "UnmarshalText"}},
	Through: func(v, into any) error {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, into)
	},
}
