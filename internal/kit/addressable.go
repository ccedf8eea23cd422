package kit

import (
	"reflect"
	"sync"
)

// Methods are the names of two methods by which values encode and decode themselves.
type Methods struct{ Encode, Decode string }

// Addressable returns what an encoder that calls the Encode methods of pairs is given for v.
//
// Encoders call a pointer's method, such as MarshalJSON of *big.Int, only on what they can address, and
// decoders call them all. For a value in which only the pointers to some parts have these methods, it is a
// pointer to a copy of v; for anything else v, as also where a part has a method to encode and none to decode:
// what that leaves out is not to be lost.
func Addressable(v any, pairs ...Methods) any {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() == reflect.Pointer {
		return v
	}
	type question struct {
		of reflect.Type
		by string
	}
	asked := question{t, pairs[0].Encode}
	answer, ok := addressed.Load(asked)
	if !ok {
		wants, loses := byPointer(t, pairs)
		answer = wants && !loses
		addressed.Store(asked, answer)
	}
	if answer == false {
		return v
	}
	p := reflect.New(t)
	p.Elem().Set(reflect.ValueOf(v))
	return p.Interface()
}

var addressed sync.Map // the answers of byPointer

// byPointer reports whether pointers alone encode a part of a t, and whether no method decodes such a part. What lies
// behind a pointer or in a slice is addressed in any case, and what is in a map or an interface in none.
func byPointer(t reflect.Type, pairs []Methods) (wants, loses bool) {
	p := reflect.PointerTo(t)
	for _, m := range pairs {
		if _, ok := t.MethodByName(m.Encode); ok {
			return false, false
		}
		if _, ok := p.MethodByName(m.Encode); ok {
			_, ok = p.MethodByName(m.Decode)
			return ok, !ok
		}
	}
	switch t.Kind() {
	case reflect.Array:
		return byPointer(t.Elem(), pairs)
	case reflect.Struct:
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() || f.Anonymous {
				w, l := byPointer(f.Type, pairs)
				wants, loses = wants || w, loses || l
			}
		}
	}
	return wants, loses
}
