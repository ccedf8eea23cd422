package archive

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/archive"
)

// queries are the statements of docs/queries.md for an engine, over the archive at path, with a key that
// it has: those that make views, and those that ask.
func queries(t *testing.T, engine, path string) (views, questions []string) {
	t.Helper()
	content, err := os.ReadFile("../../../docs/queries.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range regexp.MustCompile("(?s)```sql\n-- "+engine+"\n(.*?);\n```").FindAllStringSubmatch(string(content), -1) {
		text := strings.NewReplacer("/var/lib/links/archive", path, "'abc'", "'"+dead(33, 0).Key+"'").Replace(q[1])
		if strings.HasPrefix(text, "CREATE") {
			views = append(views, text)
		} else {
			questions = append(questions, text)
		}
	}
	if len(views) != 2 || len(questions) < 5 {
		t.Fatalf("the document has %d views and %d questions for %s", len(views), len(questions), engine)
	}
	return views, questions
}

// ask returns what DuckDB answers, as text.
func ask(t *testing.T, db *sql.DB, question string) (all [][]string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), question)
	if err != nil {
		t.Fatalf("%s\n%v", question, err)
	}
	defer func() { _ = rows.Close() }()
	names, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
		values, dest := make([]any, len(names)), make([]any, len(names))
		for i := range values {
			dest[i] = &values[i]
		}
		if err := rows.Scan(dest...); err != nil {
			t.Fatal(err)
		}
		row := make([]string, len(names))
		for i, v := range values {
			row[i] = text(names[i], v)
		}
		all = append(all, row)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

func text(column string, v any) string {
	switch v := v.(type) {
	case time.Time:
		if column == "day" {
			return v.UTC().Format(time.DateOnly)
		}
		return v.UTC().Format("2006-01-02 15:04:05.000")
	case float64:
		return strconv.FormatFloat(v, 'g', 10, 64)
	case *big.Int:
		return v.String()
	}
	return fmt.Sprint(v)
}

// look makes the views of docs/queries.md in a DuckDB.
func look(t *testing.T, path string) (db *sql.DB, questions []string) {
	t.Helper()
	db = duck(t)
	db.SetMaxOpenConns(1) // a database in memory is its connection's
	views, questions := queries(t, "DuckDB", path)
	for _, view := range views {
		if _, err := db.ExecContext(t.Context(), view); err != nil {
			t.Fatalf("%s\n%v", view, err)
		}
	}
	return db, questions
}

// The queries of docs/queries.md run as they stand there, but for names, and answer the same before a compaction
// and after. There are as many lives as the Reader tells.
func TestDocumentedQueries(t *testing.T) {
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, owner)
	db, questions := look(t, path)
	var before [][][]string
	for _, q := range questions {
		rows := ask(t, db, q)
		if len(rows) == 0 {
			t.Errorf("%s\nno answer", q)
		}
		before = append(before, rows)
	}
	if n := ask(t, db, "SELECT count(*) FROM dead"); n[0][0] != "651" {
		t.Errorf("%s rows before the compaction", n[0][0])
	}
	if _, err := archive.Compact(t.Context(), b, nil); err != nil {
		t.Fatal(err)
	}
	for i, q := range questions {
		if rows := ask(t, db, q); strings.Contains(q, "FROM lives") && !reflect.DeepEqual(rows, before[i]) {
			t.Errorf("%s\n%v\nbefore the compaction\n%v", q, rows, before[i])
		}
	}
	for _, from := range []string{"lives", "dead"} {
		if n := ask(t, db, "SELECT count(*) FROM "+from); n[0][0] != fmt.Sprint(len(read(t, b))) {
			t.Errorf("%s rows of %s", n[0][0], from)
		}
	}
}

// stopping is a bucket whose process is killed after some changes.
type stopping struct {
	archive.Bucket
	left atomic.Int64 // changes until it is killed
}

// stopAfter returns b, whose process is killed after so many changes.
func stopAfter(b archive.Bucket, changes int) *stopping {
	s := &stopping{Bucket: b}
	s.left.Store(int64(changes))
	return s
}

var errStopped = errors.New("stopped")

func (s *stopping) Create(ctx context.Context, dir string, write func(io.Writer) (string, error)) error {
	if s.left.Add(-1) < 0 {
		return errStopped
	}
	return s.Bucket.Create(ctx, dir, write)
}

func (s *stopping) Remove(ctx context.Context, name string) error {
	if s.left.Add(-1) < 0 {
		return errStopped
	}
	return s.Bucket.Remove(ctx, name)
}

// Wherever a compaction or a Forget stops, an engine that goes by the files alone finds each life once by
// the view of docs/queries.md; and when a Forget has returned it finds none of those that were forgotten,
// in whatever way they were named.
func TestEnginesBetween(t *testing.T) {
	path := t.TempDir()
	b, err := archive.OpenDirectory(path)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, b, owner)
	db, _ := look(t, path)
	count := func(where string) int {
		n, err := strconv.Atoi(ask(t, db, "SELECT count(*) FROM "+where)[0][0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	until := func(what, forgotten string, op func(archive.Bucket) error) {
		others := "lives WHERE NOT coalesce(" + forgotten + ", false)"
		all := count(others)
		for stops := 0; ; stops++ {
			err := op(stopAfter(b, stops))
			if n := count(others); n != all {
				t.Errorf("%s, stopped after %d changes: %d lives of %d", what, stops, n, all)
			}
			if !errors.Is(err, errStopped) {
				if err != nil || stops == 0 {
					t.Fatal(what, stops, err)
				}
				return
			}
		}
	}
	if n, all := count("lives"), len(read(t, b)); n != all {
		t.Errorf("%d lives of %d", n, all)
	}
	until("a compaction", "false", func(b archive.Bucket) error {
		_, err := archive.Compact(t.Context(), b, nil)
		return err
	})
	for what, c := range map[string]struct {
		means archive.Selection
		where string
	}{
		"a column": {archive.Selection{Column: "user_id", Value: "u-3"}, "user_id = 'u-3'"},
		"a prefix": {archive.Selection{Prefix: "key-0004"}, "key LIKE 'key-0004%'"},
		"a list":   {archive.Selection{Keys: []string{dead(1, 0).Key, dead(2, 0).Key}}, "key IN ('" + stored(dead(1, 0).Key) + "', '" + stored(dead(2, 0).Key) + "')"},
	} {
		held := count("dead WHERE " + c.where)
		if held == 0 {
			t.Fatalf("%s: nothing is there to be forgotten", what)
		}
		r, err := archive.Forget(t.Context(), b, c.means, &archive.ForgetOptions{DryRun: true})
		if err != nil || r.Records != int64(held) {
			t.Errorf("%s: %+v, %v; DuckDB has %d", what, r, err, held)
		}
		if _, err = archive.Forget(t.Context(), stopAfter(b, 2), c.means, nil); !errors.Is(err, errStopped) || count("dead WHERE "+c.where) != held {
			t.Errorf("%s: stopped before it removed a file: %v", what, err)
		}
		until("forgetting "+what, c.where, func(b archive.Bucket) error {
			_, err := archive.Forget(t.Context(), b, c.means, nil)
			return err
		})
		all := len(read(t, b))
		if n := count("dead WHERE " + c.where); n != 0 || count("dead") != all || count("lives") != all {
			t.Errorf("%s: DuckDB finds %d that were forgotten; %d rows of %d", what, n, count("dead"), all)
		}
	}
	for _, key := range []string{dead(1, 0).Key, dead(2, 0).Key, "key-000448"} {
		if found, err := archive.NewReader(b).Find(t.Context(), key, archive.Span{}); err != nil || len(found) > 0 {
			t.Errorf("%q: %d lives are found, %v", key, len(found), err)
		}
	}
}
