package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/slidingttl/slidingttl/slidingttl"
)

// decode returns what is stored as a T of the caller's own.
func decode[T any](data []byte) (T, error) {
	var v T
	if len(data) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(data, &v); err != nil {
		var zero T
		return zero, &DataError{Op: "decode", Err: err}
	}
	return v, nil
}

// errUnchanged ends an update that has nothing to write.
var errUnchanged = errors.New("unchanged")

// apply runs f on a copy of its own of the encoded data. It returns errUnchanged,
// with the data, if f left that as it was.
func (m *Manager[T]) apply(was json.RawMessage, f func(*T) error) (T, json.RawMessage, error) {
	var zero T
	data, err := decode[T](was)
	if err != nil {
		return zero, nil, err
	}
	if f != nil {
		if err := f(&data); err != nil {
			return zero, nil, err
		}
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return zero, nil, &DataError{Op: "encode", Err: err}
	}
	if len(was) == 0 {
		if was, err = json.Marshal(zero); err != nil {
			return zero, nil, &DataError{Op: "encode", Err: err}
		}
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
