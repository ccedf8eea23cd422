package anyvalue

import (
	"reflect"
	"unicode/utf8"
)

// same is reflect.DeepEqual to which NaN equals NaN, of values without cycles.
func same(a, b reflect.Value) bool {
	if a.IsValid() != b.IsValid() || a.IsValid() && a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.Float32, reflect.Float64:
		x, y := a.Float(), b.Float()
		return x == y || x != x && y != y
	case reflect.Pointer, reflect.Interface:
		return a.IsNil() == b.IsNil() && (a.IsNil() || same(a.Elem(), b.Elem()))
	case reflect.Struct:
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Array:
		if a.Kind() == reflect.Slice && a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		if a.IsNil() != b.IsNil() || a.Len() != b.Len() {
			return false
		}
		for _, k := range a.MapKeys() {
			if v := b.MapIndex(k); !v.IsValid() || !same(a.MapIndex(k), v) {
				return false
			}
		}
		return true
	case reflect.Func, reflect.Chan, reflect.UnsafePointer:
		return a.Pointer() == b.Pointer()
	default:
		return a.Equal(b)
	}
}

// replaced reports whether b has U+FFFD where a has text that is not UTF-8.
func replaced(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return false
	}
	switch a.Kind() {
	case reflect.String:
		s := a.String()
		return !utf8.ValidString(s) && b.String() == string([]rune(s))
	case reflect.Pointer, reflect.Interface:
		return replaced(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if replaced(a.Field(i), b.Field(i)) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range min(a.Len(), b.Len()) {
			if replaced(a.Index(i), b.Index(i)) {
				return true
			}
		}
	case reflect.Map:
		for _, k := range a.MapKeys() {
			if replaced(a.MapIndex(k), b.MapIndex(k)) {
				return true
			}
			for _, other := range b.MapKeys() {
				if replaced(k, other) {
					return true
				}
			}
		}
	}
	return false
}
