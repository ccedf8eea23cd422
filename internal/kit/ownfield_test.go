package kit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// dumb does not encode as long as it is zero.
type dumb int

func (d dumb) MarshalText() ([]byte, error) {
	if d == 0 {
		return nil, errors.New("zero")
	}
	return []byte("one"), nil
}

// TestOwnField: a field that reads what the driver writes is found also in a T whose zero value does
// not encode.
func TestOwnField(t *testing.T) {
	check(t, "another field", true, struct{ A string }{})
	check(t, "in case alone", false, struct{ PK string }{})
	check(t, "another field beside one that does not encode", true, struct {
		A string
		D dumb
	}{})
	check(t, "in case alone, beside one that does not encode", false, struct {
		PK string
		D  dumb
	}{})
	check(t, "a map", true, map[string]any{})
}

func check[T any](t *testing.T, name string, fits bool, _ T) {
	t.Helper()
	_, err := kit.OwnField{Name: "pk", Kind: "field"}.Check("T", func(name string) (any, map[string]any, error) {
		var v T
		record := []byte("{}")
		if name != "" {
			record = fmt.Appendf(nil, `{%q:"key"}`, name)
		}
		if err := json.Unmarshal(record, &v); err != nil {
			return nil, nil, err
		}
		encoded, err := json.Marshal(v)
		var fields map[string]any
		_ = json.Unmarshal(encoded, &fields)
		return v, fields, err
	})
	if fits != (err == nil) || !fits && !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%s: %v", name, err)
	}
}
