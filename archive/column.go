package archive

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
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
		if text, ok := upkeep.Field(r.Value, path); ok {
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

func (t ColumnType) String() string {
	switch t {
	case Text:
		return "Text"
	case Integer:
		return "Integer"
	case Number:
		return "Number"
	case Boolean:
		return "Boolean"
	case Time:
		return "Time"
	case Bytes:
		return "Bytes"
	}
	return "ColumnType(" + strconv.Itoa(int(t)) + ")"
}

func (t ColumnType) node() parquet.Node {
	switch t {
	case Text:
		return parquet.String()
	case Integer:
		return parquet.Int(64) // parquet-go reads a plain INT64 as this type too
	case Number:
		return parquet.Leaf(parquet.DoubleType)
	case Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case Time:
		return parquet.Timestamp(parquet.Millisecond)
	case Bytes:
		return parquet.Leaf(parquet.ByteArrayType)
	}
	return nil
}

// value encodes v for Parquet.
func (t ColumnType) value(name string, v any) (parquet.Value, error) {
	switch v := v.(type) {
	case nil:
		return parquet.NullValue(), nil
	case string:
		if t == Text {
			return parquet.ByteArrayValue([]byte(v)), nil
		}
	case int64:
		if t == Integer {
			return parquet.Int64Value(v), nil
		}
	case float64:
		if t == Number {
			return parquet.DoubleValue(v), nil
		}
	case bool:
		if t == Boolean {
			return parquet.BooleanValue(v), nil
		}
	case driver.Instant:
		if t == Time {
			return parquet.Int64Value(int64(v)), nil
		}
	case []byte:
		if t == Bytes {
			return parquet.ByteArrayValue(v), nil
		}
	}
	return parquet.Value{}, &driver.InvalidError{Field: "column " + name, Value: fmt.Sprintf("a %T", v), Rule: "must be of the Go type of " + t.String()}
}

// parse reads a value from its text form, see Selection.Column.
func (t ColumnType) parse(text string) (any, error) {
	switch t {
	case Integer:
		return strconv.ParseInt(text, 10, 64)
	case Number:
		return strconv.ParseFloat(text, 64)
	case Boolean:
		return strconv.ParseBool(text)
	case Time:
		at, err := time.Parse(time.RFC3339, text)
		return driver.Floor(at), err
	case Bytes:
		return []byte(text), nil
	}
	return text, nil
}

// typeOf returns the ColumnType of a leaf, zero if no ColumnType has its Parquet type.
func typeOf(n parquet.Node) ColumnType {
	for t := Text; t <= Bytes; t++ {
		if n.Leaf() && n.Type().String() == t.node().Type().String() {
			return t
		}
	}
	return 0
}

// decode returns v, which is not null, as a Go value.
func (t ColumnType) decode(v parquet.Value) any {
	switch t {
	case Text:
		return string(v.ByteArray())
	case Integer:
		return v.Int64()
	case Number:
		return v.Double()
	case Boolean:
		return v.Boolean()
	case Time:
		return driver.Instant(v.Int64())
	default:
		return append([]byte(nil), v.ByteArray()...)
	}
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
		case c.Type.node() == nil:
			return &driver.InvalidError{Field: field + ".Type", Value: c.Type.String(), Rule: "must be one of the column types"}
		case c.Of == nil:
			return &driver.InvalidError{Field: field + ".Of", Value: "nil", Rule: "is required"}
		}
		seen[strings.ToLower(c.Name)] = true
	}
	return nil
}
