package kit

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Methods are the names of two methods by which values encode and decode themselves.
type Methods struct{ Encode, Decode string }

// Encoding is an encoder with its decoder.
type Encoding struct {
	Tag   string    // the struct tag that is "-" for a field that is left out
	Pairs []Methods // the first that a value has counts

	// Through decodes into to what v is encoded to.
	Through func(v, into any) error

	forms sync.Map // by type
}

// form is how the values of a type are given to the encoder.
type form struct {
	byAddress bool
	err       error // of Check
}

// Addressable returns what the encoder is given for v.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. For a value in which only the pointers to some parts have these methods, it is a
// pointer to a copy of v, unless only what v itself is encoded to decodes.
func (e *Encoding) Addressable(v any) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() == reflect.Pointer || !e.formOf(t).byAddress {
		return v
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

// Check returns an *InvalidError if no form of a t decodes, or of a map's key, and a part of it is why. What an interface
// holds it does not see.
func (e *Encoding) Check(t reflect.Type) error { return e.formOf(t).err }

func (e *Encoding) formOf(t reflect.Type) form {
	if known, ok := e.forms.Load(t); ok {
		return known.(form)
	}
	var f form
	if p := e.partsOf(t); p != (parts{}) {
		value, address := !p.opaque && e.decodes(t, false), e.decodes(t, true)
		f.byAddress = p.wants != nil && (address && (p.loses == nil || !value) || !address && !value && p.loses == nil)
		if p.key != nil || !value && (!address || p.never != nil && p.opaque) {
			f.err = p.refused(t)
		}
	}
	e.forms.Store(t, f)
	return f
}

// decodes reports whether a t with one empty element of all that it can hold is read again, by its address or not.
func (e *Encoding) decodes(t reflect.Type, byAddress bool) (ok bool) {
	defer func() {
		if recover() != nil { // a method that wants more than an empty value
			ok = false
		}
	}()
	v := reflect.New(t)
	fill(v.Elem())
	if !byAddress {
		v = v.Elem()
	}
	return e.Through(v.Interface(), reflect.New(t).Interface()) == nil
}

// fill puts an element into each map, slice and pointer of v. within are the types around it: one that contains itself is
// filled once.
func fill(v reflect.Value, within ...reflect.Type) {
	t := v.Type()
	if !v.CanSet() || slices.Contains(within, t) {
		return
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Array:
		if t.Len() > 0 {
			fill(v.Index(0), within...)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(t, 1, 1))
		fill(v.Index(0), within...)
	case reflect.Pointer:
		v.Set(reflect.New(t.Elem()))
		fill(v.Elem(), within...)
	case reflect.Map:
		element := reflect.New(t.Elem()).Elem()
		fill(element, within...)
		v.Set(reflect.MakeMap(t))
		key := reflect.New(t.Key()).Elem()
		if key.Kind() == reflect.String {
			key.SetString("a") // attributevalue encodes no empty one
		}
		v.SetMapIndex(key, element)
	case reflect.Struct:
		for i := range t.NumField() {
			fill(v.Field(i), within...)
		}
	}
}

// place is whether an encoder can address a part.
type place int

const (
	asked  place = iota // if it is given a pointer to the whole
	always              // behind a pointer, in a slice
	never               // in a map
)

// parts are those of a type that only their pointers encode; nil: none.
type parts struct {
	wants, loses reflect.Type // where it is asked for; the pointer of loses encodes what is not decoded
	never        reflect.Type // in a map, and decodes itself
	key          reflect.Type // of a map, and decodes itself
	opaque       bool         // one of these has nothing that is encoded without its pointer
}

// refused is the error of a t of which no form decodes; nil: these parts are not why.
func (p parts) refused(t reflect.Type) error {
	rule := ""
	switch {
	case p.key != nil:
		rule = fmt.Sprintf("must have no %v as a map's key: only its pointer has a MarshalText", p.key)
	case p.never != nil:
		rule = fmt.Sprintf("must hold %v by pointer, since only its pointer encodes itself, and nothing in a map has an address", p.never)
	case p.wants != nil && p.loses != nil:
		rule = fmt.Sprintf("must hold %v by pointer, since only its pointer encodes itself, and beside it that of %v encodes what is not decoded", p.wants, p.loses)
	default:
		return nil
	}
	return &driver.InvalidError{Field: "T", Value: t.String(), Rule: rule}
}

// partsOf finds such parts of t as the encoder walks it.
func (e *Encoding) partsOf(t reflect.Type) (found parts) {
	type visit struct {
		reflect.Type
		place
	}
	visited := make(map[visit]bool)
	var walk func(reflect.Type, place)
	walk = func(t reflect.Type, at place) {
		if visited[visit{t, at}] {
			return
		}
		visited[visit{t, at}] = true
		if t.Kind() != reflect.Pointer { // which has the methods of its element
			byValue, byPointer, decoded := e.first(t)
			switch {
			case at == always && byPointer >= 0:
				return
			case byPointer < 0 || byValue == byPointer: // or an interface
			case byPointer != decoded:
				if at == asked {
					found.loses = t
				}
			default:
				if found.opaque = found.opaque || isOpaque(t); at == never {
					found.never = t
				} else {
					found.wants = t
				}
				return
			}
			if byValue >= 0 {
				return
			}
		}
		switch t.Kind() {
		case reflect.Array:
			walk(t.Elem(), at)
		case reflect.Pointer, reflect.Slice:
			walk(t.Elem(), always)
		case reflect.Map:
			if v, p, d := keys.first(t.Key()); v < 0 && p >= 0 && p == d && t.Key().Kind() != reflect.String {
				found.key = t.Key()
			}
			walk(t.Elem(), never)
		case reflect.Struct:
			for i := range t.NumField() {
				if f := t.Field(i); (f.IsExported() || f.Anonymous) && f.Tag.Get(e.Tag) != "-" {
					walk(f.Type, at)
				}
			}
		}
	}
	walk(t, asked)
	return found
}

// isOpaque reports whether t is a struct without a field that is encoded.
func isOpaque(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && !slices.ContainsFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool { return f.IsExported() })
}

// keys are what every encoder asks a map's keys for.
var keys = &Encoding{Pairs: []Methods{{"MarshalText", "UnmarshalText"}}}

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
