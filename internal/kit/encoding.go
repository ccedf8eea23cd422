package kit

import (
	"fmt"
	"iter"
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
	Name   func(reflect.StructTag) (name string, omits bool) // what a tag calls its field, empty: nothing, and whether it leaves it out
	Pairs  []Methods                                         // the first that a value has counts
	Keys   []string                                          // methods that write or read a map's key
	Native func(reflect.Type) bool                           // what it stores by itself, unless that has one of Pairs; nil: none
	Lost   []reflect.Kind                                    // what it leaves out
	Loops  bool                                              // what holds itself it follows for ever
	Encode func(v any) (any, error)
	Decode func(encoded, into any) error

	// Tree returns what is encoded as who reads it without its type sees it: map[string]any, []any, and numbers by
	// their digits.
	Tree func(encoded any) (any, error)

	types sync.Map // what doubt is known of each
}

// Given returns what the encoder is given for v: a pointer to a copy of it, or v itself.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. What becomes of a value whose parts have such methods, or methods that do not fit each
// other, its type does not tell. So it is tried: Given returns what is encoded, decoded, and encoded the same again, or an
// *InvalidError. A part that says less of itself wherever it has an address, that says another thing each time, or that an
// interface holds, is taken at its word. loose: a read decodes into another type, and nothing is refused.
func (e *Encoding) Given(v any, loose bool) (any, error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return v, nil
	}
	doubt := e.doubtOf(t)
	if e.Loops && doubt.loops && e.deep(reflect.ValueOf(v), asked, deepest) {
		return nil, &driver.InvalidError{Field: "value", Value: fmt.Sprintf("a %T", v), Rule: "must not hold itself, nor be thousands of levels deep"}
	}
	if doubt.of == "" {
		return v, nil
	}
	if t.Kind() != reflect.Pointer {
		p := reflect.New(t)
		p.Elem().Set(reflect.ValueOf(v))
		address := p.Interface()
		if kept, _ := e.keeps(t, address, doubt); kept || loose {
			return address, nil
		}
	}
	if kept, encodes := e.keeps(t, v, doubt); kept || !encodes || loose { // whose error tells more
		return v, nil
	}
	return nil, &driver.InvalidError{
		Field: "value", Value: fmt.Sprintf("a %T", v),
		Rule: "must be read back as it is, and is not: look at how " + doubt.of + " encodes and decodes itself, hold by pointer what only its pointer encodes, and nothing in an interface that has methods",
	}
}

// keeps reports whether v, a t or its address, is encoded, and whether what is read of that is encoded the same again;
// without its address too, if less is encoded with it. A panic is one of the value's methods.
func (e *Encoding) keeps(t reflect.Type, v any, of doubt) (kept, encodes bool) {
	defer func() { _ = recover() }()
	byAddress := reflect.TypeOf(v) != t
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
	kept = e.encodedAs(t, again, v, was) && e.whole(reflect.ValueOf(v), never)
	if kept && byAddress && of.less {
		value := reflect.ValueOf(v).Elem().Interface()
		was, err := e.Encode(value)
		kept = err != nil || e.encodedAs(t, read.Elem().Interface(), value, was)
	}
	return kept, encodes
}

// tries is how often two values are encoded before they are taken for different. A set in an order of
// its own has met the other's by then, or shown two.
const tries = 16

// encodedAs reports whether read is encoded as v is, which was encoded as was.
func (e *Encoding) encodedAs(t reflect.Type, read, v, was any) bool {
	var a, b []any
	for range tries {
		is, err := e.Encode(read)
		if err != nil {
			return false
		}
		if reflect.DeepEqual(is, was) {
			return true
		}
		x, err := e.Tree(was)
		y, err2 := e.Tree(is)
		if err != nil || err2 != nil {
			return false
		}
		if a, b = append(a, x), append(b, y); !e.differ(t, asked, a, b) {
			return true
		}
		if was, err = e.Encode(v); err != nil {
			return false
		}
	}
	return false
}

// differ reports whether a t that was encoded to each of was in turn, and what is read of it to each of is, differ in
// what they say. t is nil where no type is known.
func (e *Encoding) differ(t reflect.Type, at place, was, is []any) bool {
	agree := func(of func(any) any) bool { // in something of them, or it is another each time
		same := func(v any) bool { return reflect.DeepEqual(of(v), of(was[0])) }
		return slices.ContainsFunc(is, same) || slices.ContainsFunc(was, func(v any) bool { return !same(v) })
	}
	if !agree(func(v any) any { return v == nil }) {
		return true
	}
	for t != nil && t.Kind() == reflect.Pointer {
		t, at = t.Elem(), always
	}
	if t != nil && (t.Kind() == reflect.Interface || e.sound(t, at)) {
		return false
	}
	if t != nil {
		if _, _, decoded := e.first(t); decoded >= 0 { // by a method, and not by its fields
			t = nil
		}
	}
	if !agree(form) {
		return true
	}
	all := slices.Concat(was, is)
	if slices.ContainsFunc(all, func(v any) bool { return form(v) != form(was[0]) }) {
		return false
	}
	switch first := was[0].(type) {
	case map[string]any:
		names := make(map[string]bool)
		for _, v := range all {
			for name := range v.(map[string]any) {
				names[name] = true
			}
		}
		for name := range names {
			in, at := e.part(t, name, at)
			named := func(v any) any { return v.(map[string]any)[name] }
			if e.differ(in, at, each(was, named), each(is, named)) {
				return true
			}
		}
		return false
	case []any:
		in, at := e.part(t, "", at)
		for i := range first {
			ith := func(v any) any { return v.([]any)[i] }
			if e.differ(in, at, each(was, ith), each(is, ith)) {
				return true
			}
		}
		return false
	}
	return !agree(func(v any) any { return v })
}

// whole reports whether v is encoded with what no read can miss: each entry of a map under a name of its own, and of a
// part without an address all that its pointer would encode.
func (e *Encoding) whole(v reflect.Value, at place) bool {
	t := v.Type()
	switch byValue, byPointer, decoded := e.first(t); {
	case t.Kind() == reflect.Interface:
		return true
	case at == never && byValue < 0 && byPointer >= 0 && byPointer == decoded && hides(t) && v.CanInterface():
		p := reflect.New(t)
		p.Elem().Set(v)
		if was, err := e.Encode(v.Interface()); err != nil || !e.encodedAs(t, p.Interface(), v.Interface(), was) {
			return false
		}
	case t.Kind() == reflect.Map && byPointer < 0 && e.oddKey(t.Key()) && v.Len() > 1:
		encoded, err := e.Encode(v.Interface())
		if err != nil {
			return false
		}
		tree, err := e.Tree(encoded)
		if in, ok := tree.(map[string]any); err != nil || ok && len(in) < v.Len() {
			return false
		}
	}
	for in, at := range e.within(v, at) {
		if !e.whole(in, at) {
			return false
		}
	}
	return true
}

// deepest is far more levels than any store takes, and far less than what ends the process.
const deepest = 5000

// deep reports whether the encoder finds parts of v below so many levels.
func (e *Encoding) deep(v reflect.Value, at place, levels int) bool {
	for in, at := range e.within(v, at) {
		if levels == 0 || e.deep(in, at, levels-1) {
			return true
		}
	}
	return false
}

// within yields the parts of v that the encoder looks into, and no others: they may be locked, or change.
func (e *Encoding) within(v reflect.Value, at place) iter.Seq2[reflect.Value, place] {
	return func(yield func(reflect.Value, place) bool) {
		t := v.Type()
		switch t.Kind() {
		case reflect.Interface, reflect.Pointer:
			if at = always; t.Kind() == reflect.Interface {
				at = never
			}
			if !v.IsNil() {
				yield(v.Elem(), at)
			}
			return
		case reflect.Struct, reflect.Slice, reflect.Array, reflect.Map:
		default:
			return
		}
		if byValue, byPointer, _ := e.first(t); e.native(t) || byValue >= 0 || byPointer >= 0 && at != never {
			return
		}
		switch t.Kind() {
		case reflect.Struct:
			for i := range t.NumField() {
				if e.holds(t.Field(i)) && !yield(v.Field(i), at) {
					return
				}
			}
		case reflect.Map:
			for _, in := range v.Seq2() {
				if !yield(in, never) {
					return
				}
			}
		default:
			in, at := e.part(t, "", at)
			for i := range v.Len() {
				if in.Kind() <= reflect.Complex128 || !yield(v.Index(i), at) {
					return
				}
			}
		}
	}
}

// form is how many a list has, and else what kind of a thing v is.
func form(v any) any {
	if list, ok := v.([]any); ok {
		return len(list)
	}
	return reflect.TypeOf(v)
}

func each(of []any, f func(any) any) []any {
	is := make([]any, len(of))
	for i, v := range of {
		is[i] = f(v)
	}
	return is
}

// part returns the type of what a t encodes under a name or in a list, and its place; nil if that is none of its parts.
func (e *Encoding) part(t reflect.Type, name string, at place) (reflect.Type, place) {
	if t == nil {
		return nil, at
	}
	switch t.Kind() {
	case reflect.Map:
		return t.Elem(), never
	case reflect.Slice:
		return t.Elem(), always
	case reflect.Array:
		return t.Elem(), at
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(t) {
			if as, _ := e.Name(f.Tag); e.holds(f) && (as == name || as == "" && f.Name == name) {
				return f.Type, at
			}
		}
	}
	return nil, at
}

// holds reports whether an encoder looks into a field.
func (e *Encoding) holds(f reflect.StructField) bool {
	t := elem(f.Type)
	_, omits := e.Name(f.Tag)
	return (f.IsExported() || f.Anonymous && t.Kind() == reflect.Struct) && !omits
}

// doubt is what a type does not tell of the values that are read back.
type doubt struct {
	of    string // such parts; empty: none
	less  bool   // one may encode less with its address than without
	loops bool   // one may hold itself
	lost  error  // of Check
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
	visited := make(map[visit]bool) // true: not to its end
	var found doubt
	var of []string
	lost := func(format string, args ...any) {
		found.lost = &driver.InvalidError{Field: "T", Value: t.String(), Rule: fmt.Sprintf(format, args...)}
	}
	var walk func(reflect.Type, place)
	walk = func(t reflect.Type, at place) {
		if around, ok := visited[visit{t, at}]; ok {
			found.loops = found.loops || around
			return
		}
		visited[visit{t, at}] = true
		defer func() { visited[visit{t, at}] = false }()
		if k := t.Kind(); k != reflect.Pointer && k != reflect.Interface { // which have the methods of what they hold
			if e.sound(t, at) {
				return
			}
			byValue, byPointer, decoded := e.first(t)
			paired := byPointer >= 0 && byPointer == decoded
			if byPointer >= 0 || decoded >= 0 {
				of = append(of, t.String())
				found.less = found.less || !paired && byPointer != byValue
			}
			switch {
			case paired && byValue < 0 && at == never && isOpaque(t):
				lost("must hold %v by pointer, since only its pointer encodes itself, and nothing in a map has an address", t)
			case byPointer < 0 && isOpaque(t) && isText(t) && !e.native(t):
				lost("must not hold %v, which has no exported field, and encodes itself only for others", t)
			}
			if e.native(t) || byPointer >= 0 && (byValue == byPointer || paired && at == asked) {
				return // its methods hide its fields
			}
		}
		if slices.Contains(e.Lost, t.Kind()) {
			lost("must not hold %v, which is not encoded", t)
		}
		switch t.Kind() {
		case reflect.Interface:
			found.loops = true
			if t.NumMethod() > 0 { // no decoder knows what to make for it
				of = append(of, t.String())
			}
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
				if name, _ := e.Name(f.Tag); f.Anonymous && name == "" && e.native(elem(f.Type)) {
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

// sound reports whether a t at such a place encodes and decodes itself by the methods of one pair.
func (e *Encoding) sound(t reflect.Type, at place) bool {
	byValue, byPointer, decoded := e.first(t)
	return byPointer >= 0 && byPointer == decoded && (byValue == byPointer || at == always)
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
	t := elem(f.Type)
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

func elem(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
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
