package kit

import "encoding/json"

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{}

// Encode implements driver.Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(ForJSON(v)) }

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// ForJSON returns what encoding/json is given for v. See [Addressable].
func ForJSON(v any) any {
	return Addressable(v, Methods{"MarshalJSON", "UnmarshalJSON"}, Methods{"MarshalText", "UnmarshalText"})
}
