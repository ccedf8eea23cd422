package anyvalue

import (
	crand "crypto/rand"
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

var odd = []Leaf{
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
	kept, refused := 0, 0
	for seed := range uint64(cases) {
		g := generator{rand.New(rand.NewPCG(seed, 7)), &Shape{Tag: "json", Flags: []string{"omitempty", "string"}, Leaves: append(odd, JSON...)}}
		typ := g.top()
		v := g.value(typ, 0)
		if v.Kind() == reflect.Interface || ambiguous(typ, nil) {
			continue // its value's type is a case of its own; encoding/json leaves fields of one name out
		}
		sound := false
		for _, given := range []any{v.Interface(), Addressed(v.Interface())} {
			into := reflect.New(typ)
			if b, err := json.Marshal(given); err == nil && json.Unmarshal(b, into.Interface()) == nil {
				sound = sound || reflect.DeepEqual(into.Elem().Interface(), v.Interface())
			}
		}
		b, err := kit.JSON{}.Encode(v.Interface())
		if err == nil {
			kept++
			into := reflect.New(typ)
			if err := json.Unmarshal(b, into.Interface()); err != nil {
				t.Errorf("case %d: %v %+v is stored as %s, and no read decodes it: %v", seed, typ, v, b, err)
			} else if lost := differs(v, into.Elem()); lost != nil {
				t.Errorf("case %d: %v %+v is stored as %s, which loses a %v", seed, typ, v, b, lost)
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
	t.Logf("%d of %d values were kept and %d refused", kept, cases, refused)
	if kept < cases/2 || refused < cases/100 {
		t.Errorf("%d were kept and %d refused", kept, refused)
	}
}

// ambiguous reports whether two fields of a struct have one name. in has those of the struct around an embedded one.
func ambiguous(t reflect.Type, in map[string]bool) bool {
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
			case !reflect.DeepEqual(a.Interface(), b.Interface()):
				return a.Type()
			}
			return nil
		}
	}
	switch a.Kind() {
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
