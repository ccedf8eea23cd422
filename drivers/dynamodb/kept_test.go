package dynamodb

import (
	"math/big"
	"net/netip"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

type shape interface {
	attributevalue.Marshaler
	Area() int
}
type square struct{ Side int }

func (s square) Area() int { return s.Side }
func (s square) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return attributevalue.Marshal(map[string]int{"square": s.Side})
}

type shapes map[string]shape

func (s *shapes) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var m map[string]map[string]int
	err := attributevalue.Unmarshal(av, &m)
	*s = shapes{}
	for k, v := range m {
		(*s)[k] = square{v["square"]}
	}
	return err
}

// role is an enum that checks what it reads.
type role string

func (r *role) MarshalText() ([]byte, error) { return []byte(*r), nil }
func (r *role) UnmarshalText(b []byte) error { *r = role(b); return nil }

type plainly struct{ N int }

func (p *plainly) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	type plain plainly
	return attributevalue.Marshal((*plain)(p))
}
func (p *plainly) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	type plain plainly
	return attributevalue.Unmarshal(av, (*plain)(p))
}

func acceptsWhatItKeeps[T any](t *testing.T, name string, o *Options, v T) {
	t.Helper()
	d := &Driver[T]{}
	if o != nil {
		d.opts = *o
	}
	d.encoding = d.opts.encoding()
	item, err := d.encode(v)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := d.decode(item)
	kept := err == nil && reflect.DeepEqual(got, v)
	_, refused := New[T](struct{ Client }{}, "t", o)
	if kept != (refused == nil) {
		t.Errorf("%s: kept %v (stored %v, read %+v, %v), refused: %v", name, kept, asJSON(item), got, err, refused)
	}
}

// sealed has nothing that is encoded without its pointer.
type sealed struct{ n int }

func (s *sealed) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return attributevalue.Marshal(map[string]int{"n": s.n})
}

func (s *sealed) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var m map[string]int
	err := attributevalue.Unmarshal(av, &m)
	s.n = m["n"]
	return err
}

// New refuses a T whose value is not read back, and no other.
func TestNewRefusesWhatIsNotKept(t *testing.T) {
	acceptsWhatItKeeps(t, "what only its pointer encodes", nil, struct{ S sealed }{sealed{17}})
	acceptsWhatItKeeps(t, "a map of that", nil, struct{ M map[string]sealed }{map[string]sealed{"a": {17}}})
	acceptsWhatItKeeps(t, "a map of an interface", nil, struct{ S shapes }{shapes{"a": square{2}}})
	acceptsWhatItKeeps(t, "a string kind as a key", nil, struct{ M map[role]int }{map[role]int{"admin": 1}})
	acceptsWhatItKeeps(t, "both methods on the pointer, of the fields' form", nil, struct{ M map[string]plainly }{map[string]plainly{"a": {1}}})
	acceptsWhatItKeeps(t, "a field left out by the tag and an option", nil, struct {
		A int
		M map[string]anyItem `dynamodbav:"-,omitempty"`
	}{A: 1})
	acceptsWhatItKeeps(t, "a field left out by the tag that Encoder names", &Options{
		Encoder: func(e *attributevalue.EncoderOptions) { e.TagKey = "json" }, Decoder: func(d *attributevalue.DecoderOptions) { d.TagKey = "json" },
	}, struct {
		A int
		M map[string]anyItem `json:"-"`
	}{A: 1})
}

// With UseEncodingMarshalers attributevalue asks the pointer of what it can address for MarshalText, and only that.
func TestEncodingMarshalers(t *testing.T) {
	o := &Options{Encoder: func(e *attributevalue.EncoderOptions) { e.UseEncodingMarshalers = true }, Decoder: func(d *attributevalue.DecoderOptions) { d.UseEncodingUnmarshalers = true }}
	acceptsWhatItKeeps(t, "netip.Addr", o, struct{ A netip.Addr }{netip.IPv6Loopback()})
	acceptsWhatItKeeps(t, "a pointer", o, &struct{ Total big.Int }{*big.NewInt(17)})
	acceptsWhatItKeeps(t, "big.Int", o, struct{ Total big.Int }{*big.NewInt(17)})
	acceptsWhatItKeeps(t, "a map of big.Int", o, struct{ M map[string]big.Int }{map[string]big.Int{"a": *big.NewInt(17)}})
}
