package sql

import (
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

const (
	maxSegments = 1000
	oversample  = 16 // probes for a segment, for some find the same
	maxProbes   = 4096
)

// Segments implements driver.Scanner. It splits by ranges of the first column of the key
// that differs from the first row to the last, if that is text or a whole number: it looks
// up keys at even distances between the two, by the key's index, some for each segment, and
// reads nothing else. So up to 1,000 segments come out about even where keys are random, or
// are counted at a fixed width, and uneven where most lie close together: under one of
// several prefixes, or as counted without leading zeros. A key of any other kind makes one
// segment.
func (t *table) Segments(ctx context.Context, n int) ([]driver.Cursor, error) {
	if err := driver.CheckScan("segments", n); err != nil {
		return nil, err
	}
	n = min(n, maxSegments)
	var found []rowKey
	if n > 1 {
		var err error
		if found, err = t.probe(ctx, min(oversample*n, maxProbes)); err != nil {
			return nil, err
		}
	}
	n = min(n, len(found)+1)
	cursors := make([]driver.Cursor, n)
	var r span
	for i := range n - 1 {
		r.To = []byte(found[(i+1)*len(found)/n].key)
		cursors[i] = r.cursor()
		r = span{After: r.To}
	}
	cursors[n-1] = r.cursor()
	return cursors, ctx.Err()
}

// probe looks up keys of rows at n even distances between the first and the last, and
// returns those that differ in the order of the database.
func (t *table) probe(ctx context.Context, n int) ([]rowKey, error) {
	names := t.keyColumns()
	forward := strings.Join(names, ", ")
	first, ok, err := t.firstKey(ctx, " ORDER BY "+forward)
	if err != nil || !ok {
		return nil, err
	}
	last, _, err := t.firstKey(ctx, " ORDER BY "+strings.Join(names, " DESC, ")+" DESC")
	if err != nil || len(last.columns) != len(first.columns) {
		return nil, err
	}
	at, where := 0, ""
	for at < len(names)-1 && same(first.columns[at], last.columns[at]) {
		where += names[at] + " = ? AND "
		at++
	}
	between, err := t.between(ctx, t.key.Columns[at], first.columns[at], last.columns[at])
	if err != nil || between == nil {
		return nil, err
	}
	query := " WHERE " + where + names[at] + " >= ? ORDER BY " + forward
	seen := make(map[string]bool)
	var found []rowKey
	for i := 1; i < n; i++ {
		args := append(slices.Clone(first.columns[:at]), between(i, n))
		k, ok, err := t.firstKey(ctx, query, args...)
		if err != nil {
			return nil, err
		}
		if ok && !seen[k.key] {
			seen[k.key] = true
			found = append(found, k)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	list, args := t.keyList(found)
	sorted := make([]rowKey, 0, len(found))
	query = "SELECT " + forward + " FROM " + t.quoted() + " WHERE " + t.keyTuple() + " IN " + list + " ORDER BY " + forward
	err = each(ctx, t.db, t.dialect.bind(query), args, func(scan func(...any) error) error {
		k, err := t.scanKey(scan)
		sorted = append(sorted, k)
		return err
	})
	if err != nil {
		return nil, t.failed(ctx, err, found...)
	}
	return sorted, nil
}

// firstKey is the key of the first row that the rest of a query finds.
func (t *table) firstKey(ctx context.Context, rest string, args ...any) (k rowKey, found bool, err error) {
	query := "SELECT " + strings.Join(t.keyColumns(), ", ") + " FROM " + t.quoted() + rest + " LIMIT 1"
	err = each(ctx, t.db, t.dialect.bind(query), args, func(scan func(...any) error) error {
		found = true
		k, err = t.scanKey(scan)
		return err
	})
	if err != nil {
		return rowKey{}, false, t.failed(ctx, err, rowKey{columns: args})
	}
	return k, found, nil
}

func (t *table) scanKey(scan func(...any) error) (rowKey, error) {
	columns := newJoined(len(t.key.Columns))
	if err := scan(columns.dest()...); err != nil {
		return rowKey{}, misshapen[driver.Scanned](err)
	}
	return t.key.split(t.key.Join(columns))
}

// between returns a function for the i-th of n values of a column from first to last; nil:
// it is of a kind that cannot be told here.
func (t *table) between(ctx context.Context, column string, first, last any) (func(i, n int) any, error) {
	desc, err := t.describe(ctx)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	kind := desc.columns[strings.ToLower(column)].name
	holds := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(kind, w) })
	}
	switch first := first.(type) {
	case string:
		if last, ok := last.(string); ok && holds("text", "char", "binary", "blob") {
			return textBetween(first, last), nil
		}
	case int64:
		if last, ok := last.(int64); ok && holds("int") && first < last {
			return func(i, n int) any { return first + int64(part(uint64(last)-uint64(first), i, n)) }, nil
		}
	}
	return nil, nil
}

// same reports whether two values of a column are, of those that between knows.
func same(a, b any) bool {
	switch a.(type) {
	case string, int64:
		return a == b
	}
	return false
}

// part is i/n of a width.
func part(width uint64, i, n int) uint64 {
	high, low := bits.Mul64(width, uint64(i))
	q, _ := bits.Div64(high, low, uint64(n))
	return q
}

// The characters of texts that are made up, all that a column can hold.
const (
	lowest, highest = ' ', '~'
	radix           = highest - lowest + 1
	digits          = 9 // radix to that power is below 2^63
)

// textBetween takes what follows two texts' common beginning as the digits of a number.
func textBetween(first, last string) func(i, n int) any {
	common := 0
	for common < min(len(first), len(last)) && first[common] == last[common] {
		common++
	}
	number := func(s string) (n uint64) {
		for i := range digits {
			n *= radix
			if i < len(s) {
				n += uint64(min(max(s[i], lowest), highest) - lowest)
			}
		}
		return n
	}
	from, to := number(first[common:]), number(last[common:])
	if from >= to { // by an order that is not the bytes'
		from, to = 0, number(strings.Repeat(string(rune(highest)), digits))
	}
	return func(i, n int) any {
		at := from + part(to-from, i, n)
		var text [digits]byte
		for j := digits - 1; j >= 0; j-- {
			text[j] = byte(at%radix) + lowest
			at /= radix
		}
		return strings.ToValidUTF8(first[:common], "") + string(text[:])
	}
}

// span is what a cursor holds: a range of keys, of which the first is scanned already.
type span struct {
	After []byte `json:"after"` // nil: from the start
	To    []byte `json:"to"`    // and that too; nil: to the end
}

func (r span) cursor() driver.Cursor {
	text, _ := json.Marshal(r) // cannot fail
	return driver.Cursor(text)
}

// where is the condition for the rows of r.
func (t *table) where(r span) (where string, args []any, err error) {
	for _, end := range []struct {
		key  []byte
		sign string
		last string
	}{{r.After, ">", ">"}, {r.To, "<", "<="}} {
		if end.key == nil {
			continue
		}
		k, err := t.key.split(string(end.key))
		if err != nil {
			return "", nil, driver.BadCursor(r.cursor())
		}
		text, more := t.beyond(k, end.sign, end.last)
		where, args = where+" AND "+text, append(args, more...)
	}
	if where != "" {
		where = " WHERE " + strings.TrimPrefix(where, " AND ")
	}
	return where, args, nil
}

// beyond is the condition for keys on one side of k, last being how their last column
// compares. Two tuples compared would say the same, and MySQL would read the whole index
// for it.
func (t *table) beyond(k rowKey, sign, last string) (where string, args []any) {
	names := t.keyColumns()
	end := len(names) - 1
	where, args = names[end]+" "+last+" ?", []any{k.columns[end]}
	for i := end - 1; i >= 0; i-- {
		where = fmt.Sprintf("%s %s= ? AND (%s %s ? OR %s)", names[i], sign, names[i], sign, where)
		args = append([]any{k.columns[i], k.columns[i]}, args...)
	}
	return where, args
}
