package kit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
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

// extra keeps what it has no field for.
type extra[F any] struct {
	field F
	rest  map[string]any
}

func (e extra[F]) MarshalJSON() ([]byte, error) {
	all := maps.Clone(e.rest)
	b, err := json.Marshal(e.field)
	return b, errors.Join(err, json.Unmarshal(b, &all), encode(all, &b))
}

func (e *extra[F]) UnmarshalJSON(b []byte) error {
	return errors.Join(json.Unmarshal(b, &e.field), json.Unmarshal(b, &e.rest))
}

func encode(v any, into *[]byte) (err error) {
	*into, err = json.Marshal(v)
	return err
}

// whole is decoded of a whole value only, and its error may be of any field.
type whole[F any] struct{ field F }

func (w *whole[F]) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &w.field); err != nil {
		return err
	}
	return errors.New("has no total")
}

// nilPointer panics when it is decoded.
type nilPointer struct{ *big.Int }

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
	check(t, "a map of numbers", false, map[string]int{})
	check(t, "another field, and the rest", true, extra[struct{ A string }]{})
	check(t, "a text, and the rest", true, extra[struct {
		Own string `json:"pk"`
	}]{})
	check(t, "a number, and the rest", false, extra[struct {
		Own int `json:"pk"`
	}]{})
	check(t, "in case alone, and the rest", false, extra[struct{ PK string }]{})
	check(t, "another field of a whole", true, whole[struct{ A string }]{})
	check(t, "a text of a whole", true, whole[struct {
		Own string `json:"pk"`
	}]{})
	check(t, "a number of a whole", true, whole[struct {
		Own int `json:"pk"`
	}]{})
	check(t, "a panic", false, nilPointer{})
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
