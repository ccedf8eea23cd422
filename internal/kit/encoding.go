package kit

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Methods are the names of two methods by which values encode and decode themselves.
type Methods struct{ Encode, Decode string }

// Encoding is an encoder with its decoder.
type Encoding struct {
	Omits  func(reflect.StructTag) bool // says that a field is left out
	Pairs  []Methods                    // the first that a value has counts
	Native []reflect.Type               // what it keeps though it has no field, and no such method
	Encode func(v any) (any, error)
	Decode func(encoded, into any) error

	types sync.Map // what doubt is known of each
}

// Given returns what the encoder is given for v: a pointer to a copy of it, or v itself.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. What becomes of a value whose parts have such methods, or methods that do not fit each
// other, or no field, its type does not tell. So it is tried: Given returns what is read back as v is, or an
// *InvalidError. What an interface holds it does not see.
func (e *Encoding) Given(v any) (any, error) {
	t := reflect.TypeOf(v)
	if t == nil || e.doubtOf(t).of == "" {
		return v, nil
	}
	value := reflect.New(t)
	value.Elem().Set(reflect.ValueOf(v))
	if t.Kind() != reflect.Pointer {
		if kept, _ := e.keeps(value.Interface(), value.Elem()); kept {
			return value.Interface(), nil
		}
	}
	if kept, encodes := e.keeps(v, value.Elem()); kept || !encodes { // whose error tells more
		return v, nil
	}
	return nil, &driver.InvalidError{
		Field: "value", Value: fmt.Sprintf("a %T", v),
		Rule: "must be read back as it is, and is not: look at how " + e.doubtOf(t).of + " encodes and decodes itself, and hold by pointer what only its pointer encodes",
	}
}

// keeps reports whether given is encoded, and whether v is read back from that. A panic is one of the value's methods.
func (e *Encoding) keeps(given any, v reflect.Value) (kept, encodes bool) {
	defer func() { _ = recover() }()
	encoded, err := e.Encode(given)
	if err != nil {
		return false, false
	}
	encodes = true
	read := reflect.New(v.Type())
	kept = e.Decode(encoded, read.Interface()) == nil && e.same(v, read.Elem())
	return kept, encodes
}

// same reports whether a and b have the same in all that is encoded. What encodes and decodes itself says itself what
// that is.
func (e *Encoding) same(a, b reflect.Value) bool {
	t := a.Type()
	if slices.Contains(e.Native, t) {
		return true
	}
	if t.Kind() != reflect.Pointer && t.Kind() != reflect.Interface {
		if _, byPointer, decoded := e.first(t); byPointer >= 0 && byPointer == decoded {
			return e.sameEncoded(a.Addr(), b.Addr()) || reflect.DeepEqual(a.Interface(), b.Interface())
		}
	}
	switch t.Kind() {
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil() || e.sameEncoded(a, b)
		}
		return a.Pointer() == b.Pointer() || e.same(a.Elem(), b.Elem())
	case reflect.Interface: // decoded by its content, or into another type
		return true
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !e.same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.Len() != b.Len() {
			return false
		}
		for key, in := range a.Seq2() {
			other := b.MapIndex(key)
			if !other.IsValid() || !e.same(addressable(in), addressable(other)) {
				return false
			}
		}
		return true
	case reflect.Struct:
		if isOpaque(t) {
			return reflect.DeepEqual(a.Interface(), b.Interface())
		}
		for i := range t.NumField() {
			if e.holds(t.Field(i)) && !e.same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return a.IsNil() && b.IsNil()
	}
	return a.Equal(b)
}

func (e *Encoding) sameEncoded(a, b reflect.Value) bool {
	x, err := e.Encode(a.Interface())
	y, err2 := e.Encode(b.Interface())
	return err == nil && err2 == nil && reflect.DeepEqual(x, y)
}

func addressable(v reflect.Value) reflect.Value {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Elem()
}

// holds reports whether an encoder looks into a field.
func (e *Encoding) holds(f reflect.StructField) bool {
	t := f.Type
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return (f.IsExported() || f.Anonymous && t.Kind() == reflect.Struct) && !e.Omits(f.Tag)
}

// doubt is what a type does not tell of the values that are read back.
type doubt struct {
	of   string       // such parts; empty: none
	lost reflect.Type // one of which nothing is ever encoded; nil: none
}

// Check returns an *InvalidError for a t in which nothing is kept of a part, whatever its value.
func (e *Encoding) Check(t reflect.Type) error {
	if lost := e.doubtOf(t).lost; lost != nil {
		return &driver.InvalidError{
			Field: "T", Value: t.String(),
			Rule: fmt.Sprintf("must hold %v by pointer, since only its pointer encodes itself, and nothing in a map has an address", lost),
		}
	}
	return nil
}

// place is whether an encoder can address a part.
type place int

const (
	asked  place = iota // if it is given a pointer to the whole
	always              // behind a pointer, in a slice
	never               // in a map
)

// doubtOf walks t as the encoder does.
func (e *Encoding) doubtOf(t reflect.Type) doubt {
	if known, ok := e.types.Load(t); ok {
		return known.(doubt)
	}
	type visit struct {
		reflect.Type
		place
	}
	visited := make(map[visit]bool)
	var found doubt
	var of []string
	var walk func(reflect.Type, place)
	walk = func(t reflect.Type, at place) {
		if visited[visit{t, at}] {
			return
		}
		visited[visit{t, at}] = true
		if slices.Contains(e.Native, t) {
			return
		}
		if k := t.Kind(); k != reflect.Pointer && k != reflect.Interface { // which have the methods of what they hold
			byValue, byPointer, decoded := e.first(t)
			paired := byPointer >= 0 && byPointer == decoded
			if paired && (byValue == byPointer || at == always) {
				return
			}
			if byPointer >= 0 || decoded >= 0 || isOpaque(t) {
				of = append(of, t.String())
			}
			if paired && byValue < 0 && at == never && isOpaque(t) {
				found.lost = t
			}
			if byPointer >= 0 && byValue == byPointer {
				return
			}
		}
		switch t.Kind() {
		case reflect.Complex64, reflect.Complex128, reflect.Uintptr, reflect.Func, reflect.Chan, reflect.UnsafePointer:
			of = append(of, t.String())
		case reflect.Array:
			walk(t.Elem(), at)
		case reflect.Pointer, reflect.Slice:
			walk(t.Elem(), always)
		case reflect.Map:
			if reflect.PointerTo(t.Key()).NumMethod() > 0 {
				of = append(of, t.Key().String())
			}
			walk(t.Elem(), never)
		case reflect.Struct:
			for i := range t.NumField() {
				if f := t.Field(i); e.holds(f) {
					of = append(of, e.oddField(f)...)
					walk(f.Type, at)
				}
			}
		}
	}
	walk(t, asked)
	slices.Sort(of)
	found.of = strings.Join(slices.Compact(of), ", ")
	e.types.Store(t, found)
	return found
}

// oddField returns the type of a field that no decoder sets, or that is quoted and may not be read so by its methods.
func (e *Encoding) oddField(f reflect.StructField) []string {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	_, encoded, decoded := e.first(t)
	if t != f.Type && !f.IsExported() || max(encoded, decoded) >= 0 && strings.Contains(string(f.Tag), ",string") {
		return []string{t.String()}
	}
	return nil
}

// isOpaque reports whether t is a struct of which no field is encoded.
func isOpaque(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.NumField() > 0 && !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() })
}

// first returns which of the pairs encode a t without and with its address, and decode it; -1: none.
func (e *Encoding) first(t reflect.Type) (byValue, byPointer, decoded int) {
	byValue, byPointer, decoded = -1, -1, -1
	p := reflect.PointerTo(t)
	for i, m := range slices.Backward(e.Pairs) {
		if _, ok := t.MethodByName(m.Encode); ok {
			byValue = i
		}
		if _, ok := p.MethodByName(m.Encode); ok {
			byPointer = i
		}
		if _, ok := p.MethodByName(m.Decode); ok {
			decoded = i
		}
	}
	return byValue, byPointer, decoded
}
