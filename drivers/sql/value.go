package sql

import (
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/internal/hook"
	"github.com/slidingttl/slidingttl/internal/kit"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// codec turns a value into arguments and back.
type codec[T any] struct {
	fields   func(v *T) []any // nil: one column of JSON, or none
	lifeOnly bool
	standard bool // database/sql scans
}

func (c *codec[T]) encode(v T) ([]any, error) {
	switch {
	case c.lifeOnly:
		return nil, nil
	case c.fields != nil:
		return c.fields(&v), nil
	}
	codec, _ := kit.JSONOf[T]()
	text, err := codec.Encode(v)
	if err != nil {
		return nil, kit.NotEncoded(v, codec, kit.Unquoted{Err: err})
	}
	return []any{string(text)}, nil // some databases take a []byte as binary data
}

// affinity is what a column of SQLite takes a value for.
type affinity int

const (
	asGiven    affinity = iota // the value itself, as far as is known
	asNumber                   // the text of a number for the number
	asFloating                 // a whole number too for one in floating point
)

// numeral is a text that SQLite takes for a number.
var numeral = regexp.MustCompile(`^[\t-\r ]*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[\t-\r ]*(\x00|$)`)

// keeps reports whether a column has what it was given: the same number in the same spelling. Nor is there a form in
// JSON for texts that are not UTF-8 and numbers that are not finite.
func (a affinity) keeps(v any) bool {
	text := ""
	switch v := v.(type) {
	case float64:
		return v-v == 0
	case int64:
		text = strconv.FormatInt(v, 10)
	case string:
		text = v
	case time.Time:
		return v.UTC().Year() >= 0 && v.UTC().Year() <= 9999
	}
	if a == asGiven || !numeral.MatchString(text) {
		return utf8.ValidString(text)
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	f, _ := strconv.ParseFloat(text, 64)
	return a == asNumber && strconv.FormatInt(n, 10) == text ||
		len(text) <= 15 && text != "-0" && !strings.Contains(text, "e") && strconv.FormatFloat(f, 'g', -1, 64) == text
}

// firstYear is of PostgreSQL's first timestamp, in 4713 BC.
const firstYear = -4712

// fit converts the arguments of a value by argument.
func (t *table) fit(values []any) error {
	for i, v := range values {
		var rule string
		if values[i], rule = t.argument(i, v); rule != "" {
			return &driver.InvalidError{Field: fmt.Sprintf("column %q", t.values[i]), Value: fmt.Sprintf("a %s", bare(reflect.TypeOf(v))), Rule: rule}
		}
	}
	return nil
}

// argument returns v as it is sent to the ith of the value's columns, or the rule that it breaks: a string that the column
// would change, a number that the database does not have. Bytes for a column of texts are sent as a text, for which
// pgx's exec and simple_protocol would send \x and digits, and a time in UTC: PostgreSQL's timestamp drops the zone.
func (t *table) argument(i int, v any) (sent any, rule string) {
	var k keyKind
	if kinds := t.sent.Load(); kinds != nil {
		k = (*kinds)[i]
	}
	for p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && p.Elem().Kind() == reflect.Pointer; p = p.Elem() {
		v = p.Elem().Interface() // pgx calls Value of a nil pointer behind another
	}
	as, _ := sqldriver.DefaultParameterConverter.ConvertValue(v)
	if b, ok := as.([]byte); ok && b != nil && k.isText {
		as, v = string(b), string(b)
	}
	switch as := as.(type) {
	case string:
		if k.isText && strings.Contains(as, "\x00") { // by which simple_protocol breaks the message
			rule = "must have no NUL, which a text of PostgreSQL cannot hold"
		} else if k != (keyKind{}) {
			rule = k.check(as)
		}
	case float64:
		if as-as != 0 && t.dialect.types().finite {
			rule = "must be finite: the database has neither NaN nor infinity"
		}
	case time.Time:
		if last, year := t.dialect.types().lastYear, as.Year(); last != 0 && (year > last || year < firstYear) {
			rule = fmt.Sprintf("must be of a year from %d to %d", firstYear, last)
		} else if t.fields[i] == dated || k.zoneless {
			return as.UTC(), ""
		}
	}
	return v, rule
}

// kept converts the arguments of a value as database/sql does, and refuses one that SQLite would change.
func (t *table) kept(values []any) error {
	for i, arg := range values {
		v, err := sqldriver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			continue // database/sql says why
		}
		var of affinity
		if known := t.affinities.Load(); known != nil {
			of = (*known)[i]
		}
		if at, ok := v.(time.Time); ok {
			v = legible(at)
		}
		if values[i] = v; !of.keeps(v) {
			return &driver.InvalidError{Field: fmt.Sprintf("column %q", t.values[i]), Value: fmt.Sprintf("a %T", v), Rule: "must be one that the column leaves as it is (TEXT holds every number), finite, of valid UTF-8, and of a year from 0 to 9999"}
		}
	}
	return nil
}

// legible returns at in UTC if its zone has no spelling by which SQLite's client would read the same time.
func legible(at time.Time) time.Time {
	const spelling = "2006-01-02 15:04:05.999999999 -0700 MST" // of time.Time's String
	if read, err := time.Parse(spelling, at.Format(spelling)); err != nil || !read.Equal(at) {
		return at.UTC()
	}
	return at
}

// scanned is the destination of a value's Scan.
type scanned[T any] struct {
	v    T
	text []byte
}

// dest returns what to scan a value into.
func (c *codec[T]) dest(s *scanned[T]) []any {
	switch {
	case c.lifeOnly:
		return nil
	case c.fields != nil:
		dest := c.fields(&s.v)
		if c.standard {
			for i := range dest {
				dest[i] = shield(dest[i])
			}
		}
		return dest
	}
	return []any{&s.text}
}

// shield returns dest, or one that makes a panic in its Scan, or in that of what it points to, an error: database/sql
// holds the rows while it runs, and nothing would close them.
func shield(dest any) any {
	if own, ok := dest.(stdsql.Scanner); ok {
		return shielded(own.Scan)
	}
	if is := reflect.TypeOf(dest); is == nil || is.Kind() != reflect.Pointer || is.Elem().Kind() != reflect.Pointer || !scans(bare(is)) {
		return dest
	}
	return shielded(func(src any) error { // as database/sql does with a pointer to a pointer
		to := reflect.ValueOf(dest).Elem()
		if src == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return shield(to.Interface()).(stdsql.Scanner).Scan(src)
	})
}

type shielded func(src any) error

func (g shielded) Scan(src any) error {
	return hook.Recover(func() error { return g(src) })
}

func (c *codec[T]) decode(s *scanned[T]) (T, error) {
	if c.lifeOnly || c.fields != nil {
		return s.v, nil
	}
	if err := json.Unmarshal(s.text, &s.v); err != nil {
		var zero T
		return zero, misshapen(err)
	}
	return s.v, nil
}

// misshapen is the error for a row that does not fit the driver's types.
func misshapen(err error) error {
	return &driver.InvalidError{Field: "row", Value: "of another shape", Rule: "must fit Options and the driver's type", Err: kit.Unquoted{Err: err}}
}
