package kit

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// OwnField is a field that a driver writes beside those of a value.
type OwnField struct {
	Name   string // its name in the store
	Kind   string // what the store calls a field: "property"
	Option string // the option that renames it; empty: none
	Sole   bool   // no T may have it; else a T may read it, if it can hold what the driver writes

	// Guess reports whether a sample's error tells nothing of what the driver writes, as for keys.
	// Nil: it always tells.
	Guess func(error) bool
}

// Check returns an *InvalidError if a T has a field that does not suit f.
//
// It cannot hold what the driver writes, or has a name that differs in case alone, which many decoders
// take for the same.
//
// through decodes a stored record that has one field, with what the driver writes there or the like,
// into a T, and returns that T, nil if it does not decode, and the fields that it is encoded to. The
// empty name: a record without fields. If the T of that does not encode, nothing tells the name of a
// field, and T must have none for f. unsure says that T has a field for f, of which only a write can tell
// whether it holds what is written.
func (f OwnField) Check(goType string, through func(name string) (decoded any, fields map[string]any, err error)) (unsure bool, err error) {
	defer func() {
		if recover() != nil { // methods of T
			err = &driver.InvalidError{Field: "T", Value: goType, Rule: "must decode, or refuse, a record without its fields, and must not panic"}
		}
	}()
	refused := func(rule string, err error) error {
		rename := "rename the field"
		if f.Option != "" {
			rename = "rename one of them (" + f.Option + ")"
		}
		return &driver.InvalidError{
			Field: fmt.Sprintf("%s %q", f.Kind, f.Name),
			Value: "a field of " + goType,
			Rule:  "must belong to the driver alone, since the field " + rule + ": " + rename,
			Err:   err,
		}
	}
	zero, _, failed := through("")
	if zero == nil {
		return false, nil // the decoder needs a whole value
	}
	look := func(name string) (map[string]any, error) {
		v, fields, err := through(name)
		if v != nil && failed != nil {
			return map[string]any{"": v}, nil
		}
		return fields, err
	}
	none, _ := look("")
	other, err := look("any " + f.Name)
	keeps := err == nil && !reflect.DeepEqual(other, none) // what it has no field for, as a map does
	got, err := look(f.Name)
	_, exact := none[f.Name]
	_, filled := got[f.Name]
	inCase := !keeps && !exact && !filled
	for name, v := range got {
		inCase = inCase || keeps && name != f.Name && strings.EqualFold(name, f.Name) && !reflect.DeepEqual(v, none[name])
	}
	switch {
	case err != nil && (exact || keeps) && f.Guess != nil && f.Guess(err):
		return true, nil
	case err != nil:
		return false, refused("cannot hold what the driver writes there", err)
	case reflect.DeepEqual(got, none) || keeps && failed != nil:
		return false, nil
	case failed != nil:
		return false, refused("is read from there, and the zero value does not encode", nil)
	case inCase:
		return false, refused("differs from it in case alone", nil)
	case keeps && !exact:
		return false, nil
	case !f.Sole:
		return f.Guess != nil, nil
	}
	return false, refused("would be overwritten", nil)
}
