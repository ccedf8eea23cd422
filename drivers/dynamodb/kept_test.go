package dynamodb

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
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

// roles is a String Set, in the order of a Go map.
type roles map[string]bool

func (r roles) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberSS{Value: slices.Collect(maps.Keys(r))}, nil
}
func (r *roles) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	*r = roles{}
	for _, role := range av.(*types.AttributeValueMemberSS).Value {
		(*r)[role] = true
	}
	return nil
}

// account writes all its fields itself, and millis its time.
type account struct {
	User string
	Addr netip.Addr
}

func (a *account) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return attributevalue.Marshal(map[string]string{"u": a.User, "a": a.Addr.String()})
}
func (a *account) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var m map[string]string
	err := attributevalue.Unmarshal(av, &m)
	a.User = m["u"]
	a.Addr, _ = netip.ParseAddr(m["a"])
	return err
}

type millis struct{ time.Time }

func (m *millis) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return (*stamp)(&m.Time).MarshalDynamoDBAttributeValue()
}
func (m *millis) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	return (*stamp)(&m.Time).UnmarshalDynamoDBAttributeValue(av)
}

// stamp is a time with a form of its own, and written is one that is only written in that.
type stamp time.Time

func (s *stamp) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return written(*s).MarshalDynamoDBAttributeValue()
}
func (s *stamp) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	n, ok := av.(*types.AttributeValueMemberN)
	if !ok {
		return errors.New("no number")
	}
	ms, err := strconv.ParseInt(n.Value, 10, 64)
	*s = stamp(time.UnixMilli(ms).UTC())
	return err
}

type written time.Time

func (w written) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return number(strconv.FormatInt(time.Time(w).UnixMilli(), 10)), nil
}

// rounded reads its number as attributevalue reads any, and is written by its field.
type rounded struct{ ID int64 }

func (r *rounded) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var m map[string]any
	err := attributevalue.Unmarshal(av, &m)
	id, _ := m["ID"].(float64)
	r.ID = int64(id)
	return err
}

// noted has a field that only its pointer's methods write, where it is set.
type noted struct{ Name, note string }

func (n *noted) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	m := map[string]string{"Name": n.Name}
	if n.note != "" {
		m["note"] = n.note
	}
	return attributevalue.Marshal(m)
}
func (n *noted) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	var m map[string]string
	err := attributevalue.Unmarshal(av, &m)
	n.Name, n.note = m["Name"], m["note"]
	return err
}

// code and hexed are numbers that fmt, and so attributevalue, writes otherwise.
type code int

func (c code) Error() string { return "code " + strconv.Itoa(int(c)) }

type hexed int

func (h hexed) Format(f fmt.State, _ rune) { fmt.Fprintf(f, "%#x", int(h)) }

// numeral is read as the shortest of its number.
type numeral attributevalue.Number

func (n numeral) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return number(string(n) + ".00"), nil
}

// newest is written with the newest first, and joined as one text.
type newest []string

func (n newest) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return attributevalue.Marshal(slices.Collect(func(yield func(string) bool) {
		for _, v := range slices.Backward(n) {
			_ = yield(v)
		}
	}))
}

type joined []string

func (j joined) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return text(strings.Join(j, ",")), nil
}

func (j *joined) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	s, ok := av.(*types.AttributeValueMemberS)
	if !ok {
		return errors.New("no text")
	}
	*j = strings.Split(s.Value, ",")
	return nil
}

// old has the methods of the SDK's version 1, of the same names.
type old struct{ cents int }

func (o old) MarshalJSON() ([]byte, error)                     { return strconv.AppendInt(nil, int64(o.cents), 10), nil }
func (o old) MarshalDynamoDBAttributeValue(*struct{}) error    { return nil }
func (o *old) UnmarshalDynamoDBAttributeValue(*struct{}) error { return nil }

// peer is a key of any bytes, with a text.
type peer string

func (p peer) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, []byte(p)), nil }
func (p *peer) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	*p = peer(raw)
	return err
}

func acceptsIfKept[T any](t *testing.T, name string, o *Options, v T) {
	t.Helper()
	d := &Driver[T]{}
	if o != nil {
		d.opts = *o
	}
	d.encoding = d.opts.encoding()
	_, refused := newDriver[T](struct{ api }{}, "t", o)
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
	json := &Options{Encoder: func(e *attributevalue.EncoderOptions) { e.TagKey = "json" }, Decoder: func(d *attributevalue.DecoderOptions) { d.TagKey = "json" }}
	acceptsIfKept(t, "what only its pointer encodes", nil, struct{ S sealed }{sealed{17}})
	acceptsIfKept(t, "a map of that", nil, struct{ M map[string]sealed }{map[string]sealed{"a": {17}}})
	acceptsIfKept(t, "a map of an interface", nil, struct{ S shapes }{shapes{"a": square{2}}})
	acceptsIfKept(t, "a string kind as a key", nil, struct{ M map[role]int }{map[role]int{"admin": 1}})
	acceptsIfKept(t, "both methods on the pointer, of the fields' form", nil, struct{ M map[string]plainly }{map[string]plainly{"a": {1}}})
	acceptsIfKept(t, "a field left out by the tag and an option", nil, struct {
		A int
		M map[string]anyItem `dynamodbav:"-,omitempty"`
	}{A: 1})
	acceptsIfKept(t, "a field left out by the tag that Encoder names", json, struct {
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
	if _, err := now.encode(struct{ M map[peer]int }{map[peer]int{"\xff": 1, "\xfe": 2}}); err != nil {
		t.Error(err)
	}
	acceptsIfKept(t, "keys that have a name", nil, struct{ Hours map[time.Weekday]int }{map[time.Weekday]int{time.Monday: 8}})
	acceptsIfKept(t, "an embedded pointer to what is not exported", nil, struct{ *square }{&square{2}})
	acceptsIfKept(t, "a complex number", nil, struct{ C complex128 }{1})
	acceptsIfKept(t, "an error", nil, struct{ Err error }{errors.New("no route")})
	acceptsIfKept(t, "no error", nil, struct{ Err error }{})
	acceptsIfKept(t, "what writes all its fields", nil, account{"u", netip.IPv6Loopback()})
	acceptsIfKept(t, "an id that float64 does not have", nil, struct{ User rounded }{rounded{1541815603606036481}})
	acceptsIfKept(t, "an id that it has", nil, struct{ User rounded }{rounded{17}})
	acceptsIfKept(t, "a number by its value", nil, struct{ N numeral }{"10"})
	acceptsIfKept(t, "what no name shows", nil, struct {
		Of struct {
			plainly
			More string
		}
	}{struct {
		plainly
		More string
	}{plainly{1}, "m"}})
	acceptsIfKept(t, "a pointer to that", nil, struct {
		Of *struct {
			plainly
			More string
		}
	}{&struct {
		plainly
		More string
	}{plainly{1}, "m"}})
	acceptsIfKept(t, "a pair that reads what it writes beside a doubt", nil, struct {
		N    noted
		Seen map[netip.Addr]int
	}{noted{"a", "b"}, map[netip.Addr]int{netip.IPv6Loopback(): 1}})
	acceptsIfKept(t, "an interface", nil, struct{ S shape }{square{2}})
	acceptsIfKept(t, "keys of two texts", nil, struct{ M map[time.Time]string }{map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(18, 0).UTC(): "b"}})
	acceptsIfKept(t, "keys of one text", nil, struct{ M map[time.Time]string }{map[time.Time]string{time.Unix(17, 0).UTC(): "a", time.Unix(17, 0).In(time.FixedZone("GMT", 0)): "b"}})
	acceptsIfKept(t, "keys that are numbers", nil, struct{ M map[float64]string }{map[float64]string{1: "a", 1.5: "b"}})
	acceptsIfKept(t, "a key that is NaN", nil, struct{ M map[float64]string }{map[float64]string{1: "a", math.NaN(): "b"}})
	acceptsIfKept(t, "the same in an any", nil, struct{ V any }{map[float32]string{float32(math.NaN()): "b"}})
	acceptsIfKept(t, "a map of what hides nothing", nil, struct{ M map[string]noted }{map[string]noted{"a": {Name: "a"}}})
	acceptsIfKept(t, "a map of what hides something", nil, struct{ M map[string]noted }{map[string]noted{"a": {"a", "b"}}})
	acceptsIfKept(t, "keys that are errors", nil, struct{ Failed map[code]int }{map[code]int{404: 1}})
	acceptsIfKept(t, "a list in another order", nil, struct{ N newest }{newest{"a", "b"}})
	acceptsIfKept(t, "a list that is the same in that order", nil, struct{ N newest }{newest{"a", "b", "a"}})
	acceptsIfKept(t, "a list that is a text", nil, struct{ J joined }{joined{"a", "b"}})
	acceptsIfKept(t, "none of it", nil, struct{ J joined }{})
	acceptsIfKept(t, "methods of version 1", nil, struct{ Total old }{old{17}})
	acceptsIfKept(t, "a set of what encodes itself", nil, struct {
		Roles []joined `dynamodbav:",stringset"`
	}{[]joined{{"a"}, {"b"}}})
	acceptsIfKept(t, "any as a string", nil, struct {
		V any `dynamodbav:",string"`
	}{"a"})
	acceptsIfKept(t, "that of two tags", json, struct {
		V any `dynamodbav:",string" json:"v"`
	}{"a"})
	acceptsIfKept(t, "a struct in an interface", nil, struct{ A any }{netip.IPv6Loopback()})
	acceptsIfKept(t, "what its pointer encodes in an interface", nil, struct{ A any }{sealed{17}})
	acceptsIfKept(t, "keys that have a format", nil, struct{ M map[hexed]int }{map[hexed]int{17: 1}})
}

// A time is a time only where it has no methods of its own, and is kept only under a name.
func TestTimesAreKept(t *testing.T) {
	at := time.UnixMilli(1795993079317).UTC()
	acceptsIfKept(t, "an embedded one that encodes itself", nil, struct{ At millis }{millis{at}})
	acceptsIfKept(t, "a form of its own", nil, struct{ At stamp }{stamp(at)})
	acceptsIfKept(t, "one that is only written", nil, struct{ At written }{written(at)})
	acceptsIfKept(t, "an embedded one", nil, struct{ time.Time }{at})
	acceptsIfKept(t, "an embedded one with a name", nil, struct {
		time.Time `dynamodbav:"at"`
	}{at})
	acceptsIfKept(t, "an embedded one with another codec's tag", nil, struct {
		time.Time `json:"at"`
	}{at})
	acceptsIfKept(t, "an embedded one with an option", nil, struct {
		time.Time `dynamodbav:",omitempty"`
	}{at})
	acceptsIfKept(t, "one as a string", nil, struct {
		At time.Time `dynamodbav:",string"`
	}{at})
	for _, v := range []time.Time{time.Unix(1<<40, 0).UTC(), at.AddDate(-3000, 0, 0), at.AddDate(9999-at.Year(), 0, 0)} {
		acceptsIfKept(t, "a year", nil, struct{ At time.Time }{v})
		acceptsIfKept(t, "a year as a number", nil, struct {
			At attributevalue.UnixTime
		}{attributevalue.UnixTime(time.Unix(v.Unix(), 0))})
	}
	zoned := &Driver[any]{}
	zoned.encoding = zoned.opts.encoding()
	for seconds, kept := range map[int]bool{3600: true, 1172: false, 1 << 20: false} {
		_, err := zoned.encode(struct{ At time.Time }{at.In(time.FixedZone("", seconds))})
		if kept != (err == nil) {
			t.Errorf("a zone of %d seconds: %v", seconds, err)
		}
	}
	_, err := newDriver[struct{ *time.Time }](struct{ api }{}, "t", nil)
	wantInvalid(t, "an embedded pointer", err, "T", "time.Time a name")
}

// What holds itself, which attributevalue would follow until the stack ends the process, is refused.
func TestRefusesWhatHoldsItself(t *testing.T) {
	type node struct {
		Next *node
		Any  any
		Map  map[string]*node
		List []node
	}
	d := &Driver[any]{}
	d.encoding = d.opts.encoding()
	refuses := func(name string, v any) {
		t.Helper()
		_, err := d.encode(v)
		wantInvalid(t, name, err, "value", "must not hold itself")
	}
	way := &node{}
	way.Next = way
	if _, err := d.encode(struct {
		*node
		Next int // covers the way back
	}{node: way}); err != nil {
		t.Error(err)
	}
	var n node
	n.Next = &n
	refuses("by a pointer", n)
	a := &node{}
	a.Any = a
	refuses("by an interface", a)
	refuses("by a map", struct{ M map[string]any }{map[string]any{"a": a}})
	m := &node{Map: map[string]*node{}}
	m.Map["a"] = &node{Map: m.Map}
	refuses("in a map", m)
	l := node{List: make([]node, 1)}
	l.List[0] = l
	refuses("in a slice", &l)
	var x any
	x = &x
	refuses("a pointer to itself", x)
	if _, err := d.encode(node{Next: &node{Next: &node{}}, List: make([]node, 3), Any: []byte("a")}); err != nil {
		t.Error(err)
	}
}

// A set has no order, and what an interface holds is read as another type: neither is held against a value
// because another part of it is tried.
func TestKeepsSetsBesideDoubts(t *testing.T) {
	type tagged struct {
		Roles roles
		Any   any
		Seen  map[netip.Addr]int
	}
	d := &Driver[tagged]{}
	d.encoding = d.opts.encoding()
	tags := struct {
		Tags []string `dynamodbav:",stringset"`
	}{[]string{"a"}}
	for range 100 {
		v := tagged{roles{"a": true, "b": true, "c": true, "d": true}, nil, map[netip.Addr]int{netip.IPv6Loopback(): 1}}
		acceptsIfKept(t, "a set beside a map by addresses", nil, v)
		v.Any = tags
		if _, err := d.encode(v); err != nil {
			t.Fatal(err)
		}
	}
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
		if _, err := newDriver[v](struct{ api }{}, "t", &c.o); (err == nil) != c.fit {
			t.Errorf("%s: %v", name, err)
		}
	}
}
