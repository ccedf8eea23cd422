//go:build night

package archive

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// node runs a program of engines with in, and reads what it prints into out.
func node(t *testing.T, program string, in, out any) {
	t.Helper()
	if _, err := os.Stat("engines/node_modules"); err != nil {
		t.Fatalf("make npm-night brings the engines: %v", err)
	}
	told, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "node", program)
	c.Dir, c.Stdin = "engines", bytes.NewReader(told)
	var errs bytes.Buffer
	c.Stderr = &errs
	said, err := c.Output()
	if err == nil {
		err = json.Unmarshal(said, out)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
}

// ClickHouse answers what docs/queries.md asks as DuckDB does, before a compaction and after.
func TestClickHouse(t *testing.T) {
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, owner)
	db, asked := look(t, path)
	for range 2 {
		statements, questions := queries(t, "ClickHouse", path)
		if len(questions) != len(asked) {
			t.Fatalf("ClickHouse is asked %d questions, DuckDB %d", len(questions), len(asked))
		}
		from := len(statements)
		statements = append(append(statements, questions...), "SELECT count() FROM lives")
		var answers [][][]string
		node(t, "clickhouse.mjs", statements, &answers)
		for i, q := range asked {
			got, want := answers[from+i], ask(t, db, q)
			for _, row := range got {
				for j, v := range row {
					if f, err := strconv.ParseFloat(v, 64); err == nil {
						row[j] = strconv.FormatFloat(f, 'g', 10, 64)
					}
				}
			}
			for _, row := range want {
				for j, v := range row {
					if f, err := strconv.ParseFloat(v, 64); err == nil {
						row[j] = strconv.FormatFloat(f, 'g', 10, 64)
					}
				}
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s\nClickHouse answers %v\nDuckDB %v", questions[i], got, want)
			}
		}
		if n := answers[len(answers)-1][0][0]; n != fmt.Sprint(len(read(t, b))) {
			t.Errorf("ClickHouse finds %s lives", n)
		}
		if _, err := archive.Compact(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// ClickHouse's view of the files that count has the lives that the Reader has, each once.
func TestClickHouseView(t *testing.T) {
	path, b := untidy(t)
	view, err := archive.NewReader(b).View(t.Context(), "clickhouse", path, "", archive.Span{})
	if err != nil {
		t.Fatal(err)
	}
	var answers [][][]string
	node(t, "clickhouse.mjs", []string{strings.TrimRight(view, ";\n"), "SELECT toString(day), key, generation FROM lives"}, &answers)
	var got []string
	for _, row := range answers[len(answers)-1] {
		got = append(got, strings.Join(row, ""))
	}
	slices.Sort(got)
	if want := lives(t, b); len(want) < 500 || !slices.Equal(got, want) {
		t.Errorf("%d lives; want %d", len(got), len(want))
	}
}

// A reader of Parquet that shares no code with ours, nor with DuckDB's, reads every column of every record.
func TestHyparquet(t *testing.T) {
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, owner)
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(path, "day=*", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	var rows []struct {
		Key, Source, Generation, Reason, Format string
		CreatedAt                               *time.Time `json:"created_at"`
		ExpiredAt                               time.Time  `json:"expired_at"`
		ArchivedAt                              time.Time  `json:"archived_at"`
		Value                                   []byte
		UserID                                  *string `json:"user_id"`
	}
	node(t, "hyparquet.mjs", files, &rows)
	want := read(t, b)
	if len(rows) != len(want) {
		t.Fatalf("%d records; want %d", len(rows), len(want))
	}
	for i, r := range rows {
		got := archive.Archived{Source: r.Source, ArchivedAt: driver.Floor(r.ArchivedAt), Record: archive.Record{
			Key: key(r.Key), Generation: r.Generation, ExpiredAt: driver.Floor(r.ExpiredAt), Reason: archive.Reason(r.Reason), Format: r.Format, Value: r.Value,
		}}
		if r.CreatedAt != nil {
			got.CreatedAt = driver.Floor(*r.CreatedAt)
		}
		if r.UserID != nil {
			got.Columns = map[string]any{"user_id": *r.UserID}
		}
		if !reflect.DeepEqual(got, want[i]) {
			t.Fatalf("hyparquet reads\n%+v\nthe Reader\n%+v (%s)", got, want[i], base64.StdEncoding.EncodeToString([]byte(want[i].Key)))
		}
	}
}
