package sql

import (
	"context"
	sqldriver "database/sql/driver"
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
		cast := t.dialect.cast(c, t.fields[i])
		if cast == "" || t.fields[i] == opaque || is.Kind() != reflect.Pointer || tried[[2]any{is, cast}] || scans(bare(is)) { // a Scan may take only its own values
			continue
		}
		tried[[2]any{is, cast}] = true
		refuse := func(rule string) {
			errs = append(errs, t.invalid(fmt.Sprintf("column %q", t.values[i]), fmt.Sprintf("%s, of a %s", c.name, is.Elem()), rule))
		}
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

// comesBack returns the rule that values of field i break; empty: they are read as they were. rounds: the column rounds
// all but the first.
func (t *table) comesBack(ctx context.Context, i int, cast string, rounds bool) (rule string, err error) {
	query, read := t.dialect.bind("SELECT "+cast), false
	for n := range sampleTexts {
		given, got := t.blank()[i], t.blank()[i]
		sample(reflect.ValueOf(given).Elem(), n)
		sent, err := sqldriver.DefaultParameterConverter.ConvertValue(given)
		if s, ok := sent.(string); err == nil && ok && (*t.sent.Load())[i].check(s) != "" || rounds && n > 0 {
			continue
		}
		found, err := firstRow(ctx, t.pool, query, []any{given}, []any{got})
		if found && (err != nil || !same(reflect.ValueOf(given), reflect.ValueOf(got))) {
			rule = "must give back what was written, which this client reads as another value, or not at all"
			if t.fields[i] == dated {
				rule += ": a time.Time needs a column with milliseconds, and on MySQL and MariaDB parseTime=true in the DSN"
			}
			return rule, nil
		}
		read = read || found
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

var sampleTexts = []string{"7", "1.50", "ann", "[1,2]", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}

// sample sets v, of no opaque and no composed type, to the nth value that tells what a column does to others.
func sample(v reflect.Value, n int) {
	whole := []int64{7, 20200101, 1<<53 + 1}[n%3]
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		sample(v.Elem(), n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.UnixMilli(1796048778600).UTC()))
			return
		}
		sample(v.Field(0), n) // of a Null
		v.FieldByName("Valid").SetBool(true)
	case reflect.String:
		v.SetString(sampleTexts[n])
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float32, reflect.Float64:
		v.SetFloat([]float64{0.5, 21.57, 1.0 / 3}[n%3])
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

// same reports whether two samples are equal, as times whatever their zone.
func same(a, b reflect.Value) bool {
	for a.Kind() == reflect.Pointer {
		if b.IsNil() {
			return false
		}
		a, b = a.Elem(), b.Elem()
	}
	if at, ok := a.Interface().(time.Time); ok {
		return at.Equal(b.Interface().(time.Time))
	}
	if a.Kind() == reflect.Struct {
		return same(a.Field(0), b.Field(0)) && reflect.DeepEqual(a.FieldByName("Valid").Interface(), b.FieldByName("Valid").Interface())
	}
	return reflect.DeepEqual(a.Interface(), b.Interface())
}
