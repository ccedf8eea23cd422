package archive

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/internal/field"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Column is a column that the user adds to the fixed ones.
type Column struct {
	name string
	typ  *columnType
	of   func(*Record) (any, error) // nil for null
}

// NewColumn returns a column of the values that of returns.
//
// Its Parquet type is STRING, INT64, DOUBLE, BOOLEAN, TIMESTAMP (in milliseconds, UTC) or BYTE_ARRAY. The function of returns its value for a record, or false for null. Several goroutines may call it at once, and it must
// not change the record. If it returns an error, or text that is not UTF-8, the record goes to the [Quarantine]: return
// false if the value is unknown.
func NewColumn[T string | int64 | float64 | bool | driver.Instant | []byte](name string, of func(*Record) (T, bool, error)) Column {
	var typ *columnType
	for _, t := range columnTypes {
		if _, ok := t.zero.(T); ok {
			typ = t
		}
	}
	if of == nil {
		return Column{name, typ, nil}
	}
	return Column{name, typ, func(r *Record) (any, error) {
		v, ok, err := of(r)
		if !ok || err != nil {
			return nil, err
		}
		return v, nil
	}}
}

// Field returns a column of text, of a field of values that are JSON, or DynamoDB's JSON.
//
// "user.id" is id in user. It is null where there is no such field, or it is neither text nor a number.
func Field(name, path string) Column {
	return NewColumn(name, func(r *Record) (string, bool, error) {
		text, ok := field.Text(r.Value, path)
		return text, ok, nil
	})
}

// columnType is how values of a Go type are stored.
type columnType struct {
	node   parquet.Node
	zero   any // of the Go type
	encode func(v any) parquet.Value
	decode func(parquet.Value) any        // of one that is not null
	parse  func(text string) (any, error) // see Selection.Column
}

var (
	textType = typeFor(parquet.String(), func(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) },
		func(v parquet.Value) string { return string(v.ByteArray()) }, func(text string) (string, error) { return text, nil })
	numberType = typeFor(parquet.Leaf(parquet.DoubleType), parquet.DoubleValue, parquet.Value.Double,
		func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
	columnTypes = []*columnType{
		textType, numberType,
		typeFor(parquet.Int(64), parquet.Int64Value, parquet.Value.Int64, // parquet-go reads a plain INT64 as this type too
			func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }),
		typeFor(parquet.Leaf(parquet.BooleanType), parquet.BooleanValue, parquet.Value.Boolean, strconv.ParseBool),
		typeFor(parquet.Timestamp(parquet.Millisecond), func(i driver.Instant) parquet.Value { return parquet.Int64Value(int64(i)) },
			func(v parquet.Value) driver.Instant { return driver.Instant(v.Int64()) },
			func(text string) (driver.Instant, error) {
				at, err := time.Parse(time.RFC3339, text)
				return driver.Floor(at), err
			}),
		typeFor(parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue,
			func(v parquet.Value) []byte { return slices.Clone(v.ByteArray()) }, func(text string) ([]byte, error) { return []byte(text), nil }),
	}
)

// typeFor returns the columnType whose values are of the Go type T.
func typeFor[T any](node parquet.Node, encode func(T) parquet.Value, decode func(parquet.Value) T, parse func(string) (T, error)) *columnType {
	return &columnType{node, *new(T), func(v any) parquet.Value { return encode(v.(T)) },
		func(v parquet.Value) any { return decode(v) }, func(text string) (any, error) { return parse(text) }}
}

// value encodes v, nil for null.
func (t *columnType) value(v any) parquet.Value {
	if v == nil {
		return parquet.NullValue()
	}
	return t.encode(v)
}

// typeOf returns the columnType of a leaf, nil if none has its Parquet type.
func typeOf(n parquet.Node) *columnType {
	for _, t := range columnTypes {
		if n.Leaf() && n.Type().String() == t.node.Type().String() {
			return t
		}
	}
	return nil
}

// checkColumns validates the user's columns.
func checkColumns(columns []Column) error {
	seen := map[string]bool{colProblem: true, "day": true} // engines that read directories as partitions have a column day
	for name := range fixed {
		seen[name] = true
	}
	for i, c := range columns {
		at := fmt.Sprintf("WriterOptions.Columns[%d]", i)
		switch {
		case c.name == "" || checkText("", c.name) != nil:
			return &driver.InvalidError{Field: at + ".name", Value: strconv.Quote(c.name), Rule: "must be text, and not empty"}
		case seen[strings.ToLower(c.name)]: // many engines ignore the case
			return &driver.InvalidError{Field: at + ".name", Value: strconv.Quote(c.name), Rule: "must differ from the other columns' names by more than case"}
		case c.of == nil:
			return &driver.InvalidError{Field: at + ".of", Value: "nil", Rule: "is required"}
		}
		seen[strings.ToLower(c.name)] = true
	}
	return nil
}
