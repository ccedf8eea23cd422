package sql

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// codec turns a value into arguments and back.
type codec[T any] struct {
	fields   func(v *T) []any // nil: one column of JSON, or none
	lifeOnly bool
}

func (c *codec[T]) encode(v T) ([]any, error) {
	switch {
	case c.lifeOnly:
		return nil, nil
	case c.fields != nil:
		return c.fields(&v), nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must be one that encoding/json encodes", Err: unquoted{err}}
	}
	return []any{string(text)}, nil // some databases take a []byte as binary data
}

// unrounded refuses a JSON text that a column of SQLite's numeric affinity, such as JSON, would change: a number
// that would be read in another spelling, or as another number.
func unrounded(text string) error {
	if c := text[0]; c != '-' && (c < '0' || c > '9') {
		return nil
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	f, _ := strconv.ParseFloat(text, 64)
	if strconv.FormatInt(n, 10) == text || len(text) <= 15 && f != 0 && !strings.Contains(text, "e") && strconv.FormatFloat(f, 'g', -1, 64) == text {
		return nil
	}
	return &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a number of %d characters", len(text)), Rule: "must be one that its column's type leaves as it is: a TEXT column holds it"}
}

// scanned is the destination of a value's Scan.
type scanned[T any] struct {
	v    T
	text []byte
}

// dest returns what to scan a value into.
func (c *codec[T]) dest(s *scanned[T]) []any {
	switch {
	case c.lifeOnly:
		return nil
	case c.fields != nil:
		return c.fields(&s.v)
	}
	return []any{&s.text}
}

func (c *codec[T]) decode(s *scanned[T]) (T, error) {
	if c.lifeOnly || c.fields != nil {
		return s.v, nil
	}
	if err := json.Unmarshal(s.text, &s.v); err != nil {
		var zero T
		return zero, misshapen(err)
	}
	return s.v, nil
}

// misshapen is the error for a row that does not fit the driver's types.
func misshapen(err error) error {
	return &driver.InvalidError{Field: "row", Value: "of another shape", Rule: "must fit Options and the driver's type", Err: unquoted{err}}
}

// unquoted hides an error's text, which may quote a record.
type unquoted struct{ err error }

func (e unquoted) Error() string {
	var field *json.UnmarshalTypeError
	if errors.As(e.err, &field) {
		return fmt.Sprintf("field %q does not fit Go type %s", field.Field, field.Type)
	}
	return fmt.Sprintf("%T", e.err)
}

func (e unquoted) Unwrap() error { return e.err }
