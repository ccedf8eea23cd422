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
	Name string
	Type ColumnType

	// Of returns the column's value for a record, of the type that Type names, or nil for
	// null. Several goroutines may call it at once, and it must not change the record. If
	// it returns an error, or text that is not UTF-8, the record goes to the Quarantine:
	// return nil if the value is unknown.
	Of func(*Record) (any, error)
}

// Field returns a Text column of a field of values that are JSON, or DynamoDB's JSON.
//
// "user.id" is id in user. It is null where there is no such field, or it is neither text nor a number.
func Field(name, path string) Column {
	return Column{Name: name, Type: Text, Of: func(r *Record) (any, error) {
		if text, ok := field.Text(r.Value, path); ok {
			return text, nil
		}
		return nil, nil
	}}
}

// ColumnType is the type of a Column.
type ColumnType int

// The types, with their Go and Parquet types.
const (
	Text    ColumnType = iota + 1 // string; STRING
	Integer                       // int64; INT64
	Number                        // float64; DOUBLE
	Boolean                       // bool; BOOLEAN
	Time                          // driver.Instant; TIMESTAMP in milliseconds, UTC
	Bytes                         // []byte; BYTE_ARRAY
)

// columnType is how values of a ColumnType are stored.
type columnType struct {
	name   string
	node   parquet.Node
	encode func(v any) (parquet.Value, bool) // false if v is of another Go type
	decode func(parquet.Value) any           // of one that is not null
	parse  func(text string) (any, error)    // see Selection.Column
}

var columnTypes = [...]columnType{
	Text: typeFor("Text", parquet.String(), func(s string) parquet.Value { return parquet.ByteArrayValue([]byte(s)) },
		func(v parquet.Value) string { return string(v.ByteArray()) }, func(text string) (string, error) { return text, nil }),
	Integer: typeFor("Integer", parquet.Int(64), parquet.Int64Value, parquet.Value.Int64, // parquet-go reads a plain INT64 as this type too
		func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) }),
	Number: typeFor("Number", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue, parquet.Value.Double,
		func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }),
	Boolean: typeFor("Boolean", parquet.Leaf(parquet.BooleanType), parquet.BooleanValue, parquet.Value.Boolean, strconv.ParseBool),
	Time: typeFor("Time", parquet.Timestamp(parquet.Millisecond), func(i driver.Instant) parquet.Value { return parquet.Int64Value(int64(i)) },
		func(v parquet.Value) driver.Instant { return driver.Instant(v.Int64()) },
		func(text string) (driver.Instant, error) {
			at, err := time.Parse(time.RFC3339, text)
			return driver.Floor(at), err
		}),
	Bytes: typeFor("Bytes", parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue,
		func(v parquet.Value) []byte { return slices.Clone(v.ByteArray()) }, func(text string) ([]byte, error) { return []byte(text), nil }),
}

// typeFor returns the columnType whose values are of the Go type T.
func typeFor[T any](name string, node parquet.Node, encode func(T) parquet.Value, decode func(parquet.Value) T, parse func(string) (T, error)) columnType {
	return columnType{name, node, func(v any) (parquet.Value, bool) {
		t, ok := v.(T)
		if !ok {
			return parquet.Value{}, false
		}
		return encode(t), true
	}, func(v parquet.Value) any { return decode(v) }, func(text string) (any, error) { return parse(text) }}
}

func (t ColumnType) valid() bool { return t >= Text && t <= Bytes }

func (t ColumnType) String() string {
	if t.valid() {
		return columnTypes[t].name
	}
	return "ColumnType(" + strconv.Itoa(int(t)) + ")"
}

// value encodes v for Parquet.
func (t ColumnType) value(name string, v any) (parquet.Value, error) {
	if v == nil {
		return parquet.NullValue(), nil
	}
	if encoded, ok := columnTypes[t].encode(v); ok {
		return encoded, nil
	}
	return parquet.Value{}, &driver.InvalidError{Field: "column " + name, Value: fmt.Sprintf("a %T", v), Rule: "must be of the Go type of " + t.String()}
}

// typeOf returns the ColumnType of a leaf, zero if no ColumnType has its Parquet type.
func typeOf(n parquet.Node) ColumnType {
	for t := Text; t <= Bytes; t++ {
		if n.Leaf() && n.Type().String() == columnTypes[t].node.Type().String() {
			return t
		}
	}
	return 0
}

// checkColumns validates the user's columns.
func checkColumns(columns []Column) error {
	seen := map[string]bool{colProblem: true, "day": true} // engines that read directories as partitions have a column day
	for name := range fixed {
		seen[name] = true
	}
	for i, c := range columns {
		field := fmt.Sprintf("WriterOptions.Columns[%d]", i)
		switch {
		case c.Name == "" || checkText("", c.Name) != nil:
			return &driver.InvalidError{Field: field + ".Name", Value: strconv.Quote(c.Name), Rule: "must be text, and not empty"}
		case seen[strings.ToLower(c.Name)]: // many engines ignore the case
			return &driver.InvalidError{Field: field + ".Name", Value: strconv.Quote(c.Name), Rule: "must differ from the other columns' names by more than case"}
		case !c.Type.valid():
			return &driver.InvalidError{Field: field + ".Type", Value: c.Type.String(), Rule: "must be one of the column types"}
		case c.Of == nil:
			return &driver.InvalidError{Field: field + ".Of", Value: "nil", Rule: "is required"}
		}
		seen[strings.ToLower(c.Name)] = true
	}
	return nil
}
