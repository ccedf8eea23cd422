package drivertest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Value is the type of the values that the suite stores. It has fields of the
// kinds that drivers encode in different ways.
type Value struct {
	Text   string            `json:"text" dynamodbav:"text"`
	Count  int64             `json:"count" dynamodbav:"count"` // beyond what a float64 holds
	Ratio  float64           `json:"ratio" dynamodbav:"ratio"`
	Flag   bool              `json:"flag" dynamodbav:"flag"`
	Bytes  []byte            `json:"bytes" dynamodbav:"bytes"`
	List   []string          `json:"list" dynamodbav:"list"`
	Map    map[string]string `json:"map" dynamodbav:"map"`
	When   time.Time         `json:"when" dynamodbav:"when"`
	Nested Nested            `json:"nested" dynamodbav:"nested"`
}

// Nested is a part of Value.
type Nested struct {
	Name  string `json:"name" dynamodbav:"name"`
	Level int    `json:"level" dynamodbav:"level"`
}

// countBase makes every Count a number that a float64 cannot hold.
const countBase = 1<<53 + 1

// value makes the n-th of a set of values that all differ.
func value(n int) Value {
	return Value{
		Text:   fmt.Sprintf("value %d, \"quoted\", déjà-vu, 日本語, 🙂, <&>\n", n),
		Count:  countBase + 2*int64(n),
		Ratio:  0.1 + float64(n),
		Flag:   n%2 == 1,
		Bytes:  []byte{0, 0xff, '"', byte(n)},
		List:   []string{"a", "", fmt.Sprint(n)},
		Map:    map[string]string{"k": fmt.Sprint(n), "K": ""},
		When:   time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC).Add(time.Duration(n) * time.Second),
		Nested: Nested{Name: "inner", Level: -n},
	}
}

// equal compares v and w; empty and nil slices and maps are equal.
func (v Value) equal(w Value) bool {
	return v.Text == w.Text && v.Count == w.Count && v.Ratio == w.Ratio && v.Flag == w.Flag &&
		bytes.Equal(v.Bytes, w.Bytes) && slices.Equal(v.List, w.List) && maps.Equal(v.Map, w.Map) &&
		v.When.Equal(w.When) && v.Nested == w.Nested
}

// spell returns v as text, for a message.
func spell(v Value) string { return fmt.Sprintf("%+v", v) }
