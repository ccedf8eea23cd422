package anyvalue

import (
	crand "crypto/rand"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// cents are written as euros, by the pointer alone.
type cents int

func (c *cents) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%02d", *c/100, *c%100), nil
}
func (c *cents) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	*c = cents(f*100 + 0.5)
	return err
}

// price is one that is checked.
type price struct{ Cents cents }

func (p *price) MarshalJSON() ([]byte, error) {
	if p.Cents == 0 {
		return nil, errors.New("no price")
	}
	return p.Cents.MarshalJSON()
}
func (p *price) UnmarshalJSON(b []byte) error { return p.Cents.UnmarshalJSON(b) }

// counter has a field that only its methods know.
type counter struct {
	Name string
	n    int
}

func (c *counter) MarshalJSON() ([]byte, error) { return json.Marshal([]any{c.Name, c.n}) }
func (c *counter) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]any{&c.Name, &c.n}) }

// interval has a text, and is read by its fields, with one that is computed.
type interval struct{ Low, High int }

func (i *interval) MarshalText() ([]byte, error) {
	return fmt.Appendf(nil, "%d-%d", i.Low, i.High), nil
}
func (i *interval) UnmarshalJSON(b []byte) error {
	type plain interval
	return json.Unmarshal(b, (*plain)(i))
}

// summed adds what is computed to its fields.
type summed struct{ A, B int8 }

func (s *summed) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]int{"A": int(s.A), "B": int(s.B), "Sum": int(s.A) + int(s.B)})
}

// grade is written by value and read by no method.
type grade int8

func (g grade) MarshalText() ([]byte, error) { return []byte(strings.Repeat("x", int(g))), nil }

// secret is encrypted, and so another text each time.
type secret string

func (s secret) MarshalJSON() ([]byte, error) { return json.Marshal(crand.Text() + ":" + string(s)) }
func (s *secret) UnmarshalJSON(b []byte) error {
	var text string
	err := json.Unmarshal(b, &text)
	_, after, _ := strings.Cut(text, ":")
	*s = secret(after)
	return err
}

// set is written by its pointer in the order of a Go map.
type set struct{ of map[string]bool }

func (s *set) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Collect(maps.Keys(s.of))) }
func (s *set) UnmarshalJSON(b []byte) error {
	var names []string
	err := json.Unmarshal(b, &names)
	if names != nil {
		s.of = make(map[string]bool)
	}
	for _, name := range names {
		s.of[name] = true
	}
	return err
}

// stamped adds another thing each time, and is read by its field.
type stamped struct{ N int8 }

func (s stamped) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"N": s.N, "At": crand.Text()})
}

// ident is read by float64, which has not every one.
type ident struct{ N int64 }

func (i *ident) UnmarshalJSON(b []byte) error {
	var m map[string]any
	err := json.Unmarshal(b, &m)
	n, _ := m["N"].(float64)
	i.N = int64(n)
	return err
}

// remark has a field that only its pointer's methods know, and is read by its fields too.
type remark struct {
	Name string
	more string
}

func (r *remark) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name string
		More string `json:",omitempty"`
	}{r.Name, r.more})
}
func (r *remark) UnmarshalJSON(b []byte) error {
	var fields struct{ Name, More string }
	err := json.Unmarshal(b, &fields)
	r.Name, r.more = fields.Name, fields.More
	return err
}

// Keys of minute have one text where they are in one minute.
type minute int

func (m minute) MarshalText() ([]byte, error) { return fmt.Append(nil, m/60*60), nil }
func (m *minute) UnmarshalText(b []byte) error {
	_, err := fmt.Sscan(string(b), (*int)(m))
	return err
}

// dated has a field in a form of its own, which only its pointer's methods write.
type dated struct {
	Name string
	At   int64 `json:"-"`
}

type datedJSON struct {
	Name string
	Day  int64
}

func (d *dated) MarshalJSON() ([]byte, error) { return json.Marshal(datedJSON{d.Name, d.At}) }
func (d *dated) UnmarshalJSON(b []byte) error {
	var fields datedJSON
	err := json.Unmarshal(b, &fields)
	*d = dated{fields.Name, fields.Day}
	return err
}

// circle adds a field that is computed, and needs none of it.
type circle struct{ R int8 }

func (c *circle) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"type": "circle", "R": c.R})
}
func (c *circle) UnmarshalJSON(b []byte) error {
	type plain circle
	return json.Unmarshal(b, (*plain)(c))
}

// event has what a decoder with UseNumber made.
type event struct{ Data any }

func (e *event) UnmarshalJSON(b []byte) error {
	type plain event
	return json.Unmarshal(b, (*plain)(e))
}

// view covers the way back of a person, and a map in which nothing has an address.
type (
	person struct {
		Name string
		Team []*person
		Sums map[string]big.Int
	}
	view struct {
		*person
		Team *struct{} `json:",omitempty"`
		Sums map[netip.Addr]int8
	}
	View struct {
		person
		Team *struct{}           `json:",omitempty"`
		By   map[netip.Addr]int8 `json:"Sums"`
	}
)

// history is written with the newest first, and wei has the methods of a pointer that a read does not make.
type history []string

func (h history) MarshalJSON() ([]byte, error) {
	newest := slices.Clone(h)
	slices.Reverse(newest)
	return json.Marshal([]string(newest))
}

type wei struct{ *big.Int }

// rank has a method of the name that encoding/json calls, and of other parameters.
type rank int

func (r rank) MarshalText() ([]byte, error) { return fmt.Append(nil, "rank ", int(r)), nil }
func (r *rank) UnmarshalText(string) error  { return nil }

// visit embeds by a name what no read makes.
type visit struct {
	*user `json:"user"`
	Page  string
}
type user struct{ Name string }

var odd = []Leaf{
	leaf(func(r *rand.Rand) history { return one(generator{Rand: r}, history{"a", "b"}, history{"a"}) }),
	leaf(func(r *rand.Rand) wei { return wei{big.NewInt(r.Int64N(3))} }),
	leaf(func(r *rand.Rand) rank { return rank(r.IntN(3)) }),
	leaf(func(r *rand.Rand) visit {
		return one(generator{Rand: r}, visit{Page: "/"}, visit{&user{"n"}, "/"})
	}),
	leaf(func(r *rand.Rand) map[string]dated { return map[string]dated{"a": {"n", r.Int64N(3)}} }),
	leaf(func(r *rand.Rand) []dated { return []dated{{"n", r.Int64N(3)}} }),
	leaf(func(r *rand.Rand) map[string]circle { return map[string]circle{"a": {int8(r.IntN(3))}} }),
	leaf(func(r *rand.Rand) circle { return circle{int8(r.IntN(3))} }),
	leaf(func(r *rand.Rand) event {
		return event{one[any](generator{Rand: r}, nil, json.Number("10.00"), json.Number("1e3"), 17, "a")}
	}),
	leaf(func(r *rand.Rand) view {
		p := &person{Name: "n"}
		p.Team = []*person{p}
		return one(generator{Rand: r}, view{}, view{person: p, Sums: map[netip.Addr]int8{netip.AddrFrom4([4]byte{10}): 1}})
	}),
	leaf(func(r *rand.Rand) View {
		return View{person: person{Name: one(generator{Rand: r}, "a", "b")}, By: map[netip.Addr]int8{netip.AddrFrom4([4]byte{10}): int8(r.IntN(3))}}
	}),
	leaf(func(r *rand.Rand) secret { return one(generator{Rand: r}, secret(""), "a", "4711") }),
	leaf(func(r *rand.Rand) set {
		return one(generator{Rand: r}, set{}, set{map[string]bool{"a": true, "b": true}}, set{map[string]bool{"a": true, "b": true, "c": true, "d": true}})
	}),
	leaf(func(r *rand.Rand) stamped { return stamped{int8(r.IntN(3))} }),
	leaf(func(r *rand.Rand) ident { return ident{one(generator{Rand: r}, 17, r.Int64())} }),
	leaf(func(r *rand.Rand) map[minute]secret {
		return map[minute]secret{60: "a", minute(60 + r.IntN(3)): "b", 180: "c"}
	}),
	leaf(func(r *rand.Rand) map[string]remark {
		return map[string]remark{"a": {"n", one(generator{Rand: r}, "", "more")}}
	}),
	{reflect.TypeFor[error](), func(r *rand.Rand) any { return errors.New("no route") }},
	leaf(func(r *rand.Rand) cents { return cents(r.IntN(1000)) }),
	leaf(func(r *rand.Rand) price { return price{cents(r.IntN(1000))} }),
	leaf(func(r *rand.Rand) counter { return counter{"c", r.IntN(3)} }),
	leaf(func(r *rand.Rand) interval { return interval{r.IntN(3), r.IntN(3)} }),
	leaf(func(r *rand.Rand) summed { return summed{int8(r.IntN(3)), int8(r.IntN(3))} }),
	leaf(func(r *rand.Rand) grade { return grade(r.IntN(3)) }),
	leaf(func(r *rand.Rand) map[netip.Addr]cents {
		return map[netip.Addr]cents{netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(9))}): 150}
	}),
	leaf(func(r *rand.Rand) func() { return one[func()](generator{Rand: r}, nil, func() {}) }),
	leaf(func(r *rand.Rand) big.Float { return *big.NewFloat(float64(r.IntN(9))) }),
}

// What the drivers' JSON stores of types that encode themselves is read back, and it refuses no value of which any
// form is read back.
func TestJSONKeepsOrRefuses(t *testing.T) {
	const cases = 10_000
	kept, refused, types := 0, 0, 0
	for seed := range uint64(cases) {
		g := generator{rand.New(rand.NewPCG(seed, 7)), &Shape{Tag: "json", Flags: []string{"omitempty", "omitzero", "string"}, Leaves: append(odd, JSON...)}}
		typ := g.top()
		v := g.value(typ, 0)
		if v.Kind() == reflect.Interface || ambiguous(typ, nil) {
			continue // its value's type is a case of its own; encoding/json leaves fields of one name out
		}
		sound := false
		for _, given := range []any{v.Interface(), Addressed(v.Interface())} {
			into := reflect.New(typ)
			if b, err := json.Marshal(given); err == nil && utf8.Valid(b) && decode(b, into.Interface()) == nil {
				sound = sound || reflect.DeepEqual(into.Elem().Interface(), v.Interface())
			}
		}
		b, err := kit.JSON{}.Encode(v.Interface())
		if err == nil {
			kept++
			into := reflect.New(typ)
			if err := decode(b, into.Interface()); err != nil {
				t.Errorf("case %d: %v %+v is stored as %s, and no read decodes it: %v", seed, typ, v, b, err)
			} else if replaced(v, into.Elem()) {
				t.Errorf("case %d: %v %+v is stored as %s, which has another text", seed, typ, v, b)
			} else if lost := differs(v, into.Elem()); lost != nil {
				t.Errorf("case %d: %v %+v is stored as %s, which loses a %v", seed, typ, v, b, lost)
			}
		} else if invalid, ok := errors.AsType[*driver.InvalidError](err); ok && invalid.Field == "T" {
			if types++; !inMap(typ, false) {
				t.Errorf("case %d: %v is refused: %v", seed, typ, err)
			}
		} else if sound {
			t.Errorf("case %d: %v %+v is refused, and would be read back: %v", seed, typ, v, err)
		} else if errors.Is(err, driver.ErrInvalid) {
			refused++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of %d values were kept and %d refused, and %d for their types", kept, cases, refused, types)
	if kept < cases/2 || refused < cases/100 || types < cases/100 {
		t.Errorf("%d were kept and %d refused, and %d for their types", kept, refused, types)
	}
}

// decode decodes b, or tells how encoding/json panics.
func decode(b []byte, into any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return json.Unmarshal(b, into)
}

// inMap reports whether a t has a part in a map that only its pointer encodes. in: it is itself in one.
func inMap(t reflect.Type, in bool) bool {
	encodes := reflect.TypeFor[json.Marshaler]()
	text := reflect.TypeFor[encoding.TextMarshaler]()
	p := reflect.PointerTo(t)
	switch value := t.Implements(encodes) || t.Implements(text); {
	case t.Kind() == reflect.Interface || value:
		return false
	case p.Implements(encodes) || p.Implements(text):
		return in
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		return t != reflect.TypeFor[*node]() && inMap(t.Elem(), false)
	case reflect.Map:
		return inMap(t.Elem(), true)
	case reflect.Array:
		return inMap(t.Elem(), in)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); !covers(t) && f.Tag.Get("json") != "-" && inMap(f.Type, in) {
				return true
			}
		}
	}
	return false
}

// covers reports whether a t has a field of the same name as one that it embeds, and means it.
func covers(t reflect.Type) bool {
	return t == reflect.TypeFor[view]() || t == reflect.TypeFor[View]()
}

// ambiguous reports whether two fields of a struct have one name. in has those of the struct around an embedded one.
func ambiguous(t reflect.Type, in map[string]bool) bool {
	if covers(t) {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return ambiguous(t.Elem(), in)
	case reflect.Struct:
		if in == nil {
			in = make(map[string]bool)
		}
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Anonymous && name == "" && f.Type != t {
				if ambiguous(f.Type, in) {
					return true
				}
				continue
			}
			if name == "" {
				name = f.Name
			}
			name = strings.ToLower(name) // as its decoder does
			if in[name] || f.Type != reflect.TypeFor[*node]() && ambiguous(f.Type, nil) {
				return true
			}
			in[name] = true
		}
	}
	return false
}

// differs returns the type of an odd part in which a and b differ.
func differs(a, b reflect.Value) reflect.Type {
	for _, l := range odd {
		if a.Type() == l.Type {
			switch {
			case a.Kind() == reflect.Func && a.IsNil() && b.IsNil():
			case a.Type() == reflect.TypeFor[big.Float]():
				x, y := a.Interface().(big.Float), b.Interface().(big.Float)
				if x.Cmp(&y) != 0 {
					return a.Type()
				}
			case a.Type() == reflect.TypeFor[event]():
				x, _ := json.Marshal(a.Interface())
				y, _ := json.Marshal(b.Interface())
				if strings.NewReplacer("10.00", "10", "1e3", "1000").Replace(string(x)) != string(y) {
					return a.Type()
				}
			case a.Type() == reflect.TypeFor[view]():
				if x, y := a.Interface().(view), b.Interface().(view); !maps.Equal(x.Sums, y.Sums) || (x.person == nil) != (y.person == nil) {
					return a.Type()
				}
			case !reflect.DeepEqual(a.Interface(), b.Interface()):
				return a.Type()
			}
			return nil
		}
	}
	switch a.Kind() {
	case reflect.String:
		if s := a.String(); s != b.String() && !utf8.ValidString(s) {
			return a.Type()
		}
	case reflect.Interface:
		if a.Type() != anyType || a.IsNil() || b.IsNil() {
			break
		}
		if a, b = a.Elem(), b.Elem(); a.Type() == b.Type() {
			return differs(a, b)
		}
		var want any
		text, _ := json.Marshal(Addressed(a.Interface()))
		again, _ := json.Marshal(Addressed(a.Interface()))
		varies := a.Type() == reflect.TypeFor[set]() || !slices.Equal(text, again)
		if json.Unmarshal(text, &want) == nil && !varies && !reflect.DeepEqual(want, b.Interface()) {
			return a.Type()
		}
	case reflect.Pointer:
		if !a.IsNil() && !b.IsNil() {
			return differs(a.Elem(), b.Elem())
		}
	case reflect.Slice, reflect.Array:
		for i := range min(a.Len(), b.Len()) {
			if lost := differs(a.Index(i), b.Index(i)); lost != nil {
				return lost
			}
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); v.IsValid() {
				if lost := differs(a.MapIndex(k), v); lost != nil {
					return lost
				}
			}
		}
	case reflect.Struct:
		for i := range a.NumField() {
			if f := a.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" {
				if lost := differs(a.Field(i), b.Field(i)); lost != nil {
					return lost
				}
			}
		}
	}
	return nil
}
