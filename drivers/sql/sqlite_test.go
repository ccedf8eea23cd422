package sql

import (
	"context"
	stdsql "database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// TestTurn: a writer waits for its turn no longer than its context, and then has written nothing.
// Reads do not wait.
func TestTurn(t *testing.T) {
	d := open[session](t, sqltest.DB(t, sqltest.SQLite), SQLite, nil)
	was := d.mustInsert(t, "k", session{"ann"}, lasting(time.Minute))
	if err := d.turn.take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := d.Insert(ctx, "l", session{"bob"}, lasting(time.Minute), base)
		ended <- err
	}()
	go func() {
		_, _, err := d.ReadTouch(ctx, "k", nil, driver.Access{At: base, Keep: 3600e3, Stored: 3600e3, Most: 7200e3, Step: time.Millisecond}, base)
		ended <- err
	}()
	if e := d.mustGet(t, "k"); e.Meta != was {
		t.Errorf("stored is %+v, want %+v", e.Meta, was)
	}
	leave()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrAmbiguous) {
			t.Errorf("a write that waited: %v", err)
		}
	}
	d.turn.pass()
	if _, err := d.Get(t.Context(), "l"); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("Get of what was never written: %v", err)
	}
	d.mustInsert(t, "l", session{"bob"}, lasting(time.Minute))
}

// TestCompiledOnce: each text is compiled once, and again after the table has changed.
func TestCompiledOnce(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	d := open[session](t, db, SQLite, nil)
	d.mustInsert(t, "k", session{"ann"}, lasting(time.Minute))
	for range 10 {
		d.mustGet(t, "k")
	}
	n, texts := 0, []string{"SELECT " + d.dialect.clock(), d.sql.getTimed, d.sql.get} // Learn, a read that asks for the time too, all others
	d.reads.(*compiled).all.Range(func(text, _ any) bool {
		n++
		if !slices.Contains(texts, text.(string)) {
			t.Errorf("ten reads compiled %s", text)
		}
		return true
	})
	if n != len(texts) {
		t.Errorf("ten reads compiled %d statements; want %d", n, len(texts))
	}
	mustExec(t, db, SQLite, "DROP TABLE "+d.name)
	if _, err := d.Get(t.Context(), "k"); !errors.Is(err, driver.ErrRefused) {
		t.Errorf("Get without a table: %v", err)
	}
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	d.mustInsert(t, "k", session{"bob"}, lasting(time.Minute))
	if e := d.mustGet(t, "k"); e.Value.User != "bob" {
		t.Errorf("%+v", e)
	}
}

// TestNumbers: a value that is a number is refused, or read as it was written, by a type of its own and by SQL,
// whatever the column's affinity. Columns of text refuse none.
func TestNumbers(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	for i, kind := range []string{"TEXT", "JSON", "NUMERIC", "INTEGER", "BLOB", ""} {
		name := fmt.Sprint("numbers", i)
		mustExec(t, db, SQLite, "CREATE TABLE "+name+" (id TEXT NOT NULL PRIMARY KEY, value "+kind+")")
		d, err := New[json.Number](db, SQLite, name, nil)
		if err == nil {
			err = errors.Join(d.EnsureTable(t.Context()), d.Check(t.Context(), time.Hour))
		}
		if err != nil {
			t.Fatal(err)
		}
		refuses := kind == "JSON" || kind == "NUMERIC" || kind == "INTEGER"
		refused := make(map[json.Number]bool)
		for _, v := range []json.Number{"0", "-0", "0.0", "1", "-1", "1.5", "1.50", "-0.1", "1e5", "1E5", "1e+06", "1e+21", "123456.5", "1234567.5", "100000000000000.5", "9223372036854775807", "9223372036854775808", "18446744073709551615",
			"-9223372036854775808", "12345678901234567890", "0.12345678901234567890123", "1e-400", "1e400", "0.00001", "0.001", "5.00", "6.20", "7.50", "8.50", "9.50"} {
			if _, err := d.Insert(t.Context(), string(v), v, lasting(time.Hour), base); refuses && errors.Is(err, driver.ErrInvalid) {
				refused[v] = true
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if e := d.mustGet(t, string(v)); e.Value != v {
				t.Errorf("%s: %s is read as %s", kind, v, e.Value)
			}
			if raw, err := d.Raw(t.Context(), string(v)); err != nil || string(raw.Value) != string(v) {
				t.Errorf("%s: %s is in the table as %s, %v", kind, v, raw.Value, err)
			}
			var n, want float64
			err := db.QueryRowContext(t.Context(), "SELECT json_extract(value, '$'), json_extract(?, '$') FROM "+name+" WHERE id = ?", string(v), string(v)).Scan(&n, &want)
			if err != nil || n != want {
				t.Errorf("%s: %s is read by others as %v, %v", kind, v, n, err)
			}
		}
		for _, v := range []json.Number{"0", "1", "-1", "1.5", "-0.1", "123456.5", "9223372036854775807"} {
			if refused[v] {
				t.Errorf("%s: %s is refused", kind, v)
			}
		}
	}
}

// TestFields: a column of Row refuses what it would change, or what JSON has no form for, and is read as it was
// written otherwise, whatever its affinity.
func TestFields(t *testing.T) {
	type row struct {
		S *string
		N *int64
		F *float64
	}
	rows := []row{{}}
	for _, s := range []string{"", "x", "007", "7", "1.50", "1.5", ".5", "5.", "+49", "-0", " 5 ", "\v5", "1e5", "5\x00", "a\x00b", "0x10", "inf", "1e", "10.0.0.1", "2020-01-01", "2020-01-01T00:00:00Z", "12:30", "\xff", "\u00fc"} {
		rows = append(rows, row{S: &s})
	}
	for _, n := range []int64{0, -1, 7, 999999, 1000000, 1<<53 + 1, math.MaxInt64, math.MinInt64} {
		rows = append(rows, row{N: &n})
	}
	for _, f := range []float64{0, -1, 1.5, 1e6, 1e22, 5e-324, 123456789.123456789, 1 << 60, math.NaN(), math.Inf(1), math.Inf(-1)} {
		rows = append(rows, row{F: &f})
	}
	db := sqltest.DB(t, sqltest.SQLite)
	for i, c := range []struct {
		kind    string
		texts   bool // may be held by it
		refused int
	}{
		{"TEXT", true, 4}, {"", true, 4}, {"BLOB", true, 4}, {"STRING", true, 14}, {"NUMERIC", true, 14}, {"INTEGER", true, 14}, {"JSON", true, 14},
		{"DATE", false, 4}, {"DATETIME", false, 4}, {"REAL", false, 8}, {"DOUBLE", false, 8},
	} {
		name := fmt.Sprint("fields", i)
		d, err := New(db, SQLite, name, &Options[row]{Row: Row[row]{Columns: []string{"s", "n", "f"}, Fields: func(r *row) []any { return []any{&r.S, &r.N, &r.F} }}})
		if err != nil {
			t.Fatal(err)
		}
		texts := []string{c.kind, "TEXT"}
		if c.texts {
			slices.Reverse(texts) // the rows are written to the last
		}
		for _, text := range texts {
			mustExec(t, db, SQLite, "DROP TABLE IF EXISTS "+name)
			mustExec(t, db, SQLite, fmt.Sprintf("CREATE TABLE %s (id TEXT NOT NULL PRIMARY KEY, s %s, n %s, f %[3]s)", name, text, c.kind))
			if err := errors.Join(d.EnsureTable(t.Context()), d.Check(t.Context(), time.Hour)); (err == nil) != (c.texts || text == "TEXT") {
				t.Errorf("Check of a text in a column of %q: %v", text, err)
			}
		}
		refused := 0
		for i, v := range rows {
			want, _ := json.Marshal(v)
			key := fmt.Sprint(i)
			if _, err := d.Insert(t.Context(), key, v, lasting(time.Hour), base); errors.Is(err, driver.ErrInvalid) {
				refused++
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if e := d.mustGet(t, key); !reflect.DeepEqual(e.Value, v) {
				got, _ := json.Marshal(e.Value)
				t.Errorf("%s: %s is read as %s", c.kind, want, got)
			}
			var all map[string]any
			if raw, err := d.Raw(t.Context(), key); err != nil || !utf8.Valid(raw.Value) || json.Unmarshal(raw.Value, &all) != nil {
				t.Errorf("%s: %s is in the table as %q, %v", c.kind, want, raw.Value, err)
			}
		}
		if refused != c.refused {
			t.Errorf("%s: %d of %d rows are refused; want %d", c.kind, refused, len(rows), c.refused)
		}
	}
}

// TestBoolsAndTimes: Check refuses a column that gives back another type than it was given, of any affinity.
// What a column that passes takes is read as it was written.
func TestBoolsAndTimes(t *testing.T) {
	db := sqltest.DB(t, sqltest.SQLite)
	plain := []string{"TEXT", "VARCHAR(9)", "CLOB", "", "BLOB", "INTEGER", "BIGINT", "NUMERIC", "DECIMAL(9,2)", "BOOLEAN", "STRING", "JSON", "TIME", "POINT"}
	floating, dates := []string{"REAL", "DOUBLE", "FLOAT"}, []string{"DATE", "DATETIME", "TIMESTAMP", "timestamp"}
	holds := func(kind string, all ...[]string) bool { return slices.Contains(slices.Concat(all...), kind) }
	n := 0
	for _, kind := range slices.Concat(plain, floating, dates, []string{"STRICT TEXT", "STRICT INTEGER", "STRICT REAL", "STRICT BLOB", "STRICT ANY"}) {
		column, strict := strings.CutPrefix(kind, "STRICT ")
		of := func(what string, passes bool, try func(name string) (faults []error, check error)) {
			n++
			name, after := fmt.Sprint("kinds", n), ""
			if strict {
				after = " STRICT"
			}
			mustExec(t, db, SQLite, "CREATE TABLE "+name+" (id TEXT NOT NULL PRIMARY KEY, v "+column+", created_at INTEGER, expires_at INTEGER, sweep_at INTEGER NOT NULL DEFAULT 0, version INTEGER)"+after)
			mustExec(t, db, SQLite, "CREATE INDEX "+name+"_sweep ON "+name+" (sweep_at)")
			faults, check := try(name)
			if (check == nil) != passes || check != nil && !errors.Is(check, driver.ErrInvalid) {
				t.Errorf("Check of a %s in a column of %q: %v", what, kind, check)
			}
			for _, err := range faults {
				t.Errorf("a %s in a column of %q: %v", what, kind, err)
			}
		}
		bools := holds(kind, plain, dates, []string{"STRICT TEXT", "STRICT INTEGER", "STRICT ANY"})
		yes := true
		of("bool", bools, func(name string) ([]error, error) { return back(t, db, name, equal, false, true) })
		of("*bool", bools, func(name string) ([]error, error) { return back(t, db, name, deeply, nil, &yes) })
		of("NullBool", bools, func(name string) ([]error, error) {
			return back(t, db, name, equal, stdsql.NullBool{}, stdsql.NullBool{Bool: true, Valid: true})
		})
		of("Null[bool]", bools, func(name string) ([]error, error) {
			return back(t, db, name, equal, stdsql.Null[bool]{}, stdsql.Null[bool]{V: true, Valid: true})
		})
		times := []time.Time{{}, time.Now(), time.UnixMicro(1600000000123456), time.Date(1999, 12, 31, 23, 59, 59, 123456789, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999999999, time.UTC)}
		for _, zone := range []*time.Location{time.FixedZone("", 5400), time.FixedZone("CET", 3600), time.FixedZone("LMT", 1172), time.FixedZone("of one's own", -3600), time.FixedZone("m=7", 7200)} {
			times = append(times, time.Date(2020, 1, 2, 3, 4, 5, 6, zone))
		}
		var pointers []*time.Time
		var nulls []stdsql.NullTime
		for _, at := range times {
			pointers, nulls = append(pointers, &at), append(nulls, stdsql.NullTime{Time: at, Valid: true})
		}
		of("time.Time", holds(kind, dates), func(name string) ([]error, error) { return back(t, db, name, time.Time.Equal, times...) })
		of("*time.Time", holds(kind, dates), func(name string) ([]error, error) {
			return back(t, db, name, func(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }, append(pointers, nil)...)
		})
		of("NullTime", holds(kind, dates), func(name string) ([]error, error) {
			return back(t, db, name, func(a, b stdsql.NullTime) bool { return a.Valid == b.Valid && a.Time.Equal(b.Time) }, append(nulls, stdsql.NullTime{})...)
		})
	}
}

func equal[V comparable](a, b V) bool { return a == b }

func deeply[V any](a, b V) bool { return reflect.DeepEqual(a, b) }

// back writes each of all into a table's column v and reads it, if Check passes.
func back[V any](t *testing.T, db *stdsql.DB, name string, same func(a, b V) bool, all ...V) (faults []error, check error) {
	type row struct{ V V }
	d, err := New(db, SQLite, name, &Options[row]{Row: Row[row]{Columns: []string{"v"}, Fields: func(r *row) []any { return []any{&r.V} }}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Check(t.Context(), time.Hour); err != nil {
		return nil, err
	}
	for i, v := range all {
		_, err := d.Insert(t.Context(), fmt.Sprint(i), row{v}, lasting(time.Hour), base)
		var e driver.Entry[row]
		if err == nil {
			e, err = d.Get(t.Context(), fmt.Sprint(i))
		}
		if err == nil && same(e.Value.V, v) { // and by RETURNING
			e, _, err = d.ReadTouch(t.Context(), fmt.Sprint(i), nil, driver.Access{At: base, Keep: 3600e3, Stored: 3600e3, Most: 7200e3, Step: time.Millisecond}, base)
		}
		if err != nil || !same(e.Value.V, v) {
			faults = append(faults, fmt.Errorf("%v is read as %v, %w", v, e.Value.V, err))
		}
	}
	return faults, nil
}
