package sql

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// blank returns what makes pointers into a new T for Options.Row's columns; nil: there are none.
func (o *Options[T]) blank() func() []any {
	if o.Row.Fields == nil {
		return nil
	}
	return func() []any { return o.Row.Fields(new(T)) }
}

// checkFields has the client send values of each field's type and read them back as the field's column gives them. It
// refuses a field of which one comes back as another, or none can be sent. Nothing is stored.
func (t *table) checkFields(ctx context.Context, d *description) error {
	if t.blank == nil {
		return nil
	}
	_, converts := t.pool.(standardPool)
	var errs []error
	tried := make(map[[2]any]bool)
	for i, field := range t.blank() {
		c, is := d.columns[strings.ToLower(t.values[i])], reflect.TypeOf(field)
		refuse := func(rule string) {
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", t.values[i]), fmt.Sprintf("%s, of a %s", c.name, is.Elem()), rule))
		}
		switch of := bare(is); {
		case of == nil:
			continue
		case of == reflect.TypeFor[stdsql.RawBytes](), of.String() == "pgtype.DriverBytes": // of pgx, which only pgxsql imports
			refuse("must be a []byte: this type's bytes are the client's memory, which later reads change")
			continue
		case of.Kind() == reflect.Interface:
			refuse("must be of the type that is written: what a client reads into an interface is of its own choice")
			continue
		}
		if t.dialect.types().inProcess && (t.fields[i] == dated || t.fields[i] == opaque) && t.dialect.holds(c, false, dated) {
			kept, err := t.keepsTimes(ctx, t.values[i])
			if err != nil {
				return t.failed(ctx, err)
			}
			if !kept {
				refuse("must give times back as they were written: open SQLite without _time_format=datetime and _time_integer_format, and with no other _timezone than UTC")
				continue
			}
		}
		cast := t.dialect.cast(c, t.fields[i])
		if cast == "" || t.fields[i] == opaque || is.Kind() != reflect.Pointer || tried[[2]any{is, cast}] || scans(bare(is)) { // a Scan may take only its own values
			continue
		}
		if t.dialect.types().inProcess {
			cast = t.ofColumn(t.values[i], cast)
		}
		tried[[2]any{is, cast}] = true
		switch {
		case t.fields[i] != composed:
			rounds := t.fields[i] == floating && t.dialect.valueKind(c).scale > 0
			rule, err := t.comesBack(ctx, i, cast, rounds)
			if err != nil {
				return t.failed(ctx, err)
			} else if rule != "" {
				refuse(rule)
			}
		case converts:
			refuse("must be of a type that database/sql scans, or a Valuer and a Scanner")
		}
	}
	return errors.Join(errs...)
}

// ofColumn selects an expression as one of the column, by which SQLite's client goes.
func (t *table) ofColumn(column, expression string) string {
	return fmt.Sprintf("%s FROM %s WHERE 0 UNION ALL SELECT %s", t.dialect.quote(column), t.quoted(), expression)
}

// keepsTimes reports whether SQLite's client, which spells them as its DSN says, gives times of the column back.
func (t *table) keepsTimes(ctx context.Context, column string) (bool, error) {
	for _, at := range []time.Time{
		{}, time.Date(1850, 1, 1, 0, 0, 0, 0, time.UTC), time.UnixMilli(478742400007).UTC(), time.UnixMilli(1796048778600).UTC(),
		time.Date(2027, 7, 30, 14, 0, 0, 600e6, time.FixedZone("CEST", 2*60*60)), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		var got any
		found, err := firstRow(ctx, t.pool, "SELECT "+t.ofColumn(column, "?1"), []any{at}, []any{&got})
		if !found && err != nil {
			return false, err
		}
		if back, ok := got.(time.Time); !ok || !back.Equal(at) {
			return false, nil
		}
	}
	return true, nil
}

// comesBack returns the rule that values of field i break; empty: they are read as they were. rounds: the column rounds
// all but the first.
func (t *table) comesBack(ctx context.Context, i int, cast string, rounds bool) (rule string, err error) {
	query, read := t.dialect.bind("SELECT "+cast), false
	at := time.UnixMilli(1796048778657)
	for n := range sampleTexts {
		given, got := t.blank()[i], t.blank()[i]
		sample(reflect.ValueOf(given).Elem(), n, at)
		sent, broken := t.argument(i, given)
		if broken != "" || rounds && n > 0 {
			continue
		}
		found, err := firstRow(ctx, t.pool, query, []any{sent}, []any{got})
		if found && (err != nil || !same(reflect.ValueOf(given), reflect.ValueOf(got))) {
			rule = "must give back what was written, which this client reads as another value, or not at all"
			if t.fields[i] == dated {
				rule += ": a time.Time needs a column with milliseconds, on MySQL and MariaDB parseTime=true in the DSN and a loc whose clocks are never set back, such as UTC"
			}
			return rule, nil
		}
		if found && t.fields[i] == ownBytes { // others may be no MAC address, which breaks the message
			return "", nil
		}
		if read = read || found; found && t.fields[i] == dated {
			at = repeated(held(reflect.ValueOf(got)).Interface().(time.Time), n)
		}
		switch t.dialect.verdict(err) {
		case impossible, refused, objected, barred:
			if sqlState(err) == "23514" { // a domain's CHECK, which takes others
				return "", nil
			}
			rule = "must take what is written, of which this client or the database refuses each value"
		default:
			if err != nil {
				return "", err
			}
		}
	}
	if read {
		rule = ""
	}
	return rule, nil
}

// repeated returns a time around the next at which the zone of at sets its clocks back: before for an even n, which has
// the same time of day again afterwards.
func repeated(at time.Time, n int) time.Time {
	for next := at; ; {
		_, end := next.ZoneBounds()
		if end.IsZero() || end.Sub(at) > 2*366*24*time.Hour {
			return at
		}
		_, before := next.Zone()
		if _, after := end.Zone(); after < before {
			return end.Add(time.Duration(n%2*2-1) * 15 * time.Minute)
		}
		next = end
	}
}

var sampleTexts = []string{"7", "1.50", "ann", "[1,2]", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}

// sampleBytes have the lengths of addresses too, first that of a MAC.
var sampleBytes = [...]string{"sample", "1.50", "7", "[1,2]", "a0eebc999c0b4ef8"}

// sample sets v, of no opaque and no composed type, to the nth value that tells what a column does to others; a time to at.
func sample(v reflect.Value, n int, at time.Time) {
	whole := []int64{7, 20200101, 1<<53 + 1}[n%3]
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		sample(v.Elem(), n, at)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(at))
			return
		}
		sample(v.Field(0), n, at) // of a Null
		v.FieldByName("Valid").SetBool(true)
	case reflect.String:
		v.SetString(sampleTexts[n])
	case reflect.Slice:
		v.SetBytes([]byte(sampleBytes[n]))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0.5, 21.57, 1.0 / 3, 7}[n%4])
	default:
		if v.CanInt() && !v.OverflowInt(whole) {
			v.SetInt(whole)
		} else if v.CanInt() {
			v.SetInt(7)
		} else if !v.OverflowUint(uint64(whole)) {
			v.SetUint(uint64(whole))
		} else {
			v.SetUint(7)
		}
	}
}

// held is what pointers, or database/sql's Null, hold; invalid: nothing.
func held(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && v.Type() != reflect.TypeFor[time.Time]() {
		if !v.FieldByName("Valid").Bool() {
			return reflect.Value{}
		}
		v = v.Field(0)
	}
	return v
}

// same reports whether two samples are equal: as times whatever their zone, and as bytes of JSON whatever their spaces.
func same(a, b reflect.Value) bool {
	if a, b = held(a), held(b); !b.IsValid() {
		return false
	}
	if at, ok := a.Interface().(time.Time); ok {
		return at.Equal(b.Interface().(time.Time))
	}
	if a.Kind() == reflect.Slice {
		var x, y bytes.Buffer
		return bytes.Equal(a.Bytes(), b.Bytes()) || json.Compact(&x, a.Bytes()) == nil && json.Compact(&y, b.Bytes()) == nil && bytes.Equal(x.Bytes(), y.Bytes())
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
