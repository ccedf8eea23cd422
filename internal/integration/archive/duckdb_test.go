package archive

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	_ "github.com/duckdb/duckdb-go/v2" // registers "duckdb"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

func duck(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// owner is a column of the value's, null where it is not JSON.
var owner = archive.NewColumn("user_id", func(r *archive.Record) (string, bool, error) {
	var v struct{ Owner string }
	if r.Format != "json" || json.Unmarshal(r.Value, &v) != nil {
		return "", false, nil
	}
	return v.Owner, true, nil
})

// key is what DuckDB reads as a key.
func key(text string) string {
	coded, ok := strings.CutPrefix(text, "base64:")
	if !ok {
		return text
	}
	raw, err := base64.StdEncoding.DecodeString(coded)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// stored is key as an engine reads it.
func stored(key string) string {
	if utf8.ValidString(key) && !strings.HasPrefix(key, "base64:") {
		return key
	}
	return "base64:" + base64.StdEncoding.EncodeToString([]byte(key))
}

// DuckDB reads every file, one by one, and agrees with the Reader in every column of every row.
func TestDuckDBAgrees(t *testing.T) {
	db := duck(t)
	for _, compacted := range []bool{false, true} {
		path := t.TempDir()
		b, err := archive.OpenDirectory(path)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, b, owner)
		if compacted {
			if _, err := archive.Compact(t.Context(), b, nil); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]archive.Archived{}
		for _, a := range read(t, b) {
			want[fmt.Sprint(a.Key, a.Generation, a.ExpiredAt)] = a
		}
		files, err := filepath.Glob(filepath.Join(path, "day=*", "*.parquet"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		seen := 0
		for _, file := range files {
			rows, err := db.QueryContext(t.Context(), `
				SELECT key, source, generation, created_at, expired_at, archived_at, reason, format, value, user_id
				FROM read_parquet(?, hive_partitioning = false)`, file)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for rows.Next() {
				var a archive.Archived
				var created *time.Time
				var expired, archived time.Time
				var reason string
				var owner *string
				if err := rows.Scan(&a.Key, &a.Source, &a.Generation, &created, &expired, &archived, &reason, &a.Format, &a.Value, &owner); err != nil {
					t.Fatal(err)
				}
				if a.Key < last || !utf8.ValidString(a.Key) {
					t.Errorf("%s is not sorted, or not text", file)
				}
				last = a.Key
				a.Key, a.Reason = key(a.Key), archive.Reason(reason)
				a.ExpiredAt, a.ArchivedAt = driver.Floor(expired), driver.Floor(archived)
				if created != nil {
					a.CreatedAt = driver.Floor(*created)
				}
				if owner != nil {
					a.Columns = map[string]any{"user_id": *owner}
				}
				if w := want[fmt.Sprint(a.Key, a.Generation, a.ExpiredAt)]; !reflect.DeepEqual(a, w) {
					t.Fatalf("DuckDB reads\n%+v\nthe Reader\n%+v", a, w)
				}
				seen++
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			_ = rows.Close()
		}
		if n := map[bool]int{false: 651, true: 551}[compacted]; seen != n {
			t.Errorf("DuckDB reads %d rows; want %d", seen, n)
		}
	}
}

// DuckDB reads a column of each type as what it is, before and after compaction.
func TestDuckDBColumns(t *testing.T) {
	columns := []struct {
		name     string
		column   archive.Column
		typ, val string // as DuckDB says
	}{
		{"text", archive.NewColumn("text", value("seven")), "VARCHAR", "seven"},
		{"integer", archive.NewColumn("integer", value(int64(-7))), "BIGINT", "-7"},
		{"number", archive.NewColumn("number", value(7.5)), "DOUBLE", "7.5"},
		{"boolean", archive.NewColumn("boolean", value(true)), "BOOLEAN", "true"},
		{"time", archive.NewColumn("time", value(driver.Floor(noon))), "TIMESTAMP WITH TIME ZONE", "2026-11-22 12:00:00+00"},
		{"bytes", archive.NewColumn("bytes", value([]byte("\xff7"))), "BLOB", `\xFF7`},
		{"none", archive.NewColumn("none", func(*archive.Record) (int64, bool, error) { return 0, false, nil }), "BIGINT", "<nil>"},
	}
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	var own []archive.Column
	for _, c := range columns {
		own = append(own, c.column)
	}
	fill(t, b, own...)
	db := duck(t)
	db.SetMaxOpenConns(1) // a setting belongs to a connection
	if _, err := db.ExecContext(t.Context(), "SET TimeZone = 'UTC'"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, c := range columns {
			var typ string
			var val *string
			var n int
			query := fmt.Sprintf(`SELECT typeof("%[1]s"), "%[1]s"::VARCHAR, count(*) FROM read_parquet('%[2]s/day=*/*.parquet') GROUP BY ALL`, c.name, path)
			if err := db.QueryRowContext(t.Context(), query).Scan(&typ, &val, &n); err != nil {
				t.Fatal(c.name, err)
			}
			got := "<nil>"
			if val != nil {
				got = *val
			}
			if typ != c.typ || got != c.val || n < 551 {
				t.Errorf("%s: %s %s in %d rows; want %s %s", c.name, typ, got, n, c.typ, c.val)
			}
		}
		if _, err := archive.Compact(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// value is a column of one value.
func value[T string | int64 | float64 | bool | driver.Instant | []byte](v T) func(*archive.Record) (T, bool, error) {
	return func(*archive.Record) (T, bool, error) { return v, true, nil }
}
