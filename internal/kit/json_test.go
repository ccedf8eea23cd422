package kit

import (
	"math/big"
	"testing"
)

// word has its encoding on the pointer.
type word string

func (w *word) MarshalText() ([]byte, error) { return []byte("my " + *w), nil }

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
		{"text", `"text"`},
		{map[string]int{"a": 1}, `{"a":1}`},
	} {
		if got, err := (JSON{}).Encode(c.v); err != nil || string(got) != c.want {
			t.Errorf("%T: %s, %v; want %s", c.v, got, err, c.want)
		}
	}
}
