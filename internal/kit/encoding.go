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
	Keys   []string                     // methods that write or read a map's key
	Native func(reflect.Type) bool      // what it stores by itself; nil: none
	Lost   []reflect.Kind               // what it leaves out
	Encode func(v any) (any, error)
	Decode func(encoded, into any) error

	types sync.Map // what doubt is known of each
}

// Given returns what the encoder is given for v: a pointer to a copy of it, or v itself.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. What becomes of a value whose parts have such methods, or methods that do not fit each
// other, its type does not tell. So it is tried: Given returns what is encoded, decoded, and encoded the same again, or an
// *InvalidError. A part that says less of itself wherever it has an address, or that an interface holds, is taken at
// its word. loose: a read decodes into another type, and nothing is refused.
func (e *Encoding) Given(v any, loose bool) (any, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return v, nil
	}
	doubt := e.doubtOf(t)
	if doubt.of == "" {
		return v, nil
	}
	if t.Kind() != reflect.Pointer {
		p := reflect.New(t)
		p.Elem().Set(reflect.ValueOf(v))
		address := p.Interface()
		if kept, _ := e.keeps(t, address, true, doubt.less); kept || loose {
			return address, nil
		}
	}
	if kept, encodes := e.keeps(t, v, false, false); kept || !encodes || loose { // whose error tells more
		return v, nil
	}
	return nil, &driver.InvalidError{
		Field: "value", Value: fmt.Sprintf("a %T", v),
		Rule: "must be read back as it is, and is not: look at how " + doubt.of + " encodes and decodes itself, and hold by pointer what only its pointer encodes",
	}
}

// keeps reports whether v, a t or its address, is encoded, and whether what is read of that is encoded the same again;
// without its address too, if less is encoded with it. A panic is one of the value's methods.
func (e *Encoding) keeps(t reflect.Type, v any, byAddress, less bool) (kept, encodes bool) {
	defer func() { _ = recover() }()
	was, err := e.Encode(v)
	if err != nil {
		return false, false
	}
	encodes = true
	read := reflect.New(t)
	if e.Decode(was, read.Interface()) != nil {
		return false, encodes
	}
	again := read.Interface()
	if !byAddress {
		again = read.Elem().Interface()
	}
	kept = e.encodedAs(again, was)
	if kept && less {
		whole, err := e.Encode(reflect.ValueOf(v).Elem().Interface())
		kept = err != nil || e.encodedAs(read.Elem().Interface(), whole)
	}
	return kept, encodes
}

// encodedAs reports whether v is encoded as was, for who reads it without its type.
func (e *Encoding) encodedAs(v, was any) bool {
	is, err := e.Encode(v)
	if err != nil {
		return false
	}
	if reflect.DeepEqual(is, was) {
		return true
	}
	var a, b any
	return e.Decode(is, &a) == nil && e.Decode(was, &b) == nil && reflect.DeepEqual(withoutNil(a), withoutNil(b))
}

// withoutNil takes out of v the fields that hold nothing, which are not always written again.
func withoutNil(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, in := range v {
			if v[name] = withoutNil(in); in == nil {
				delete(v, name)
			}
		}
	case []any:
		for i, in := range v {
			v[i] = withoutNil(in)
		}
	}
	return v
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
	of   string // such parts; empty: none
	less bool   // one may encode less with its address than without
	lost error  // of Check
}

// Check returns an *InvalidError for a t of which a part is never kept.
func (e *Encoding) Check(t reflect.Type) error { return e.doubtOf(t).lost }

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
	lost := func(format string, args ...any) {
		found.lost = &driver.InvalidError{Field: "T", Value: t.String(), Rule: fmt.Sprintf(format, args...)}
	}
	var walk func(reflect.Type, place)
	walk = func(t reflect.Type, at place) {
		if visited[visit{t, at}] {
			return
		}
		visited[visit{t, at}] = true
		if e.native(t) {
			return
		}
		if k := t.Kind(); k != reflect.Pointer && k != reflect.Interface { // which have the methods of what they hold
			byValue, byPointer, decoded := e.first(t)
			paired := byPointer >= 0 && byPointer == decoded
			if paired && (byValue == byPointer || at == always) {
				return
			}
			if byPointer >= 0 || decoded >= 0 {
				of = append(of, t.String())
				found.less = found.less || !paired && byPointer != byValue
			}
			switch {
			case paired && byValue < 0 && at == never && hides(t):
				lost("must hold %v by pointer, since only its pointer encodes itself, and nothing in a map has an address", t)
			case byPointer < 0 && isOpaque(t) && isText(t):
				lost("must not hold %v, which has no exported field, and encodes itself only for others", t)
			}
			if byPointer >= 0 && byValue == byPointer {
				return
			}
		}
		if slices.Contains(e.Lost, t.Kind()) {
			lost("must not hold %v, which is not encoded", t)
		}
		switch t.Kind() {
		case reflect.Array:
			walk(t.Elem(), at)
		case reflect.Pointer, reflect.Slice:
			walk(t.Elem(), always)
		case reflect.Map:
			if e.oddKey(t.Key()) {
				of = append(of, t.Key().String())
			}
			walk(t.Elem(), never)
		case reflect.Struct:
			for i := range t.NumField() {
				f := t.Field(i)
				if !e.holds(f) {
					continue
				}
				if f.Anonymous && f.Tag == "" && e.native(f.Type) {
					lost("must give %v a name, or a tag with one: of an embedded struct the fields are encoded", f.Type)
				}
				of = append(of, e.oddField(f)...)
				walk(f.Type, at)
			}
		}
	}
	walk(t, asked)
	slices.Sort(of)
	found.of = strings.Join(slices.Compact(of), ", ")
	e.types.Store(t, found)
	return found
}

func (e *Encoding) native(t reflect.Type) bool { return e.Native != nil && e.Native(t) }

// oddKey reports whether a key may be read as another than it was written as.
func (e *Encoding) oddKey(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Struct, reflect.Array:
		return true
	}
	return slices.ContainsFunc(e.Keys, func(name string) bool { return has(reflect.PointerTo(t), name) })
}

// oddField returns the type of a field that no decoder sets, or that is quoted and may not be read so by its methods.
func (e *Encoding) oddField(f reflect.StructField) []string {
	t := f.Type
	if t.Kind() == reflect.Pointer {
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

// hides reports whether t is a struct with fields that are not exported.
func hides(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return !f.IsExported() && !f.Anonymous })
}

// isText reports whether a t has a form that some encoder takes.
func isText(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return has(p, "MarshalText") || has(p, "MarshalJSON") || has(p, "MarshalBinary")
}

func has(t reflect.Type, method string) bool {
	_, ok := t.MethodByName(method)
	return ok
}

// first returns which of the pairs encode a t without and with its address, and decode it; -1: none.
func (e *Encoding) first(t reflect.Type) (byValue, byPointer, decoded int) {
	byValue, byPointer, decoded = -1, -1, -1
	p := reflect.PointerTo(t)
	for i, m := range slices.Backward(e.Pairs) {
		if has(t, m.Encode) {
			byValue = i
		}
		if has(p, m.Encode) {
			byPointer = i
		}
		if has(p, m.Decode) {
			decoded = i
		}
	}
	return byValue, byPointer, decoded
}
