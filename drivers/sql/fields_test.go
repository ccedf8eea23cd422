package sql

import (
	"context"
	stdsql "database/sql"
	sqldriver "database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// fieldsOf are ways to open a database, and types of a column of Options.Row.
var fieldsOf = map[string]struct{ access, columns []string }{
	"postgres": {[]string{"", " default_query_exec_mode=exec", " default_query_exec_mode=simple_protocol"},
		[]string{"smallint", "integer", "bigint", "numeric", "numeric(20,0)", "numeric(20,4)", "numeric(3,3)", "numeric(4,-2)", "real", "double precision", "money", "oid", "text", "varchar(200)", "char(7)", "char(30)", "citext", "name", "json", "jsonb", "xml", "bytea", "boolean", "uuid", "date", "timestamp", "timestamptz", "timestamptz(0)", "timestamptz(1)", "timestamp(3)", "time", "interval", "inet", "cidr", "macaddr", "bit(8)", "varbit", "tsvector", "bigint[]", "text[]", "int4range", "point", "mood", "positive"}},
	"mariadb": {[]string{"parseTime=true", "interpolateParams=true", "interpolateParams=true&parseTime=true", "", "sql_mode='STRICT_TRANS_TABLES,PAD_CHAR_TO_FULL_LENGTH'", "parseTime=true&loc=Europe%2FBerlin", "parseTime=true&timeTruncate=100ms"},
		[]string{"TINYINT", "SMALLINT UNSIGNED", "INT", "INT(5) ZEROFILL", "BIGINT", "BIGINT UNSIGNED", "BOOLEAN", "BIT(1)", "BIT(8)", "BIT(64)", "FLOAT", "FLOAT UNSIGNED", "FLOAT(9,2)", "DOUBLE", "DOUBLE(20,3)", "DOUBLE ZEROFILL", "DECIMAL(30)", "DECIMAL(30,4)", "DECIMAL(3,3)", "DECIMAL(30) ZEROFILL", "CHAR(40)", "CHAR(40) COLLATE utf8mb4_bin", "VARCHAR(200) CHARACTER SET utf8mb4", "TINYTEXT CHARACTER SET utf8mb4", "TEXT CHARACTER SET utf8mb4", "BINARY(8)", "VARBINARY(200)", "BLOB", "JSON", "UUID", "INET4", "INET6", "YEAR", "DATE", "DATETIME", "DATETIME(1)", "DATETIME(6)", "TIMESTAMP NULL", "TIME", "ENUM('a', 'b', '3')", "SET('a', 'b')", "POINT"}},
	"sqlite": {[]string{"", "&_time_format=datetime", "&_inttotime=1", "&_time_integer_format=unix_milli", "&_time_integer_format=unix&_inttotime=1", "&_time_integer_format=unix_milli&_inttotime=1", "&_timezone=Europe/Berlin", "&_texttotime=1"}, []string{"INTEGER", "REAL", "TEXT", "BLOB", "NUMERIC", "DECIMAL(20,4)", "BOOLEAN", "JSON", "ANY", "VARCHAR(20)", "DATE", "DATETIME", ""}},
}

// spelledBy are MySQL's columns by whose types an application has to spell its texts.
var spelledBy = []string{"DATE", "TIME", "ENUM", "SET"}

// roundedIn are the columns whose decimals are the application's choice: a float that has more is rounded.
func roundedIn(column string) bool {
	return slices.Contains([]string{"numeric(20,4)", "numeric(3,3)", "DECIMAL(30,4)", "DECIMAL(3,3)"}, column)
}

type state int8

func (s state) String() string { return fmt.Sprint("state ", int8(s)) }

type level int64

type (
	consent bool
	onOff   bool
	ownerID string
	degrees float64
)

func (d degrees) String() string { return fmt.Sprintf("%.1f", float64(d)) }

func (o onOff) String() string { return map[onOff]string{false: "off", true: "on"}[o] }

// role is sent by its kind, and its Scan takes only its own values.
type role string

func (r *role) Scan(from any) error {
	switch s := fmt.Sprintf("%s", from); s {
	case "admin", "user":
		*r = role(s)
		return nil
	}
	return errors.New("no role")
}

// texts are spelled in ways that some columns change, or at the ends of what they hold.
var texts = []string{"ann", "", "1.50", "007", "7", "12345678901234567890", "10101010", "2001:DB8::1", "a", "3", "2020-1-1", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "true", "1 day", `\x41`, "[1, 2]", "0.1", "0.500", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "1.5000", "[1,2]", `{"b":1,"a":2,"a":3}`, "1e2", "1234", "-1200", "1234567", strings.Repeat("a", 30), strings.Repeat("a", 250) + strings.Repeat(" ", 10), strings.Repeat("a", 65530) + strings.Repeat(" ", 10), strings.Repeat("a", 7), strings.Repeat("a", 8)}

var pointers, owners = func() (all []*string, own []ownerID) {
	for _, s := range texts {
		all, own = append(all, &s), append(own, ownerID(s))
	}
	return all, own
}()

// floats reports whether v is one, or a pointer to one.
func floats(v any) bool {
	return strings.Contains(strings.ToLower(reflect.TypeOf(v).String()), "float") || reflect.TypeOf(v) == reflect.TypeFor[degrees]()
}

type blob []byte

// visit is sent as a time of whatever zone it has.
type visit struct{ at time.Time }

func (v visit) Value() (sqldriver.Value, error) { return v.at, nil }

func (v *visit) Scan(from any) (err error) {
	switch from := from.(type) {
	case time.Time:
		v.at = from
	case []byte:
		v.at, err = time.Parse(time.DateTime, string(from))
	default:
		err = fmt.Errorf("no time: %T", from)
	}
	return err
}

// floatIn is what a float, or a pointer or Null of one, holds.
func floatIn(v any) float64 {
	of := reflect.Indirect(reflect.ValueOf(v))
	if of.Kind() == reflect.Struct {
		of = of.Field(0)
	}
	return of.Float()
}

// noon is in whole seconds.
var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// times are of several zones, of summer, of the hour that Berlin has twice, and what applications write for never.
var times = []time.Time{noon, noon.Add(657 * time.Millisecond), noon.In(time.FixedZone("", 2*60*60)), noon.AddDate(0, 8, 0).In(time.FixedZone("CEST", 2*60*60)),
	time.Date(2026, 10, 25, 0, 30, 0, 0, time.UTC), time.Date(2026, 10, 25, 1, 30, 0, 0, time.UTC),
	time.Unix(1<<63-62135596801, 999999999), time.UnixMilli(math.MaxInt64), time.Unix(1<<62, 0), time.Date(600000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-6000, 1, 1, 0, 0, 0, 0, time.UTC)}

// told is a value as a text, a time as that of UTC.
func told(v any, typed bool) []byte {
	switch at := v.(type) {
	case time.Time:
		v = at.UTC()
	case *time.Time:
		v = at.UTC()
	case stdsql.NullTime:
		v = at.Time.UTC()
	case stdsql.Null[time.Time]:
		v = at.V.UTC()
	case visit:
		v = at.at.UTC()
	}
	text, err := json.Marshal(v)
	if err != nil { // of what JSON has not
		text = fmt.Append(nil, reflect.Indirect(reflect.ValueOf(v)))
	}
	if typed {
		text = fmt.Appendf(text, " of a %T", v)
	}
	return text
}

// TestColumns: where Check passes a field of Options.Row by its column, each value of the field's type is read back as it was
// written, and is the same in JSON, or refused when it is written.
func TestColumns(t *testing.T) {
	for name, of := range fieldsOf {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, dsn := sqltest.DSN(t, databases[name].server)
			_, most, _ := configurationsOf(name)
			for i, access := range of.access {
				if name == "mariadb" && access != "" {
					access = "?" + access
				}
				db, err := stdsql.Open(client, dsn+access)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = db.Close() }()
				if name == "postgres" && i == 0 {
					for _, s := range []string{"CREATE EXTENSION IF NOT EXISTS citext", "CREATE TYPE mood AS ENUM ('a', 'b', '3')", "CREATE DOMAIN positive AS bigint CHECK (value > 0)"} {
						mustExec(t, db, PostgreSQL, s)
					}
				}
				for n, column := range of.columns {
					if i > 0 && most < 100 && n%6 != i%6 { // by night all
						continue
					}
					dialect := databases[name].dialect
					table := fmt.Sprintf("t%d", tables.Add(1))
					mustExec(t, db, dialect, "CREATE TABLE "+table+" (id "+strings.TrimSuffix(dialects[dialect].types().key(90), " NOT NULL")+" NOT NULL PRIMARY KEY, f "+column+", created_at BIGINT, expires_at BIGINT, sweep_at BIGINT NOT NULL DEFAULT 0, version BIGINT)")
					mustExec(t, db, dialect, "CREATE INDEX "+table+"_s ON "+table+" (sweep_at)")
					f := fieldsIn{t, db, dialect, table, access, column, false}
					field(f, texts...)
					field(f, int64(1), 0, -1, 7, 3, 70, 2020, 101, 20200101, 16777217, 1<<53+1, 1e15, math.MaxInt64, math.MinInt64)
					field(f, level(1), 20200101, 1<<53+1)
					field(f, state(1), 3, 7)
					field(f, uint8(1), 0, 7, 255)
					field(f, uint64(1), 0, 20200101, 1<<53+1, math.MaxUint64)
					field(f, 1.5, 0, 1, 7, -0.5, 0.1, 0.3, 1.0/3, 1234567, 16777217, 1e15, 1e21, 123456.789, 5e-324, math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1))
					field(f, float32(1.5), 1, 0.1, 1234567, 16777216, 1e10, math.MaxFloat32, float32(math.NaN()), float32(math.Inf(1)))
					field(f, true, false)
					field(f, time.Second, time.Nanosecond, time.Hour)
					field(f, new(5), new(1<<53+1))
					field(f, new(0.1), new(2.0), new(math.NaN()))
					field(f, pointers...)
					field(f, stdsql.NullInt64{Int64: 7, Valid: true}, stdsql.NullInt64{Int64: 1<<53 + 1, Valid: true})
					field(f, stdsql.NullInt32{Int32: 7, Valid: true})
					field(f, stdsql.Null[uint16]{V: 7, Valid: true})
					field(f, stdsql.NullFloat64{Float64: 0.1, Valid: true}, stdsql.NullFloat64{Float64: math.Inf(-1), Valid: true})
					field(f, stdsql.Null[float32]{V: 0.1, Valid: true})
					field(f, stdsql.NullBool{Bool: true, Valid: true})
					field(f, times...)
					field(f, &times[0], &times[2])
					field(f, stdsql.NullTime{Time: noon, Valid: true}, stdsql.NullTime{Time: times[2], Valid: true})
					field(f, stdsql.Null[time.Time]{V: noon.Add(time.Millisecond), Valid: true}, stdsql.Null[time.Time]{V: times[3], Valid: true})
					field(f, consent(true), false)
					field(f, onOff(true))
					field(f, owners...)
					field(f, degrees(21.57), 1.5, 0.5)
					field(f, slog.LevelWarn)
					field(f, []string{"a", "b"})
					field(f, []int64{1, 2})
					field(f, map[string]string{"a": "b"})
					field(f, struct{ A int }{7})
					field(f, netip.MustParseAddr("1.2.3.4"))
					field(f, [16]byte{1, 2, 3})
					field(f, []byte("ann"), []byte("[1,2]"), []byte("7"))
					field(f, blob("ann"), blob("[1,2]"), blob("7"), blob("3"), blob("2026-11-30"))
					field(f, new(blob("7")))
					field(f, json.RawMessage("7"), json.RawMessage(`{"a": [1, "b"]}`))
					field(f, stdsql.Null[json.RawMessage]{V: json.RawMessage("7"), Valid: true})
					field(f, net.IP{1, 2, 3, 4}, net.ParseIP("1.2.3.4"), net.ParseIP("2001:db8::1"))
					field(f, net.HardwareAddr{1, 2, 3, 4, 5, 6})
					field(f, stdsql.RawBytes("ann"), stdsql.RawBytes("bob"), stdsql.RawBytes("777"))
					field[any](f, "7", int64(7), 1.5, true, noon, []byte("7"))
					field[fmt.Stringer](f, state(7))
					if strings.HasPrefix(strings.ToLower(column), "timestamp") || strings.HasPrefix(column, "DATETIME(") || name == "sqlite" && column == "DATETIME" {
						field(f, visit{noon}, visit{times[2]})
					}
					f.sound = true
					switch column + access {
					case "numeric(3,3)", "DECIMAL(3,3)?parseTime=true":
						field(f, 0.5)
					case "timestamp", "timestamptz", "timestamp(3)", "DATETIME(6)?parseTime=true", "DATETIME":
						field(f, noon, times[2])
					case "text", "VARCHAR(200) CHARACTER SET utf8mb4?parseTime=true", "TEXT":
						field(f, role("admin"), "user")
						field(f, stdsql.Null[role]{V: "user", Valid: true})
						field(f, []byte("ann"))
					case "json", "jsonb", "JSON?parseTime=true":
						field(f, json.RawMessage("7"), json.RawMessage(`{"a": [1, "b"]}`))
					case "bytea", "VARBINARY(200)?parseTime=true", "BLOB":
						field(f, []byte("ann"))
						field(f, blob("ann"))
					}
				}
			}
		})
	}
}

// Of two columns of PostgreSQL whose names differ in case alone Check would see one.
func TestColumnsThatDifferInCase(t *testing.T) {
	type row struct{ F float64 }
	db := sqltest.DB(t, sqltest.PostgreSQL)
	mustExec(t, db, PostgreSQL, `CREATE TABLE twins (id text COLLATE "C" PRIMARY KEY, f numeric(9,0), "F" double precision, created_at bigint, expires_at bigint, sweep_at bigint NOT NULL DEFAULT 0, version bigint)`)
	mustExec(t, db, PostgreSQL, "CREATE INDEX ON twins (sweep_at)")
	d, err := New(db, PostgreSQL, "twins", &Options[row]{Row: Row[row]{Columns: []string{"f"}, Fields: func(r *row) []any { return []any{&r.F} }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context(), time.Hour); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "other letters") {
		t.Errorf("Check: %v", err)
	}
	mustExec(t, db, PostgreSQL, `CREATE TABLE others (id text COLLATE "C" PRIMARY KEY, value jsonb, "Region" text NOT NULL, region text, created_at bigint, "Ändert" bigint UNIQUE, sweep_at bigint NOT NULL DEFAULT 0, version bigint)`)
	o, err := New(db, PostgreSQL, "others", &Options[string]{ExpiresAt: TimeColumn{Name: "Ändert"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{"other letters", "in a unique index"} {
		if err := o.Check(t.Context(), time.Hour); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), word) {
			t.Errorf("Check: %v; want %q", err, word)
		}
	}
}

// fieldsIn is a table whose column f is of a type.
type fieldsIn struct {
	t              *testing.T
	db             *stdsql.DB
	dialect        Dialect
	table          string
	access, column string
	sound          bool // Check must pass
}

// field tries values of a type.
func field[F any](f fieldsIn, values ...F) {
	type row struct{ F F }
	f.t.Helper()
	d, err := New(f.db, f.dialect, f.table, &Options[row]{Row: Row[row]{Columns: []string{"f"}, Fields: func(r *row) []any { return []any{&r.F} }}})
	if err != nil {
		f.t.Fatal(err)
	}
	of := reflect.TypeFor[F]()
	what := fmt.Sprintf("%s in %s%s", of, f.column, f.access)
	isBytes := bare(of).Kind() == reflect.Slice && bare(of).Elem().Kind() == reflect.Uint8
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	if err := d.Check(ctx, time.Hour); err != nil {
		f.t.Logf("%s: refused", what)
		if f.sound {
			f.t.Errorf("%s: Check refuses what is sound: %v", what, err)
		}
		if !errors.Is(err, driver.ErrInvalid) {
			f.t.Errorf("%s: Check fails without a name: %v", what, err)
		}
		return
	}
	kept := 0
	var before struct {
		F    any
		want string
	}
	for i, v := range values {
		if (strings.HasSuffix(reflect.TypeOf(v).String(), "string") || reflect.TypeOf(v).Kind() == reflect.String) && slices.ContainsFunc(spelledBy, func(c string) bool { return strings.HasPrefix(f.column, c) }) {
			return
		}
		key := fmt.Sprint(of, i, f.sound)
		if _, err := d.Insert(ctx, key, row{v}, lasting(time.Hour), base); err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				f.t.Errorf("%s: Insert of %s fails without a name: %v", what, told(v, true), err)
			}
			continue
		}
		e, err := d.Get(ctx, key)
		want, got := told(v, of.Kind() == reflect.Interface), told(e.Value.F, of.Kind() == reflect.Interface)
		if was := told(before.F, of.Kind() == reflect.Interface); before.F != nil && string(was) != before.want {
			f.t.Errorf("%s: the next Get makes %s of %s", what, was, before.want)
		}
		before.F, before.want = e.Value.F, string(got)
		if err == nil && (roundedIn(f.column) && floats(v) && math.Abs(floatIn(v)-floatIn(e.Value.F)) <= 0.0005 || isBytes && !f.sound) { // what a column does to bytes is not judged
			kept++
			continue
		}
		if err != nil || string(got) != string(want) {
			f.t.Errorf("%s: Get of %s: %s, %v", what, want, got, err)
			continue
		}
		kept++
		raw, err := d.Raw(ctx, key)
		var o struct{ F json.RawMessage }
		if err == nil {
			err = json.Unmarshal(raw.Value, &o)
		}
		var a, b any
		_ = json.Unmarshal(o.F, &a)
		_ = json.Unmarshal(want, &b)
		n, numbered := b.(float64)
		if strings.Contains(reflect.TypeOf(v).String(), "float32") && numbered {
			if m, ok := a.(float64); ok {
				a = float64(float32(m))
			}
			n = float64(float32(n))
		}
		if text, ok := a.(string); ok && numbered { // a number that is none in JSON
			var m float64
			if _, err := fmt.Sscan(text, &m); err == nil {
				a = m
				if strings.Contains(reflect.TypeOf(v).String(), "float32") {
					a = float64(float32(m))
				}
			}
		}
		if numbered && (err != nil || a != n) {
			f.t.Errorf("%s: Raw of %s is %s, %v", what, want, raw.Value, err)
		}
	}
	if kept == 0 && !isBytes { // of which the column may refuse each
		f.t.Errorf("%s: Check passes, and none of %d values is kept", what, len(values))
	}
	f.t.Logf("%s: %d of %d are kept", what, kept, len(values))
}
