package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
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
