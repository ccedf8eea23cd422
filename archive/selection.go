package archive

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Selection selects records by their keys, by a prefix of the keys, or by the value of a
// column. Exactly one of the three is set.
type Selection struct {
	Keys   []string
	Prefix string

	// Column is one of WriterOptions.Columns, such as user_id. Value is its value as text:
	// a number in decimal digits, a time as RFC 3339, bytes unencoded.
	Column, Value string
}

// Validate returns an *InvalidError if not exactly one of the ways is set, or a key is empty.
func (s *Selection) Validate() error {
	ways := 0
	for _, set := range []bool{len(s.Keys) > 0, s.Prefix != "", s.Column != ""} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return &driver.InvalidError{Field: "Selection", Value: fmt.Sprint(ways), Rule: "must have one of Keys, Prefix and Column"}
	}
	if slices.Contains(s.Keys, "") {
		return &driver.InvalidError{Field: "Selection.Keys", Value: "an empty key", Rule: "must not be empty"}
	}
	return nil
}

// Asked returns what s asks for, one by one.
func (s *Selection) Asked() (all []Asked) {
	switch {
	case s.Prefix != "":
		return []Asked{{Prefix: keytext.Encode(s.Prefix)}}
	case s.Column != "":
		return []Asked{{Column: s.Column, Value: keytext.Encode(s.Value)}}
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(s.Keys))) {
		all = append(all, Asked{Key: keytext.Encode(key)})
	}
	return all
}

// target is a Selection for the files of one layout: the values to find in one column.
type target struct {
	at int                           // the column's index
	of func(*Archived) parquet.Value // the record's value in the column
	is func(parquet.Value) bool
}

// match returns the value of a in the column, and whether it is one to find. Of nil: null, and false.
func (t *target) match(a *Archived) (v parquet.Value, is bool) {
	if t == nil {
		return v, false
	}
	v = t.of(a)
	return v, t.is(v)
}

// selector is a Selection with the set of its keys, encoded.
type selector struct {
	*Selection
	keys map[string]bool
}

func (s *Selection) selector() *selector {
	keys := map[string]bool{}
	for _, key := range s.Keys {
		keys[keytext.Encode(key)] = true
	}
	return &selector{s, keys}
}

// in returns the target for files of l, nil if they lack the column or have another type for it.
func (s *selector) in(l *layout) *target {
	switch {
	case len(s.Keys) > 0:
		return &target{at: l.key, of: keyOf, is: func(v parquet.Value) bool { return s.keys[string(v.ByteArray())] }}
	case s.Prefix != "":
		return &target{at: l.key, of: keyOf, is: func(v parquet.Value) bool {
			b := v.ByteArray()
			if !bytes.HasPrefix(b, []byte(keytext.Prefix)) {
				return bytes.HasPrefix(b, []byte(s.Prefix))
			}
			key, err := keytext.Decode(string(b))
			return err == nil && strings.HasPrefix(key, s.Prefix)
		}}
	}
	i := slices.IndexFunc(l.own, func(c ownColumn) bool { return c.name == s.Column })
	if i < 0 {
		return nil
	}
	c := l.own[i]
	v, err := c.typ.parse(s.Value)
	if err != nil {
		return nil
	}
	want := c.typ.value(v)
	compare := c.typ.node.Type().Compare
	// Parquet's order has NaN equal to every number.
	nan := func(v parquet.Value) bool { return c.typ == numberType && math.IsNaN(v.Double()) }
	return &target{
		at: c.at,
		of: func(a *Archived) parquet.Value { return c.typ.value(a.Columns[c.name]) },
		is: func(v parquet.Value) bool { return !v.IsNull() && compare(v, want) == 0 && nan(v) == nan(want) },
	}
}

// keyOf returns the record's value in the key column.
func keyOf(a *Archived) parquet.Value {
	return parquet.ByteArrayValue([]byte(keytext.Encode(a.Key)))
}
