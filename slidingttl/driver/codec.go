package driver

import "encoding/json"

// Codec turns values into a store's bytes and back. It is used concurrently. Decode may keep b.
type Codec interface {
	Encode(v any) ([]byte, error)
	Decode(b []byte, into any) error
}

// JSON is the Codec of encoding/json.
type JSON struct{}

// Encode implements Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(v) }

// Decode implements Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }
