package session

import (
	"encoding/json"
	"errors"
	"math/big"
	"testing"

	"github.com/slidingttl/slidingttl/slidingttl"
)

type (
	hidden struct{ cart []string }
	tagged struct {
		Cart []string `json:"-"`
	}
	both    struct{ Cart, cart []string }
	embeds  struct{ plain }
	plain   struct{ Count int }
	own     struct{ cart []string }
	ownText struct{ cart string }
)

var _ = hidden{}.cart
var _ = both{}.cart

func (o own) MarshalJSON() ([]byte, error)      { return json.Marshal(o.cart) }
func (o *own) UnmarshalJSON(b []byte) error     { return json.Unmarshal(b, &o.cart) }
func (o ownText) MarshalText() ([]byte, error)  { return []byte(o.cart), nil }
func (o *ownText) UnmarshalText(b []byte) error { o.cart = string(b); return nil }

// prefs has a default for what is missing.
type prefs struct {
	Theme string `json:",omitempty"`
}

func (p *prefs) UnmarshalJSON(b []byte) error {
	type plain prefs
	q := plain{"light"}
	err := json.Unmarshal(b, &q)
	*p = prefs(q)
	return err
}

func TestDataThatCannotBeStored(t *testing.T) {
	for name, err := range map[string]error{
		"unexported fields":  checkData[hidden](),
		"a pointer to those": checkData[*hidden](),
		"fields tagged away": checkData[tagged](),
		"embeds unexported":  checkData[struct{ hidden }](),
		"a channel":          checkData[chan int](),
		"a field of no JSON": checkData[struct{ F func() }](),
		"a map of big.Int":   checkData[struct{ Sums map[string]big.Int }](),
	} {
		var invalid *slidingttl.InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "T" || invalid.Value == "" || invalid.Rule == "" {
			t.Errorf("%s: error %v, want one that names T, its type and the rule", name, err)
		}
		if cause := new(json.UnsupportedTypeError); name == "a channel" && !errors.As(err, &cause) {
			t.Errorf("%s: error %v, want JSON's in it", name, err)
		}
	}
	for name, err := range map[string]error{
		"a struct":             checkData[plain](),
		"an empty struct":      checkData[struct{}](),
		"a map":                checkData[map[string]any](),
		"anything":             checkData[any](),
		"some unexported":      checkData[both](),
		"an embedded struct":   checkData[embeds](),
		"a field of a struct":  checkData[struct{ Data plain }](),
		"its own JSON":         checkData[own](),
		"its own text":         checkData[ownText](),
		"a pointer to its own": checkData[*own](),
		"a default":            checkData[prefs](),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A session's data is encoded by its own methods, those of its pointer too.
func TestDataByPointer(t *testing.T) {
	type purse struct{ Total big.Int }
	m := &Manager[purse]{opts: Options{MaxData: 1000}}
	_, encoded, err := m.apply(nil, func(p *purse) error {
		p.Total.SetInt64(17)
		return nil
	})
	var got purse
	if bad := decode(encoded, &got); err != nil || bad != nil || got.Total.Int64() != 17 {
		t.Errorf("a total of 17 is written as %s, %v, and read as %v, %v", encoded, err, &got.Total, bad)
	}
}
