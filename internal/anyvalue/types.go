package anyvalue

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Shape says which types of values a codec's cases have.
type Shape struct {
	// Tag is the struct tag that names fields, and Flags are the options it can have.
	Tag   string
	Flags []string

	// Own are the names that the driver writes beside a value's. Types have fields of these
	// names, and of those that differ in case alone.
	Own []string

	// Leaves are types that the codec knows, beside Go's own.
	Leaves []Leaf

	// Tops are the types of whole values, each drawn anew. Empty: one for a case, mostly a struct.
	Tops []reflect.Type
}

// Leaf is a type whose values have a generator of their own.
type Leaf struct {
	Type  reflect.Type
	Value func(*rand.Rand) any
}

func leaf[T any](f func(*rand.Rand) T) Leaf {
	return Leaf{reflect.TypeFor[T](), func(r *rand.Rand) any { return f(r) }}
}

// generator makes the types and values of one case.
type generator struct {
	*rand.Rand
	shape *Shape
}

// one returns one of several.
func one[E any](g generator, of ...E) E { return of[g.IntN(len(of))] }

// chance is true n times in a hundred.
func (g generator) chance(n int) bool { return g.IntN(100) < n }

var (
	anyType = reflect.TypeFor[any]()
	basics  = []reflect.Type{
		reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[[]byte](), reflect.TypeFor[float32](), reflect.TypeFor[float64](),
		reflect.TypeFor[int](), reflect.TypeFor[int8](), reflect.TypeFor[int16](), reflect.TypeFor[int32](), reflect.TypeFor[int64](),
		reflect.TypeFor[uint8](), reflect.TypeFor[uint16](), reflect.TypeFor[uint32](), reflect.TypeFor[uint64](),
	}
	leaves = []Leaf{
		leaf(func(r *rand.Rand) time.Time { return time.Unix(r.Int64N(1<<33), r.Int64N(1e9)).UTC() }),
		leaf(func(r *rand.Rand) *node { return chain(r.IntN(3)) }),
		leaf(func(r *rand.Rand) raw { return raw(text(generator{Rand: r})) }),
	}

	// JSON are leaves of encoding/json.
	JSON = []Leaf{
		leaf(func(r *rand.Rand) json.Number { return json.Number(number(generator{Rand: r})) }),
		leaf(func(r *rand.Rand) json.RawMessage {
			return json.RawMessage(one(generator{Rand: r}, `null`, `[]`, ` {"a" : [1]} `, `"<&>"`, `1e2`, `"\ufffd"`, "\"\xff\""))
		}),
		leaf(func(r *rand.Rand) badge { return badge{bytes(r)} }),
		leaf(func(r *rand.Rand) map[badge]int8 { return map[badge]int8{{"a"}: 1, {bytes(r)}: 2} }),
		leaf(func(r *rand.Rand) memo { return memo{bytes(r)} }),
		leaf(func(r *rand.Rand) note { return note{bytes(r)} }),
		leaf(func(r *rand.Rand) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(256))}) }),
		leaf(func(r *rand.Rand) big.Int { return *big.NewInt(r.Int64()) }),
		leaf(func(r *rand.Rand) *big.Int { return new(big.Int).Exp(big.NewInt(7), big.NewInt(r.Int64N(40)), nil) }),
	}
)

// badge, memo and note are texts that encode themselves.
type (
	badge struct{ text string }
	memo  struct{ text string }
	note  struct{ text string }
)

func (b badge) MarshalText() ([]byte, error)     { return []byte(b.text), nil }
func (b *badge) UnmarshalText(text []byte) error { b.text = string(text); return nil }
func (m *memo) MarshalJSON() ([]byte, error)     { return []byte(`"` + m.text + `"`), nil }
func (m *memo) UnmarshalJSON(b []byte) error     { return json.Unmarshal(b, &m.text) }
func (n note) MarshalJSON() ([]byte, error)      { return json.Marshal([]string{n.text}) }
func (n *note) UnmarshalJSON(b []byte) error     { return json.Unmarshal(b, &[]*string{&n.text}) }

// bytes are a text that may not be UTF-8.
func bytes(r *rand.Rand) string {
	return one(generator{Rand: r}, "", "text", "é🙂", "\ufffd", "\xff", "a\xc3")
}

// node is a type that has itself as a field.
type node struct {
	N    int8
	Next *node `json:",omitempty" dynamodbav:",omitempty"`
}

func chain(n int) *node {
	if n == 0 {
		return nil
	}
	return &node{N: int8(n), Next: chain(n - 1)}
}

// raw is a named type of bytes.
type raw []byte

// top returns the type of a whole value.
func (g generator) top() reflect.Type {
	switch {
	case len(g.shape.Tops) > 0:
		return one(g, g.shape.Tops...)
	case g.chance(75):
		t := g.structOf(0, len(g.shape.Own) > 0)
		if g.chance(10) {
			return reflect.PointerTo(t)
		}
		return t
	}
	return one(g, anyType, reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string]string](), reflect.TypeFor[[]any](), reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[*bool]())
}

// field returns the type of a field at a depth.
func (g generator) field(depth int) reflect.Type {
	if depth > 3 {
		return one(g, basics...)
	}
	switch n := g.IntN(100); {
	case n < 45:
		return one(g, basics...)
	case n < 60:
		return one(g, append(leaves, g.shape.Leaves...)...).Type
	case n < 67:
		return reflect.SliceOf(g.field(depth + 1))
	case n < 70:
		return reflect.ArrayOf(g.IntN(3), g.field(depth+1))
	case n < 77:
		return reflect.MapOf(one(g, reflect.TypeFor[string](), reflect.TypeFor[string](), reflect.TypeFor[int8]()), g.field(depth+1))
	case n < 85:
		return reflect.PointerTo(g.field(depth + 1))
	case n < 92:
		return anyType
	}
	return g.structOf(depth+1, len(g.shape.Own) > 0)
}

// structOf returns a struct, perhaps with fields of the driver's names.
func (g generator) structOf(depth int, own bool) reflect.Type {
	fields := make([]reflect.StructField, g.IntN(6))
	used := make(map[string]bool)
	for i := range fields {
		f := &fields[i]
		f.Name = fmt.Sprintf("F%d", i)
		f.Type = g.field(depth)
		name := one(g, "", "", "name", "Name", "NAME", "a_b", "é")
		if own && g.chance(15-10*min(depth, 1)) {
			name = g.cased(one(g, g.shape.Own...))
			if g.chance(50) {
				f.Type = one(g, reflect.TypeFor[string](), reflect.TypeFor[int64](), reflect.TypeFor[time.Time](), anyType, reflect.TypeFor[*string]())
			}
			if g.chance(40) && identifier(name) && !used[name] {
				f.Name, name = name, ""
			}
		} else if depth < 2 && g.chance(8) {
			// A read makes a struct of a nil pointer if a field in it is the driver's.
			pointer := g.chance(30)
			f.Type, f.Anonymous = g.structOf(depth, own && !pointer), true
			if pointer {
				f.Type = reflect.PointerTo(f.Type)
			}
			continue
		}
		used[f.Name] = true
		if g.chance(5) {
			name = "-"
		}
		if g.chance(30) {
			name += "," + one(g, g.shape.Flags...)
		}
		if name != "" {
			f.Tag = reflect.StructTag(fmt.Sprintf("%s:%q", g.shape.Tag, name))
		}
	}
	return reflect.StructOf(fields)
}

// cased returns name, or one that differs in case alone.
func (g generator) cased(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	return one(g, name, strings.ToUpper(name), string(unicode.ToUpper(first))+name[size:])
}

// identifier reports whether an exported field can have the name.
func identifier(name string) bool {
	first, _ := utf8.DecodeRuneInString(name)
	return unicode.IsUpper(first) && strings.Trim(strings.ToUpper(name), "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}

// collides reports whether a type has a field of one of the names, or of one that differs in case alone.
func collides(t reflect.Type, tag string, own []string) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return t.Kind() == reflect.Map && t.Elem().Kind() != reflect.Interface // cannot hold all kinds
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if name == "" {
			name = f.Name
		}
		for _, o := range own {
			if strings.EqualFold(name, o) {
				return true
			}
		}
		if f.Anonymous && collides(f.Type, tag, own) {
			return true
		}
	}
	return false
}

// value returns a value of a type.
func (g generator) value(t reflect.Type, depth int) reflect.Value {
	v := reflect.New(t).Elem()
	if g.chance(15) {
		return v // the zero value, nil where there is one
	}
	for _, l := range append(leaves, g.shape.Leaves...) {
		if l.Type == t {
			v.Set(reflect.ValueOf(l.Value(g.Rand)))
			return v
		}
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(text(g))
	case reflect.Float32, reflect.Float64:
		most := math.MaxFloat64
		if t.Kind() == reflect.Float32 {
			most = math.MaxFloat32
		}
		if g.chance(3) {
			most = one(g, math.Inf(1), math.NaN())
		}
		v.SetFloat(one(g, 1, -1.5, 0.1, 1e20, most, -most, math.SmallestNonzeroFloat32, math.Copysign(0, -1), g.NormFloat64()))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		least := int64(-1) << (t.Bits() - 1)
		v.SetInt(int64(g.IntN(256) - 128))
		if g.chance(20) {
			v.SetInt(one(g, least, -least-1, least+g.Int64N(1<<7)))
		}
	case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		most := uint64(1)<<(t.Bits()-1)*2 - 1
		v.SetUint(uint64(g.IntN(256)))
		if g.chance(20) {
			v.SetUint(one(g, most, most-uint64(g.IntN(200)), most/2+1))
		}
	case reflect.Slice:
		n := g.IntN(4)
		v.Set(reflect.MakeSlice(t, n, n))
		for i := range n {
			v.Index(i).Set(g.value(t.Elem(), depth+1))
		}
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).Set(g.value(t.Elem(), depth+1))
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		for range g.IntN(4) {
			key := g.value(t.Key(), depth+1)
			if t.Key().Kind() == reflect.String {
				key.SetString(g.name())
			}
			v.SetMapIndex(key, g.value(t.Elem(), depth+1))
		}
	case reflect.Pointer:
		p := reflect.New(t.Elem())
		p.Elem().Set(g.value(t.Elem(), depth+1))
		v.Set(p)
	case reflect.Struct:
		for i := range v.NumField() {
			v.Field(i).Set(g.value(t.Field(i).Type, depth+1))
		}
	case reflect.Interface:
		if dynamic := g.dynamic(depth); dynamic != nil {
			v.Set(reflect.ValueOf(dynamic))
		}
	}
	return v
}

// dynamic returns a value for an any.
func (g generator) dynamic(depth int) any {
	if g.chance(10) {
		return one(g, append(leaves, g.shape.Leaves...)...).Value(g.Rand)
	}
	kinds := []reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[string](), reflect.TypeFor[float64](), reflect.TypeFor[int64](), reflect.TypeFor[[]byte]()}
	if depth < 4 {
		kinds = append(kinds, reflect.TypeFor[[]any](), reflect.TypeFor[map[string]any](), reflect.TypeFor[map[string]any]())
	}
	return g.value(one(g, kinds...), depth+1).Interface()
}

// name returns a key of a map.
func (g generator) name() string {
	if len(g.shape.Own) > 0 && g.chance(30) {
		return g.cased(one(g, g.shape.Own...))
	}
	return one(g, "a", "b", "A", "a.b", "a[0]", "é", "🙂", `q"\`, " ", "$", "_x", "", strings.Repeat("n", 300))
}

// text returns a string.
func text(g generator) string {
	switch g.IntN(8) {
	case 0:
		return one(g, "", "\x00", "\xff\xfe", "<&>\u2028", "🙂", "\ud7ff\ufffd", "null", `{"a":1}`, "2026-01-01T00:00:00Z", "1")
	case 1:
		return strings.Repeat("long ", 100+g.IntN(1000))
	}
	return fmt.Sprintf("text %d", g.IntN(1000))
}

// number returns a number in decimal digits.
func number(g generator) string {
	return one(g, "0", "-0", "1", "17", "-1.50", "1e3", "0.1", one(g, "1E-130", "9007199254740993", "18446744073709551615", "123456789012345678901234567890123456789", "1e400"))
}
