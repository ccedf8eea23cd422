package kit

import (
	"encoding/json"
	"math/big"
	"testing"
)

// word has its encoding on the pointer.
type word string

func (w *word) MarshalText() ([]byte, error)    { return []byte("my " + *w), nil }
func (w *word) UnmarshalText(text []byte) error { *w = word(text[3:]); return nil }

// view can be encoded only, without its Secret.
type view struct{ Name, Secret string }

func (v *view) MarshalJSON() ([]byte, error) { return json.Marshal(v.Name) }

// A value is encoded by its own methods, those of its pointer too.
func TestJSONByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	for _, c := range []struct {
		v    any
		want string
	}{
		{*big.NewInt(17), "17"},
		{purse{*big.NewInt(17)}, `{"Total":17}`},
		{[1]big.Int{*big.NewInt(17)}, "[17]"},
		{[]big.Int{*big.NewInt(17)}, "[17]"},
		{word("word"), `"my word"`},
		{struct{ A any }{"a"}, `{"A":"a"}`},
		{&purse{*big.NewInt(17)}, `{"Total":17}`},
		{(*purse)(nil), "null"},
		{(*big.Int)(nil), "null"},
		{nil, "null"},
		{view{"n", "s"}, `{"Name":"n","Secret":"s"}`},
		{struct{ view }{view{"n", "s"}}, `{"Name":"n","Secret":"s"}`},
		{struct {
			V view
			N big.Int
		}{V: view{"n", "s"}}, `{"V":{"Name":"n","Secret":"s"},"N":{}}`},
		{&view{"n", "s"}, `"n"`},
		{"text", `"text"`},
		{map[string]int{"a": 1}, `{"a":1}`},
	} {
		if got, err := (JSON{}).Encode(c.v); err != nil || string(got) != c.want {
			t.Errorf("%T: %s, %v; want %s", c.v, got, err, c.want)
		}
	}
}
