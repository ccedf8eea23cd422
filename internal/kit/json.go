package kit

import "encoding/json"

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{}

// Encode implements driver.Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }
