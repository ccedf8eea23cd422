package archive

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Selection selects records by their keys, by a prefix of the keys, or by the value of a
// column. Exactly one of the three is set.
type Selection struct {
	Keys   []string
	Prefix string

	// Column is one of WriterOptions.Columns, such as user_id. Value is its value as text:
	// an Integer or Number in decimal digits, a Time as RFC 3339, Bytes unencoded.
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
		return []Asked{{Prefix: encodeKey(s.Prefix)}}
	case s.Column != "":
		return []Asked{{Column: s.Column, Value: encodeKey(s.Value)}}
	}
	for _, key := range slices.Compact(slices.Sorted(slices.Values(s.Keys))) {
		all = append(all, Asked{Key: encodeKey(key)})
	}
	return all
}

// SelectionOf returns the Selection that asked for all, to ask again.
func SelectionOf(all []Asked) (s Selection, err error) {
	decode := func(text string) string {
		key, failed := decodeKey(text)
		err = errors.Join(err, failed)
		return key
	}
	for _, a := range all {
		s.Prefix, s.Column, s.Value = decode(a.Prefix), a.Column, decode(a.Value)
		if a.Key != "" {
			s.Keys = append(s.Keys, decode(a.Key))
		}
	}
	return s, errors.Join(err, s.Validate())
}

// target is a Selection for the files of one layout: the values to find in one column.
type target struct {
	at   int                                    // the column's index
	of   func(*Archived) (parquet.Value, error) // the record's value in the column
	may  func(first, last parquet.Value) bool   // whether first to last may include a value to find
	is   func(parquet.Value) bool
	keys []string // all values to find, sorted; nil for a prefix or a column
}

// in returns the target for files of l, nil if they lack the column or have another type for it.
func (s *Selection) in(l *layout) *target {
	switch {
	case len(s.Keys) > 0:
		keys := make([]string, len(s.Keys))
		for i, key := range s.Keys {
			keys[i] = encodeKey(key)
		}
		slices.Sort(keys)
		return keysIn(l, keys)
	case s.Prefix != "":
		return s.prefixIn(l)
	}
	i := slices.IndexFunc(l.own, func(c ownColumn) bool { return c.name == s.Column })
	if i < 0 {
		return nil
	}
	c := l.own[i]
	v, err := columnTypes[c.typ].parse(s.Value)
	if err != nil {
		return nil
	}
	want, err := c.typ.value(c.name, v)
	if err != nil {
		return nil
	}
	compare := columnTypes[c.typ].node.Type().Compare
	// Parquet's order has NaN equal to every number, and its bounds leave NaN out.
	nan := func(v parquet.Value) bool { return c.typ == Number && math.IsNaN(v.Double()) }
	return &target{
		at: c.at,
		of: func(a *Archived) (parquet.Value, error) { return c.typ.value(c.name, a.Columns[c.name]) },
		may: func(first, last parquet.Value) bool {
			return nan(want) || compare(first, want) <= 0 && compare(want, last) <= 0
		},
		is: func(v parquet.Value) bool { return !v.IsNull() && compare(v, want) == 0 && nan(v) == nan(want) },
	}
}

// keyOf returns the record's value in the key column.
func keyOf(a *Archived) (parquet.Value, error) {
	return parquet.ByteArrayValue([]byte(encodeKey(a.Key))), nil
}

// keysIn returns a target for keys, which are encoded and sorted.
func keysIn(l *layout, keys []string) *target {
	return &target{
		at: l.key, of: keyOf, keys: keys,
		may: func(first, last parquet.Value) bool { return len(between(keys, first, last)) > 0 },
		is: func(v parquet.Value) bool {
			_, ok := slices.BinarySearchFunc(keys, v.ByteArray(), func(key string, v []byte) int { return cmp.Compare(key, string(v)) })
			return ok
		},
	}
}

// between returns the keys from first to last, both included.
func between(keys []string, first, last parquet.Value) []string {
	from, _ := slices.BinarySearch(keys, string(first.ByteArray()))
	to, found := slices.BinarySearch(keys, string(last.ByteArray()))
	for ; found && to < len(keys) && keys[to] == string(last.ByteArray()); to++ {
	}
	return keys[from:max(from, to)]
}

// prefixIn returns a target for keys that begin with Prefix. It includes keys stored as base64.
func (s *Selection) prefixIn(l *layout) *target {
	overlaps := func(prefix string, first, last []byte) bool {
		return string(last) >= prefix && (string(first) <= prefix || bytes.HasPrefix(first, []byte(prefix)))
	}
	return &target{
		at: l.key, of: keyOf,
		may: func(first, last parquet.Value) bool {
			f, l := first.ByteArray(), last.ByteArray()
			return overlaps(s.Prefix, f, l) || overlaps(keyPrefix, f, l)
		},
		is: func(v parquet.Value) bool {
			key, err := decodeKey(string(v.ByteArray()))
			return err == nil && strings.HasPrefix(key, s.Prefix)
		},
	}
}

// ReadKeys reads keys for a Selection, one a line, in UTF-8 with or without a byte order mark. It
// skips empty lines. A line that begins with a double quote is a Go string ("a\nb"), for keys
// that contain a newline or are not text.
func ReadKeys(r io.Reader) ([]string, error) {
	var keys []string
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		key := lines.Text()
		if n == 1 {
			key = strings.TrimPrefix(key, "\ufeff")
		}
		if !utf8.ValidString(key) {
			return nil, &driver.InvalidError{Field: "keys", Value: fmt.Sprintf("line %d", n), Rule: "must be UTF-8, with other bytes in a Go string"}
		}
		if strings.HasPrefix(key, `"`) {
			var err error
			if key, err = strconv.Unquote(key); err != nil {
				return nil, &driver.InvalidError{Field: "keys", Value: fmt.Sprintf("line %d", n), Rule: "must be a key, or a Go string", Err: err}
			}
		} else if key == "" {
			continue
		}
		keys = append(keys, key)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return nil, &driver.InvalidError{Field: "keys", Value: "too long a line", Rule: "must have lines of at most 1 MiB"}
	}
	return keys, lines.Err()
}
