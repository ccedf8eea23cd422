package archive

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/archive"
)

// untidy returns an archive that has lives twice, and what a killed Forget has left behind.
func untidy(t *testing.T) (path string, b archive.Bucket) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "it's here")
	d, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, d, owner)
	was := map[string][]byte{}
	names, _ := filepath.Glob(filepath.Join(path, "day=*", "*.parquet"))
	for _, name := range names {
		if was[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := archive.Forget(t.Context(), d, archive.Selection{Keys: []string{dead(33, 0).Key}}, nil); err != nil {
		t.Fatal(err)
	}
	for name, content := range was {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path, d
}

// lives are the day, key and generation of each life that the Reader tells.
func lives(t *testing.T, b archive.Bucket) (all []string) {
	t.Helper()
	for _, a := range read(t, b) {
		all = append(all, fmt.Sprint(archive.DayOf(a.ExpiredAt), stored(a.Key), a.Generation))
	}
	slices.Sort(all)
	return all
}

// DuckDB's view of the files that count has the lives that the Reader has, each once, also beside files
// that do not count; and so after a compaction, and of some of the days.
func TestView(t *testing.T) {
	path, b := untidy(t)
	db := duck(t)
	for range 2 {
		view, err := archive.NewReader(b).View(t.Context(), "duckdb", path, "", archive.Span{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), view); err != nil {
			t.Fatalf("%v in\n%s", err, view)
		}
		var got []string
		for _, row := range ask(t, db, "SELECT CAST(day AS VARCHAR), key, generation FROM lives") {
			got = append(got, row[0]+row[1]+row[2])
		}
		slices.Sort(got)
		if want := lives(t, b); len(want) < 500 || !slices.Equal(got, want) {
			t.Errorf("%d lives; want %d", len(got), len(want))
		}
		if _, err := archive.Compact(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
	}
	day := archive.DayOf(dead(0, 1).ExpiredAt)
	for engine, want := range map[string]string{
		"duckdb":     "'" + strings.ReplaceAll(path, "'", "''") + "/day=" + day.String() + "/merge",
		"clickhouse": "file('" + strings.ReplaceAll(path, "'", "''") + "/day=*/*.parquet', Parquet)",
		"athena":     `WHERE "$path" IN (`,
	} {
		view, err := archive.NewReader(b).View(t.Context(), engine, path, "", archive.Span{From: day, To: day})
		if err != nil || !strings.Contains(view, want) || strings.Count(view, "-49-") != 1 {
			t.Errorf("%s: %v\n%s", engine, err, view)
		}
	}
	view, err := archive.NewReader(b).View(t.Context(), "clickhouse", "s3://links/dead/", "https://links.s3.eu-central-1.amazonaws.com", archive.Span{From: day, To: day})
	if err != nil || !strings.Contains(view, "s3('https://links.s3.eu-central-1.amazonaws.com/dead/day=*/*.parquet', 'Parquet')") || !strings.Contains(view, "'links/dead/day="+day.String()) {
		t.Errorf("%v\n%s", err, view)
	}
	for _, c := range []struct {
		engine, root string
		span         archive.Span
	}{{"hive", path, archive.Span{}}, {"duckdb", path, archive.Span{To: 1}}, {"duckdb", "/a/day=x/b", archive.Span{}}, {"duckdb", "day=x/b", archive.Span{}}} {
		if view, err := archive.NewReader(b).View(t.Context(), c.engine, c.root, "", c.span); err == nil {
			t.Errorf("%s of %s, %v:\n%s", c.engine, c.root, c.span, view)
		}
	}
}
