package kit

import (
	"encoding/json"
	"reflect"
)

// JSON is the [driver.Codec] of encoding/json.
type JSON struct{}

// Encode implements driver.Codec.
func (JSON) Encode(v any) ([]byte, error) { return json.Marshal(Addressable(v)) }

// Decode implements driver.Codec.
func (JSON) Decode(b []byte, into any) error { return json.Unmarshal(b, into) }

// Addressable returns what an encoder is given for v. Encoders call the methods of a pointer, such as
// MarshalJSON of *big.Int, only on what they can address: for a struct, an array and a value with methods it
// is a pointer to a copy of v, for anything else v.
func Addressable(v any) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() == reflect.Pointer {
		return v
	}
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Array && (t.Name() == "" || reflect.PointerTo(t).NumMethod() == t.NumMethod()) {
		return v
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}
