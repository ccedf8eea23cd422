package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/slidingttl/slidingttl/archive"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
)

// A harvest that is stopped goes on from its place, and leaves none of the dead out. The next
// one begins where it ended.
func TestHarvestStopped(t *testing.T) {
	const records = 300
	file, buried := filepath.Join(t.TempDir(), "app.db"), t.TempDir()
	db := must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)))(t)
	defer func() { _ = db.Close() }()
	d := must(sql.New[any](db, sql.SQLite, "sessions", nil))(t)
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := driver.Floor(time.Now())
	life := driver.Life{CreatedAt: now.Add(-48 * time.Hour), ExpiresAt: now.Add(-24 * time.Hour)}
	const insert = "INSERT INTO sessions (id, value, created_at, expires_at) VALUES (?, '{}', ?, ?)"
	for i := range records {
		execute(t, db, insert, fmt.Sprintf("key-%03d", i), life.CreatedAt, life.ExpiresAt)
		execute(t, db, insert, fmt.Sprintf("alive-%03d", i), life.CreatedAt, now.Add(time.Hour))
	}
	args := []string{"harvest", "sqlite:" + file + "?table=sessions", buried, "--source", "sessions", "--policy", thirty, "--apply"}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var o, e bytes.Buffer
	midway := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), " records") { // those of the segments whose records are all alive
			cancel()
		}
		return e.Write(p)
	})
	code := run(ctx, append(args, "--rate", "100"), streams{in: strings.NewReader(""), out: &o, err: midway, typed: true, asks: true})
	if code != exitStopped {
		t.Fatalf("exit code %d\n%s%s", code, &o, &e)
	}
	out, _ := command(t, 0, args...)
	contains(t, out, "600 records looked at", "in 2 runs", "harvested: dead of idleness 300")
	out, _ = command(t, 0, args...) // an hour later
	contains(t, out, "harvested: dead of idleness 0", "left to an earlier harvest 300", "to which an earlier harvest came")
	life.CreatedAt, life.ExpiresAt = life.CreatedAt+1, driver.Floor(time.Now()).Add(-5*time.Minute)
	execute(t, db, insert, "late", life.CreatedAt, life.ExpiresAt)
	out, _ = command(t, 0, append(args, "--grace", "3m")...)
	contains(t, out, "harvested: dead of idleness 1", "left to an earlier harvest 300")
	command(t, 0, "archive", "compact", buried)
	out, _ = command(t, 0, "archive", "stats", buried)
	contains(t, out, "301 rows")

	out, _ = command(t, 0, "harvest", args[1], buried, "--source", "sessions", "--policy", thirty, "--since", time.Now().Add(-time.Hour).Format(time.RFC3339))
	contains(t, out, "dry run", "dead of idleness 0", "left to an earlier harvest 300")
}

// A harvest takes columns from fields of values, by which the command forgets.
func TestHarvestColumns(t *testing.T) {
	uri, buried := sessions(t, 40), t.TempDir()
	args := []string{"harvest", uri, buried, "--source", "sessions", "--policy", thirty, "--apply", "--column", "number=n", "--column", "owner=user.id"}
	command(t, 0, args...)
	out, _ := command(t, 0, "archive", "forget", buried, "--where", "number=7")
	contains(t, out, "1 records in 1 files would be forgotten")
	_, errs := command(t, exitUsage, append(args, "--column", "number")...)
	contains(t, errs, "must have the form name=field")
	view, _ := command(t, 0, "archive", "files", buried, "--sql", "duckdb")
	contains(t, view, "read_parquet([ '"+buried+"/day=", "QUALIFY")
	_, errs = command(t, exitUsage, "archive", "files", buried, "--sql", "hive")
	contains(t, errs, "must be duckdb, clickhouse or athena")
}

// Under a timer dying --since tells no key twice, and says which store its file is of.
func TestDyingTold(t *testing.T) {
	db, uri := sessionsIn(t, 12)
	execute(t, db, "UPDATE sessions SET created_at = 1700000000000, expires_at = (unixepoch() + 600 + 60 * CAST(substr(id, 6) AS INTEGER)) * 1000")
	file := filepath.Join(t.TempDir(), "told")
	all := map[string]bool{}
	for _, within := range []string{"12m30s", "12m31s", "1h", "2h"} {
		out, _ := command(t, 0, "dying", uri, "--within", within, "--since", file, "--limit", "8")
		for line := range strings.Lines(out) {
			if all[line] {
				t.Errorf("twice: %s", line)
			}
			all[line] = true
		}
	}
	if len(all) != 12 {
		t.Errorf("%d are told; want 12", len(all))
	}
	_, other := sessionsIn(t, 1)
	_, errs := command(t, exitUsage, "dying", other, "--since", file)
	contains(t, errs, "is of the store")
	// More than --limit at one instant are told together or, by the first run too, not at all.
	execute(t, db, "UPDATE sessions SET expires_at = (unixepoch() + 600) * 1000")
	out, errs := command(t, exitUsage, "dying", uri, "--since", filepath.Join(t.TempDir(), "new"), "--limit", "8")
	contains(t, errs, "--limit is 8: must be more")
	if out != "" {
		t.Errorf("it told\n%s", out)
	}
}

// What a store or an archive holds sends no control codes to the terminal, and JSON keeps its meaning.
func TestControlCodes(t *testing.T) {
	db, uri := sessionsIn(t, 1)
	const odd = "\x1b]0;owned\x07\x1b[2J\r\u009b31m\u202e\x7f"
	execute(t, db, "UPDATE sessions SET value = ?, created_at = ?", odd, "soon"+odd)
	path := t.TempDir()
	w := must(archive.NewWriter(must(archive.OpenDirectory(path))(t), nil))(t)
	r := archive.Record{Key: "key", Generation: odd, ExpiredAt: driver.Floor(time.Now().Add(-time.Hour)), Format: "json", Value: must(json.Marshal(odd))(t)}
	if err := w.Write(t.Context(), "links", []archive.Record{r}); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"inspect", uri, "user:000", "--policy", thirty, "--value"},
		{"inspect", uri, "user:000", "--policy", thirty, "--value", "--json"},
		{"list", uri, "--policy", thirty, "--keys"},
		{"archive", "find", path, "key"},
		{"archive", "find", path, "key", "--json"},
		{"archive", "list", path},
	} {
		var o, e bytes.Buffer
		run(t.Context(), args, streams{in: strings.NewReader(""), out: &o, err: &e})
		for _, r := range o.String() + e.String() {
			if r != '\n' && r != '\t' && !unicode.IsGraphic(r) {
				t.Errorf("%q prints %q", args, o.String())
				break
			}
		}
		if slices.Contains(args, "--json") && args[0] == "inspect" {
			var i inspection
			if err := json.Unmarshal(o.Bytes(), &i); err != nil || i.Value != odd {
				t.Errorf("%v: %q", err, i.Value)
			}
		}
	}
}

// writerFunc is a writer that is a function.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
