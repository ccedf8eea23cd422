package session

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl"
)

// checkData returns an error if JSON cannot hold a T, or nothing of it.
func checkData[T any]() error {
	var v T
	t := reflect.TypeFor[T]()
	b, err := kit.JSON{}.Encode(v)
	if err == nil {
		err = json.Unmarshal(b, &v)
	} else if _, untold := errors.AsType[*slidingttl.InvalidError](err); untold {
		err = nil // an empty value that is not read back, as where a default is, says nothing of another
	}
	if err != nil {
		return &slidingttl.InvalidError{Field: "T", Value: t.String(), Rule: "must encode and decode as JSON", Err: err}
	}
	if _, err := kit.JSONOf[T](); err != nil {
		return err
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.NumField() == 0 || encodesItself(reflect.PointerTo(t)) {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		embedded := f.Anonymous && f.Type.Kind() == reflect.Struct
		if f.IsExported() && !embedded && f.Tag.Get("json") != "-" {
			return nil
		}
	}
	return &slidingttl.InvalidError{Field: "T", Value: t.String(), Rule: "must have a field that JSON encodes: exported, and not tagged \"-\""}
}

func encodesItself(t reflect.Type) bool {
	return t.Implements(reflect.TypeFor[json.Marshaler]()) || t.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}

// decode sets the zero v to what is stored. An error leaves it zero.
func decode[T any](data []byte, v *T) error {
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		var zero T
		*v = zero
		return &dataError{"decode", err}
	}
	return nil
}

// errUnchanged ends an update that has nothing to write.
var errUnchanged = errors.New("unchanged")

// apply runs f on a copy of its own of the encoded data. It returns errUnchanged,
// with the data, if f left that as it was.
func (m *Manager[T]) apply(was json.RawMessage, f func(*T) error) (T, json.RawMessage, error) {
	var zero, data T
	if err := decode(was, &data); err != nil {
		return zero, nil, err
	}
	if f != nil {
		if err := f(&data); err != nil {
			return zero, nil, err
		}
	}
	encoded, err := kit.JSON{}.Encode(data)
	if err != nil {
		return zero, nil, &dataError{"encode", err}
	}
	if len(was) == 0 {
		was, _ = kit.JSON{}.Encode(zero) // which New has seen to encode
	}
	if bytes.Equal(encoded, was) {
		return data, encoded, errUnchanged
	}
	if len(encoded) > m.opts.MaxData {
		return zero, nil, &slidingttl.InvalidError{
			Field: "session data",
			Value: fmt.Sprintf("%d bytes", len(encoded)),
			Rule:  fmt.Sprintf("must be at most Options.MaxData, %d bytes", m.opts.MaxData),
		}
	}
	return data, encoded, nil
}
