package dynamodb

import (
	"errors"
	"math/big"
	"net/netip"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
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

func acceptsIfKept[T any](t *testing.T, name string, o *Options, v T) {
	t.Helper()
	d := &Driver[T]{}
	if o != nil {
		d.opts = *o
	}
	d.encoding = d.opts.encoding()
	_, refused := New[T](struct{ Client }{}, "t", o)
	item, err := d.encode(v)
	if errors.Is(err, driver.ErrInvalid) {
		refused = err
	}
	var got T
	if err == nil {
		got, err = d.decode(item)
	}
	kept := err == nil && reflect.DeepEqual(got, v)
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

// New or the write refuses a value that is not read back, and no other.
func TestRefusesWhatIsNotKept(t *testing.T) {
	acceptsIfKept(t, "what only its pointer encodes", nil, struct{ S sealed }{sealed{17}})
	acceptsIfKept(t, "a map of that", nil, struct{ M map[string]sealed }{map[string]sealed{"a": {17}}})
	acceptsIfKept(t, "a map of an interface", nil, struct{ S shapes }{shapes{"a": square{2}}})
	acceptsIfKept(t, "a string kind as a key", nil, struct{ M map[role]int }{map[role]int{"admin": 1}})
	acceptsIfKept(t, "both methods on the pointer, of the fields' form", nil, struct{ M map[string]plainly }{map[string]plainly{"a": {1}}})
	acceptsIfKept(t, "a field left out by the tag and an option", nil, struct {
		A int
		M map[string]anyItem `dynamodbav:"-,omitempty"`
	}{A: 1})
	acceptsIfKept(t, "a field left out by the tag that Encoder names", &Options{
		Encoder: func(e *attributevalue.EncoderOptions) { e.TagKey = "json" }, Decoder: func(d *attributevalue.DecoderOptions) { d.TagKey = "json" },
	}, struct {
		A int
		M map[string]anyItem `json:"-"`
	}{A: 1})
	acceptsIfKept(t, "a struct without exported fields", nil, struct{ A netip.Addr }{netip.IPv6Loopback()})
	acceptsIfKept(t, "a pointer to one", nil, struct{ Total *big.Int }{big.NewInt(17)})
	acceptsIfKept(t, "a time", nil, struct {
		At time.Time
		F  func()
	}{At: time.Unix(17, 0).UTC()})
	now := &Driver[any]{}
	now.encoding = now.opts.encoding()
	if _, err := now.encode(struct {
		At time.Time // with what only this process knows
		F  func()
	}{At: time.Now()}); err != nil {
		t.Error(err)
	}
	acceptsIfKept(t, "keys that have a name", nil, struct{ Hours map[time.Weekday]int }{map[time.Weekday]int{time.Monday: 8}})
	acceptsIfKept(t, "an embedded pointer to what is not exported", nil, struct{ *square }{&square{2}})
	acceptsIfKept(t, "a complex number", nil, struct{ C complex128 }{1})
}

// With UseEncodingMarshalers attributevalue asks the pointer of what it can address for MarshalText, and only that.
func TestEncodingMarshalers(t *testing.T) {
	o := &Options{Encoder: func(e *attributevalue.EncoderOptions) { e.UseEncodingMarshalers = true }, Decoder: func(d *attributevalue.DecoderOptions) { d.UseEncodingUnmarshalers = true }}
	acceptsIfKept(t, "netip.Addr", o, struct{ A netip.Addr }{netip.IPv6Loopback()})
	acceptsIfKept(t, "a pointer", o, &struct{ Total big.Int }{*big.NewInt(17)})
	acceptsIfKept(t, "big.Int", o, struct{ Total big.Int }{*big.NewInt(17)})
	acceptsIfKept(t, "a map of big.Int", o, struct{ M map[string]big.Int }{map[string]big.Int{"a": *big.NewInt(17)}})
	acceptsIfKept(t, "for the encoder alone", &Options{Encoder: o.Encoder}, struct{ A netip.Addr }{netip.IPv6Loopback()})
	acceptsIfKept(t, "for the decoder alone", &Options{Decoder: o.Decoder}, struct{ A netip.Addr }{netip.IPv6Loopback()})
}

// An Encoder and a Decoder that do not fit each other are refused, and others are not.
func TestCodecsFit(t *testing.T) {
	type v struct {
		User string `json:"name"`
	}
	tag := func(o *attributevalue.EncoderOptions) { o.TagKey = "json" }
	tagged := func(o *attributevalue.DecoderOptions) { o.TagKey = "json" }
	spelt := func(o *attributevalue.EncoderOptions) {
		o.EncodeTime = func(at time.Time) (types.AttributeValue, error) {
			return number(strconv.FormatInt(at.UnixMilli(), 10)), nil
		}
	}
	for name, c := range map[string]struct {
		o   Options
		fit bool
	}{
		"none":               {Options{}, true},
		"both":               {Options{Encoder: tag, Decoder: tagged}, true},
		"the Encoder's tag":  {Options{Encoder: tag}, false},
		"the Decoder's tag":  {Options{Decoder: tagged}, false},
		"the Encoder's time": {Options{Encoder: spelt}, false},
	} {
		if _, err := New[v](struct{ Client }{}, "t", &c.o); (err == nil) != c.fit {
			t.Errorf("%s: %v", name, err)
		}
	}
}
