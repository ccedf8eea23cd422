package archive

import (
	"fmt"
	"maps"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/slidingttl/slidingttl/internal/keytext"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// The columns that every file has.
const (
	colKey        = "key"
	colSource     = "source"
	colGeneration = "generation"
	colCreatedAt  = "created_at"
	colExpiredAt  = "expired_at"
	colArchivedAt = "archived_at"
	colReason     = "reason"
	colFormat     = "format"
	colValue      = "value"
	colProblem    = "problem" // in the quarantine only
)

var fixed = parquet.Group{
	colKey:        parquet.String(),
	colSource:     parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
	colGeneration: parquet.String(),
	colCreatedAt:  parquet.Optional(parquet.Timestamp(parquet.Millisecond)),
	colExpiredAt:  parquet.Timestamp(parquet.Millisecond),
	colArchivedAt: parquet.Timestamp(parquet.Millisecond),
	colReason:     parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
	colFormat:     parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
	colValue:      parquet.Leaf(parquet.ByteArrayType),
}

// layout has the indexes of a file's columns.
type layout struct {
	schema *parquet.Schema
	key, source, generation, created, expired, archived,
	reason, format, value int
	own []ownColumn
}

// ownColumn is a column that the user added.
type ownColumn struct {
	name string
	typ  *columnType
	at   int
}

// newLayout returns the layout of files that have own beside the fixed columns.
func newLayout(own map[string]*columnType) *layout {
	g := maps.Clone(fixed)
	for name, t := range own {
		g[name] = parquet.Optional(t.node)
	}
	l, err := layoutOf(parquet.NewSchema("record", g))
	if err != nil {
		panic(err) // cannot happen: g has all columns that layoutOf requires
	}
	return l
}

// layoutOf reads the layout of a file from its schema.
func layoutOf(s *parquet.Schema) (*layout, error) {
	l := &layout{schema: s}
	for name, at := range map[string]*int{
		colKey: &l.key, colSource: &l.source, colGeneration: &l.generation, colCreatedAt: &l.created, colExpiredAt: &l.expired,
		colArchivedAt: &l.archived, colReason: &l.reason, colFormat: &l.format, colValue: &l.value,
	} {
		leaf, ok := s.Lookup(name)
		if !ok || leaf.Node.Type().String() != fixed[name].Type().String() || leaf.MaxRepetitionLevel != 0 {
			return nil, fmt.Errorf("column %s is missing, or not as the archive writes it", name)
		}
		*at = leaf.ColumnIndex
	}
	for _, path := range s.Columns() {
		if _, ok := fixed[path[0]]; ok {
			continue
		}
		leaf, _ := s.Lookup(path...)
		t := typeOf(leaf.Node)
		if len(path) > 1 || t == nil || leaf.MaxRepetitionLevel != 0 {
			return nil, fmt.Errorf("an archive has no column such as %q", path)
		}
		l.own = append(l.own, ownColumn{path[0], t, leaf.ColumnIndex})
	}
	slices.SortFunc(l.own, func(a, b ownColumn) int { return a.at - b.at })
	return l, nil
}

// columns returns the user's columns by name.
func (l *layout) columns() map[string]*columnType {
	all := map[string]*columnType{}
	for _, c := range l.own {
		all[c.name] = c.typ
	}
	return all
}

// cells is the memory of a row. Successive rows reuse it.
type cells struct {
	row  parquet.Row
	text []byte
}

// row returns a as a Parquet row, valid until c is used again. It shares the value's memory.
func (l *layout) row(c *cells, a *Archived) parquet.Row {
	row := slices.Grow(c.row[:0], len(fixed)+len(l.own))[:len(fixed)+len(l.own)]
	c.row, c.text = row, c.text[:0]
	text := func(at int, s string) {
		from := len(c.text)
		c.text = append(c.text, s...)
		row[at] = parquet.ByteArrayValue(c.text[from:]).Level(0, 0, at)
	}
	instant := func(at int, i driver.Instant) { row[at] = parquet.Int64Value(int64(i)).Level(0, 0, at) }
	text(l.key, keytext.Encode(a.Key))
	text(l.source, a.Source)
	text(l.generation, a.Generation)
	text(l.reason, string(a.Reason))
	text(l.format, a.Format)
	instant(l.expired, a.ExpiredAt)
	instant(l.archived, a.ArchivedAt)
	row[l.created] = parquet.NullValue().Level(0, 0, l.created)
	if a.CreatedAt != 0 {
		row[l.created] = parquet.Int64Value(int64(a.CreatedAt)).Level(0, 1, l.created)
	}
	row[l.value] = parquet.ByteArrayValue(a.Value).Level(0, 0, l.value)
	for _, c := range l.own {
		v := c.typ.value(a.Columns[c.name])
		defined := 1
		if v.IsNull() {
			defined = 0
		}
		row[c.at] = v.Level(0, defined, c.at)
	}
	return row
}

// record decodes a row, whose values it shares.
func (l *layout) record(row parquet.Row) (a Archived, err error) {
	if len(row) != len(fixed)+len(l.own) {
		return a, fmt.Errorf("a row has %d columns instead of %d", len(row), len(fixed)+len(l.own))
	}
	text := func(at int) string { return string(row[at].ByteArray()) }
	if a.Key, err = keytext.Decode(text(l.key)); err != nil {
		return a, fmt.Errorf("a key is not encoded as keys are: %w", err)
	}
	a.Source, a.Generation, a.Reason, a.Format = text(l.source), text(l.generation), Reason(text(l.reason)), text(l.format)
	a.ExpiredAt, a.ArchivedAt = driver.Instant(row[l.expired].Int64()), driver.Instant(row[l.archived].Int64())
	if !row[l.created].IsNull() {
		a.CreatedAt = driver.Instant(row[l.created].Int64())
	}
	a.Value = row[l.value].ByteArray()
	for _, c := range l.own {
		if v := row[c.at]; !v.IsNull() {
			if a.Columns == nil {
				a.Columns = map[string]any{}
			}
			a.Columns[c.name] = c.typ.decode(v)
		}
	}
	return a, nil
}
