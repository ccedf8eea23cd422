package sql

import (
	"cmp"
	"context"
	stdsql "database/sql"

	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// Raw implements driver.RawReader, with one SELECT. The value is JSON: the column's text, or an
// object of the value's columns, built by the database. Bytes are hexadecimal, except that MySQL
// has base64 there.
func (t *table) Raw(ctx context.Context, key string) (driver.Raw, error) {
	k, err := t.rowOf(key, t.maxKey)
	if err != nil {
		return driver.Raw{}, err
	}
	var r rawRow
	if err := t.row(ctx, k, t.sql.raw, k.columns, r.dest()); err != nil {
		return driver.Raw{}, err
	}
	return t.rawOf(&r), nil
}

// rawRow scans a record in the database's own form.
type rawRow struct {
	life   life
	fields [4]stdsql.NullString
	value  []byte
}

func (r *rawRow) dest() []any {
	return append(r.life.dest(), &r.fields[0], &r.fields[1], &r.fields[2], &r.fields[3], &r.value)
}

func (t *table) rawOf(r *rawRow) driver.Raw {
	raw := driver.Raw{
		Meta:    r.life.meta(),
		Format:  "json",
		Value:   r.value,
		Fields:  make(map[string]string, len(r.fields)),
		Problem: cmp.Or(t.odd(&r.life), t.tooLong(r.value)),
	}
	for i, name := range []string{t.created.Name, t.expires.Name, t.sweep, t.version} {
		if r.fields[i].Valid {
			raw.Fields[name] = r.fields[i].String
		}
	}
	return raw
}

// tooLong returns an error if a value's object is longer than the server makes one.
func (t *table) tooLong(object []byte) error {
	if object != nil || t.json || len(t.values) == 0 {
		return nil
	}
	return &driver.InvalidError{Field: "table " + t.name, Value: "with a row of a long value", Rule: "must have rows whose JSON fits max_allowed_packet"}
}
