package kit

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	mrand "math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// shape is a union by an interface that encodes itself; who holds it decodes it.
type shape interface {
	json.Marshaler
	Area() int
}
type square struct{ Side int }

func (s square) Area() int                    { return s.Side * s.Side }
func (s square) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, `{"square":%d}`, s.Side), nil }

type shapes map[string]shape

func (s *shapes) UnmarshalJSON(b []byte) error {
	var m map[string]struct{ Square int }
	err := json.Unmarshal(b, &m)
	*s = shapes{}
	for k, v := range m {
		(*s)[k] = square{v.Square}
	}
	return err
}

type drawing struct {
	Name   string
	Shapes shapes
}

// role is an enum: encoding/json writes a map's keys of a string kind as they are, and reads them by UnmarshalText.
type role string

func (r *role) MarshalText() ([]byte, error) { return []byte(*r), nil }
func (r *role) UnmarshalText(b []byte) error {
	if *r = role(b); *r != "admin" && *r != "user" {
		return errors.New("no role")
	}
	return nil
}

// report adds what is computed to a part, and fast is as ffjson and hand-written code have it: both on the pointer,
// in the form of the fields.
type report[T any] struct {
	N  int
	At T
}

func (r *report[T]) MarshalJSON() ([]byte, error) {
	type plain report[T]
	return json.Marshal(struct {
		*plain
		Twice int
	}{(*plain)(r), 2 * r.N})
}

type fast struct{ N int }

func (f *fast) MarshalJSON() ([]byte, error) { type plain fast; return json.Marshal((*plain)(f)) }
func (f *fast) UnmarshalJSON(b []byte) error { type plain fast; return json.Unmarshal(b, (*plain)(f)) }

// span has a text by value, and JSON on the pointer that reads both.
type span struct{ D time.Duration }

func (s span) MarshalText() ([]byte, error) { return []byte(s.D.String()), nil }
func (s *span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	s.D = d
	return err
}
func (s *span) MarshalJSON() ([]byte, error) { return json.Marshal(s.D.String()) }
func (s *span) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	return errors.Join(err, s.UnmarshalText([]byte(text)))
}

type redacted struct{ Name, Secret string }

func (r *redacted) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"Name": r.Name})
}

type withheld struct {
	R  redacted
	At fast
}

type covered struct {
	inner
	At int // encoding/json takes this one
}
type inner struct{ At fast }

type money struct {
	Cents int
	Cur   string
}

func (m *money) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d %s", m.Cents, m.Cur), nil }
func (m *money) UnmarshalText(b []byte) error {
	_, err := fmt.Sscanf(string(b), "%d %s", &m.Cents, &m.Cur)
	return err
}

type ident int64

func (i *ident) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(*i), 10), nil }
func (i *ident) UnmarshalJSON(b []byte) error {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	*i = ident(n)
	return err
}

// What encoding/json keeps of what it is given is not refused, nor given to it by its address where it does not decode
// that.
func TestJSONKeepsWhatIsKeptByValue(t *testing.T) {
	type line struct {
		Price struct { // of no name: encoding/json decodes by its fields, but encodes its address by the promoted method
			money
			Note string
		}
	}
	l := line{}
	l.Price.Cents, l.Price.Cur, l.Price.Note = 5, "EUR", "n"
	type quoted struct {
		ID ident `json:"id,string"`
	}
	for name, v := range map[string]any{
		"a map of an interface that is a json.Marshaler": drawing{"d", shapes{"a": square{2}}},
		"a key of a string kind":                         map[role]int{"admin": 1},
		"text by value, JSON by pointer":                 map[string]*span{"a": {time.Hour}},
		"such a part of what only encodes itself":        report[fast]{N: 1, At: fast{2}},
		"an unnamed struct that embeds":                  l,
		"what only encodes itself, and not all":          redacted{"n", "s"},
		"the option string":                              quoted{7},
		"a map of fields that another field covers":      map[string]covered{"a": {At: 1}},
	} {
		if err := ofJSON.Check(reflect.TypeOf(v)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		b, err := JSON{}.Encode(v)
		into := reflect.New(reflect.TypeOf(v))
		if err == nil {
			err = JSON{}.Decode(b, into.Interface())
		}
		if err != nil || !reflect.DeepEqual(into.Elem().Interface(), v) {
			t.Errorf("%s: it is stored as %s, and read as %+v, %v", name, b, into.Elem(), err)
		}
	}
}

// secret is encrypted: it is another text each time.
type secret string

func (s secret) MarshalJSON() ([]byte, error) { return json.Marshal(rand.Text() + ":" + string(s)) }
func (s *secret) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	_, after, _ := strings.Cut(text, ":")
	*s = secret(after)
	return err
}

// set is a list in the order of a Go map, and roles is one whose pointer alone encodes.
type set map[string]bool

func (s set) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Collect(maps.Keys(s))) }
func (s *set) UnmarshalJSON(b []byte) error {
	var names []string
	err := json.Unmarshal(b, &names)
	*s = set{}
	for _, name := range names {
		(*s)[name] = true
	}
	return err
}

// members are a list of objects in that order.
type members map[string]string

func (m members) MarshalJSON() ([]byte, error) {
	list := []map[string]string{}
	for name, role := range m {
		list = append(list, map[string]string{"Name": name, "Role": role})
	}
	return json.Marshal(list)
}
func (m *members) UnmarshalJSON(b []byte) error {
	var list []map[string]string
	err := json.Unmarshal(b, &list)
	*m = members{}
	for _, in := range list {
		(*m)[in["Name"]] = in["Role"]
	}
	return err
}

type roles struct{ set }

func (r *roles) MarshalJSON() ([]byte, error) { return r.set.MarshalJSON() }
func (r *roles) UnmarshalJSON(b []byte) error { return r.set.UnmarshalJSON(b) }

// aged adds what is computed from the clock, and is read by its fields.
type aged struct{ Born time.Time }

func (a aged) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"Born": a.Born, "Age": time.Since(a.Born).Seconds()})
}

// padded has a list of another length each time.
type padded struct{ N int }

func (p *padded) MarshalJSON() ([]byte, error) {
	return json.Marshal(make([]string, p.N+mrand.IntN(3)))
}
func (p *padded) UnmarshalJSON(b []byte) error {
	*p = padded{7}
	return json.Unmarshal(b, new([]string))
}

// digits are a decimal that is read without the zeros at its end, and decimal is one of those whose pointer alone encodes.
type digits string

func (d digits) MarshalJSON() ([]byte, error) { return []byte(d), nil }
func (d *digits) UnmarshalJSON(b []byte) error {
	*d = digits(strings.TrimRight(string(b), "0"))
	return nil
}

type decimal struct{ digits }

func (d *decimal) MarshalJSON() ([]byte, error) { return d.digits.MarshalJSON() }

// priced embeds a pointer that has methods, and has its own.
type priced struct {
	*big.Int
	D digits
}

func (p priced) MarshalJSON() ([]byte, error)     { return p.D.MarshalJSON() }
func (p *priced) UnmarshalJSON(text []byte) error { return p.D.UnmarshalJSON(text) }

// plot and chart write how many points they have themselves, which is all that is asked of them.
type plot map[point]int

func (p plot) MarshalJSON() ([]byte, error)  { return fmt.Appendf(nil, `{"n":%d}`, len(p)), nil }
func (p *plot) UnmarshalJSON(b []byte) error { *p = plot{}; return nil }

type chart struct{ Of map[point]int }

func (c chart) MarshalJSON() ([]byte, error)  { return plot(c.Of).MarshalJSON() }
func (c *chart) UnmarshalJSON(b []byte) error { return (*plot)(&c.Of).UnmarshalJSON(b) }

// A part that is a doubt throws none on another, which is kept as it would be alone.
func TestJSONAsksOfDoubtsOnly(t *testing.T) {
	sum, near := *big.NewInt(17), map[point]int{{1.001, 1}: 1, {1.002, 1}: 2}
	for _, v := range []any{
		struct {
			P plot
			C map[string]chart
			A any
			N big.Int
		}{near, map[string]chart{"c": {near}}, near, sum},
		struct {
			D digits
			N big.Int
		}{"1.50", sum},
		struct {
			D *decimal `json:"d"`
			N big.Int
		}{&decimal{"1.50"}, sum},
		struct {
			D []decimal
			N big.Int
		}{[]decimal{{"1.50"}}, sum},
		struct {
			D [1]digits
			N big.Int
		}{[1]digits{"1.50"}, sum},
		struct {
			D map[string]digits
			N big.Int
		}{map[string]digits{"d": "1.50"}, sum},
		struct {
			D map[point]int `json:"-"`
			M map[string]int
			N big.Int
		}{near, nil, sum},
		struct {
			D any // read as another number
			N big.Int
		}{int64(1<<53 + 1), sum},
	} {
		if _, err := (JSON{}).Encode(v); err != nil {
			t.Error(err)
		}
	}
}

// What is encoded to something else each time, in itself or beside a part that is a doubt, is not refused for that.
func TestJSONKeepsWhatVaries(t *testing.T) {
	sum, four := *big.NewInt(17), set{"a": true, "b": true, "c": true, "d": true}
	two, of := set{"a": true, "b": true}, members{"admin": "admin"}
	for i := range 50 {
		of[strconv.Itoa(i)] = "user"
	}
	for name, v := range map[string]any{
		"an encrypted field beside a big.Int": struct {
			Card  secret
			Total big.Int
		}{"4711", sum},
		"encrypted fields beside a key that is a doubt": struct {
			Cards []secret
			Seen  map[netip.Addr]int
		}{[]secret{"4711", "4712"}, map[netip.Addr]int{netip.IPv6Loopback(): 1}},
		"a set beside a big.Int": struct {
			Roles set
			Total big.Int
		}{four, sum},
		"sets of two beside a key that is a doubt": struct {
			Sets map[string]set
			Seen map[netip.Addr]int
		}{map[string]set{"a": two, "b": two, "c": two, "d": two}, map[netip.Addr]int{netip.IPv6Loopback(): 1}},
		"a rare role beside a key that is a doubt": struct {
			Of   members
			Seen map[netip.Addr]int
		}{of, map[netip.Addr]int{netip.IPv6Loopback(): 1}},
		"a set that its pointer encodes": struct{ Roles roles }{roles{four}},
		"a part computed from the clock": aged{time.Unix(17, 0).UTC()},
		"a list of another length":       struct{ P padded }{padded{7}},
		"what an interface holds, beside a big.Int": struct {
			Any   any
			Total big.Int
		}{"\u2028", sum},
	} {
		for range 100 {
			b, err := JSON{}.Encode(v)
			into := reflect.New(reflect.TypeOf(v))
			if err == nil {
				err = json.Unmarshal(b, into.Interface())
			}
			if err != nil || !reflect.DeepEqual(into.Elem().Interface(), v) {
				t.Fatalf("%s: it is stored as %s, and read as %+v, %v", name, b, into.Elem(), err)
			}
		}
	}
}

// What methods of a pair write is all that is asked of them, and so is what a method leaves out beside another part
// that only its pointer encodes.
func TestJSONTakesMethodsAtTheirWord(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{struct{ U user }{user{1541815603606036481}}, `{"U":{"id":1541815603606036481}}`}, // which reads another
		{content{map[string]any{"a": int64(1<<53 + 1)}}, `{"a":9007199254740993}`},
		{withheld{redacted{"n", "s"}, fast{1}}, `{"R":{"Name":"n"},"At":{"N":1}}`},
		{priced{D: "10"}, "10"}, // which reads 1
		{struct {
			D digits `json:"offset" db:"set,string"`
		}{"10"}, `{"offset":10}`},
	} {
		if b, err := (JSON{}).Encode(c.v); err != nil || string(b) != c.want {
			t.Errorf("%+v is stored as %s, %v; want %s", c.v, b, err, c.want)
		}
	}
}

type hex16 [16]byte

func (k hex16) MarshalText() ([]byte, error)  { return hex.AppendEncode(nil, k[:]), nil }
func (k *hex16) UnmarshalText(b []byte) error { _, err := hex.Decode(k[:], b); return err }

type (
	order struct {
		Total big.Int
		Items []item
	}
	item struct {
		At    time.Time
		Extra any
	}
	trie struct {
		Name string
		Kids map[hex16]*trie `json:",omitempty"`
	}
)

// A type that tells all costs nothing, and another two encodings and a decoding, whatever is in the value. Types are
// walked once.
func TestJSONCosts(t *testing.T) {
	type note struct{ Z, A string }
	o := order{Total: *big.NewInt(17)}
	for range 1000 {
		o.Items = append(o.Items, item{time.Unix(17, 0).UTC(), note{"z", "a"}})
	}
	root := trie{Name: "root"}
	for n, depth := &root, 300; depth > 0; depth-- {
		next := &trie{Name: "node"}
		n.Kids = map[hex16]*trie{{1}: next, {2}: {Name: "leaf"}}
		n = next
	}
	encodes, decodes, names := 0, 0, 0
	e := &Encoding{Pairs: ofJSON.Pairs, Keys: ofJSON.Keys, Says: ofJSON.Says}
	e.Name = func(tag reflect.StructTag) (string, string, bool) { names++; return ofJSON.Name(tag) }
	e.Encode = func(v any) (any, error) { encodes++; return ofJSON.Encode(v) }
	e.Decode = func(b, into any) error { decodes++; return ofJSON.Decode(b, into) }
	for _, c := range []struct {
		v                any
		encodes, decodes int
	}{
		{o, 0, 0}, {&o, 0, 0}, {root, 2, 1}, {&root, 2, 1}, {struct{ S set }{set{"a": true, "b": true}}, 0, 0},
		{event{"a", map[string]any{"a": note{"z", "a"}, "b": json.Number("1.0")}}, 2, 1}, // read in another order
		{struct {
			V secret
			M map[hex16]int
		}{"a", map[hex16]int{{1}: 1}}, 3, 1}, // says another thing each time
		{one{1, 2}, 2 + tries, 1}, // refused
	} {
		for _, first := range []bool{true, false} {
			encodes, decodes, names = 0, 0, 0
			given, encoded, err := e.Given(c.v, false)
			if encodes != c.encodes || decodes != c.decodes || !first && names > 0 {
				t.Errorf("%T: %d encodings, %d decodings, %d names of fields (%v)", c.v, encodes, decodes, names, err)
			}
			if want, _ := json.Marshal(given); err == nil && encoded != nil && len(encoded.([]byte)) != len(want) {
				t.Errorf("%T: encoded to %s, want %s", c.v, encoded, want)
			}
		}
	}
}

// counted counts how often it is written.
type counted struct{ writes *int }

func (c counted) MarshalJSON() ([]byte, error) { *c.writes++; return []byte("1"), nil }
func (c *counted) UnmarshalJSON([]byte) error  { c.writes = new(int); return nil }

// What the trial has encoded is not encoded again.
func TestJSONStoresWhatWasTried(t *testing.T) {
	writes := 0
	v := struct {
		C counted
		M map[hex16]int
	}{C: counted{&writes}}
	b, err := JSON{}.Encode(v)
	if want := `{"C":1,"M":null}`; err != nil || string(b) != want || writes != 1 {
		t.Errorf("%s, %v after %d writes", b, err, writes)
	}
}

// What an empty value would do says nothing of another, as where its methods check it.
func TestJSONOfWhatHasNoEmptyValue(t *testing.T) {
	type purse struct{ Price money }
	p := purse{money{5, "EUR"}}
	b, err := JSON{}.Encode(p)
	if want := `{"Price":"5 EUR"}`; err != nil || string(b) != want {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
}

// An interface is given as it is: it has no pointer's methods.
func TestJSONOfInterface(t *testing.T) {
	v := struct{ S any }{square{2}}
	if got, _, err := ofJSON.Given(v, false); err != nil || got != any(v) {
		t.Errorf("given as a %T, %v", got, err)
	}
}
