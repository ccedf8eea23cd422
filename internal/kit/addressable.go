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

// Encoding is what an encoder and its decoder ask values for.
type Encoding struct {
	Tag   string    // the struct tag that is "-" for a field that is left out
	Pairs []Methods // the first that a value has counts

	addressed sync.Map // the answers of Addressable by type
}

// Addressable returns what the encoder is given for v.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. For a value in which only the pointers to some parts have these methods, it is a
// pointer to a copy of v; for anything else v, as also where a part's pointer encodes what the part does not decode:
// what that leaves out is not to be lost.
func (e *Encoding) Addressable(v any) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() == reflect.Pointer {
		return v
	}
	answer, ok := e.addressed.Load(t)
	if !ok {
		p := e.partsOf(t)
		answer = p.wants != nil && p.loses == nil
		e.addressed.Store(t, answer)
	}
	if answer == false {
		return v
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

// Check returns an *InvalidError if no form of a t keeps all of it. What an interface holds it does not see.
func (e *Encoding) Check(t reflect.Type) error {
	p := e.partsOf(t)
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
}

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
			case byValue == byPointer:
			case byPointer != decoded:
				if at == asked {
					found.loses = t
				}
			case at == never:
				found.never = t
				return
			default:
				found.wants = t
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
			if v, p, d := keys.first(t.Key()); v != p && p == d {
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
