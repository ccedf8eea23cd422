package main

import (
	"bytes"
	"context"
	stdsql "database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/drivers/sql"
	"github.com/slidingttl/slidingttl/drivers/sql/sqltest"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// database is the name of a new file of SQLite, in memory where that can be: SQLite waits for the
// disk at every write.
func database(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "slidingttl-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "app.db")
}

// sessionsIn makes the table "sessions" in a new file of SQLite, with so many records.
func sessionsIn(t *testing.T, records int) (db *stdsql.DB, uri string) {
	t.Helper()
	file := database(t)
	db = must(stdsql.Open("sqlite", sqltest.SQLiteDSN(file)))(t)
	t.Cleanup(func() { _ = db.Close() })
	d := must(sql.New[any](db, sql.SQLite, "sessions", nil))(t)
	if err := d.EnsureTable(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range records {
		execute(t, db, "INSERT INTO sessions (id, value) VALUES (?, '{}')", fmt.Sprintf("user:%03d", i))
	}
	return db, "sqlite:" + file + "?table=sessions"
}

func execute(t *testing.T, db *stdsql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

// Records that cannot be written do not keep the rest from being adopted: they are counted
// by reason, and their keys are in a file of their own.
func TestFailedRecordsAreNamed(t *testing.T) {
	db, uri := sessionsIn(t, 300)
	long := strings.Repeat("k", 300)
	execute(t, db, "INSERT INTO sessions (id, value) VALUES (?, '{}'), (?, '{}')", long, "frozen\nrow")
	execute(t, db, `CREATE TRIGGER frozen BEFORE UPDATE ON sessions WHEN old.id LIKE 'frozen%' BEGIN SELECT RAISE(ABORT, 'this row is frozen'); END`)
	named := filepath.Join(t.TempDir(), "errors")
	place := filepath.Join(t.TempDir(), "place.json")

	out, errs := command(t, exitPartly, "adopt", uri, "--policy", thirty)
	contains(t, out, "a dry run", "would be adopted 301", "1 failed, and were left as they are, because", "1 key must be at most 255 bytes")
	contains(t, errs, "--errors FILE")
	adopt := []string{"adopt", uri, "--policy", thirty, "--apply", "--writes", "0", "--errors", named, "--checkpoint", place}
	out, errs = command(t, exitPartly, adopt...)
	contains(t, out, "adopted 300", "2 failed", "1 key must be at most 255 bytes")
	contains(t, errs, named)
	if strings.Contains(out+errs, "frozen\n") || strings.Contains(out+errs, "kkkkk") {
		t.Errorf("a key is in what is printed:\n%s%s", out, errs)
	}
	content := string(must(os.ReadFile(named))(t))
	if info := must(os.Stat(named))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("%s may be read by others: %v", named, info.Mode())
	}
	if lines := strings.Count(content, "\n"); lines != 2 || !strings.Contains(content, `"frozen\nrow"`+"\t") || !strings.Contains(content, `"`+long+`"`+"\tkey is 300 bytes") {
		t.Errorf("%s has %d lines:\n%s", named, lines, content)
	}
	out, _ = command(t, exitPartly, "adopt", uri, "--policy", thirty, "--apply", "--writes", "0")
	contains(t, out, "had created_at 300", "2 failed")
	out, _ = command(t, exitPartly, "adopt", uri, "--policy", thirty, "--only", named)
	contains(t, out, "2 records looked at", "a dry run", "would be adopted 1", "1 key must be at most 255 bytes")
	execute(t, db, "DROP TRIGGER frozen")
	out, _ = command(t, exitPartly, "adopt", uri, "--policy", thirty, "--only", named, "--apply", "--errors", named)
	contains(t, out, "2 records looked at", "adopted 1", "1 key must be at most 255 bytes")
	if lines := strings.Count(string(must(os.ReadFile(named))(t)), "\n"); lines != 3 {
		t.Errorf("%s has %d lines; want one more", named, lines)
	}
	_, errs = command(t, exitUsage, "adopt", uri, "--policy", thirty, "--only", os.DevNull)
	contains(t, errs, "names no key")
}

// A checkpoint is of one store: over another nothing would be done, and be called done.
func TestCheckpointOfAnotherStore(t *testing.T) {
	_, one := sessionsIn(t, 30)
	_, other := sessionsIn(t, 30)
	place := filepath.Join(t.TempDir(), "place.json")
	command(t, 0, "adopt", one, "--policy", thirty, "--apply", "--checkpoint", place)
	_, errs := command(t, exitUsage, "adopt", other, "--policy", thirty, "--apply", "--checkpoint", place, "--resume")
	contains(t, errs, strings.TrimSuffix(strings.TrimPrefix(one, "sqlite:"), "?table=sessions"), strings.TrimSuffix(strings.TrimPrefix(other, "sqlite:"), "?table=sessions"), "--same-store")
	_, errs = command(t, exitUsage, "adopt", one, "--policy", thirty, "--apply", "--from-expiry", "30d", "--checkpoint", place, "--resume")
	contains(t, errs, "expiry less 720h")
	layout := filepath.Join(t.TempDir(), "layout.json")
	if err := os.WriteFile(layout, []byte(`{"key": "id"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errs = command(t, exitUsage, "adopt", one, "--policy", thirty, "--layout", layout, "--apply", "--checkpoint", place, "--resume")
	contains(t, errs, "layout ")
	out, _ := command(t, 0, "audit", other, "--policy", thirty)
	contains(t, out, "no created at 30")
}

// A key by another name than the table's is no empty table.
func TestWrongKeyName(t *testing.T) {
	client, table, uri := dynamodbTable(t)
	for i := range 20 {
		item := map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: fmt.Sprint("user:", i)}}
		must(client.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: item}))(t)
	}
	layout := filepath.Join(t.TempDir(), "layout.json")
	if err := os.WriteFile(layout, []byte(`{"partition_key": {"name": "id"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs := command(t, exitUsage, "audit", uri, "--layout", layout, "--policy", thirty)
	contains(t, errs, `key is "pk" S`, "no record was found")
	if out != "" {
		t.Errorf("it prints\n%s", out)
	}
	_, errs = command(t, exitUsage, "adopt", uri, "--layout", layout, "--policy", thirty, "--apply")
	contains(t, errs, "nothing was written", "--unchecked")
	if err := os.WriteFile(layout, []byte(`{"partition_key": {"prefix": "user:1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _ = command(t, 0, "audit", uri, "--layout", layout, "--policy", thirty)
	contains(t, out, "10 records looked at", "10 passed over")
}

// Keys of other types are told of, and stay as they are.
func TestOtherTypes(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for i := range 9 {
		if err := client.Do(t.Context(), client.B().Lpush().Key(fmt.Sprint("list:", i)).Element("x").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.Do(t.Context(), client.B().Set().Key("a").Value("{}").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	uri := "redis://" + server.Option().InitAddress[0] + "?prefix=*"
	out, _ := command(t, 0, "adopt", uri, "--policy", thirty)
	contains(t, out, "1 records looked at", "9 passed over", "breaks", "docs/adopting.md")
	out, _ = command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--no-undo", "--json")
	var r upkeep.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Counts["adopted"] != 1 || r.Passed != 9 {
		t.Errorf("%v: %s", err, out)
	}
}

// Where a Redis evicts by use, which a look at its keys counts as, that is said before.
func TestEvictionNotice(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	uri := "redis://" + server.Option().InitAddress[0]
	_, errs := command(t, 0, "audit", uri, "--policy", thirty)
	if strings.Contains(errs, "eviction") {
		t.Errorf("of a Redis that evicts nothing it says\n%s", errs)
	}
	if err := client.Do(t.Context(), client.B().Arbitrary("CONFIG", "SET", "maxmemory-policy", "allkeys-lru").Build()).Error(); err != nil {
		t.Fatal(err)
	}
	_, errs = command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, errs, "allkeys-lru", "flattens the order of eviction")
}

// Before a Redis is adopted it is known whether it has the memory for it.
func TestMemoryAhead(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for i := range 5000 {
		if err := client.Do(t.Context(), client.B().Set().Key(fmt.Sprint("app:", i)).Value("{}").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	adopt := []string{"adopt", "redis://" + server.Addr + "?prefix=app:", "--policy", thirty, "--rate", "0"}
	for most, want := range map[string]string{"0": "maxmemory sets no bound", "1mb": "MB: TOO LITTLE: with maxmemory-policy noeviction", "1gb": "of 1073.7 MB"} {
		if err := client.Do(t.Context(), client.B().Arbitrary("CONFIG", "SET", "maxmemory", most).Build()).Error(); err != nil {
			t.Fatal(err)
		}
		out, _ := command(t, 0, adopt...)
		contains(t, out, "would be adopted 5,000", "memory: adoption needs about 0.5 MB more", want)
	}
}

// created_at in seconds is no age: nothing is reaped by it, and mend writes what was meant.
func TestImplausible(t *testing.T) {
	db, uri := sessionsIn(t, 10)
	execute(t, db, "UPDATE sessions SET created_at = strftime('%s', 'now') - 1000, expires_at = (strftime('%s', 'now') + 86400) * 1000")
	out, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "implausible 10", "10 created_at looks like a number of seconds", "past cap 0")
	out, _ = command(t, exitDead, "inspect", uri, "user:007", "--policy", thirty)
	contains(t, out, "past its cap", "created_at looks like a number of seconds: slidingttl mend --created-at seconds corrects it")
	execute(t, db, "INSERT INTO sessions (id, value, expires_at) VALUES ('dies', '{}', strftime('%s', 'now') + 1000)")
	out, _ = command(t, exitDead, "inspect", uri, "dies", "--policy", thirty)
	if contains(t, out, "expires_at looks like a number of seconds"); strings.Contains(out, "mend") {
		t.Errorf("mend does not correct an expiry:\n%s", out)
	}
	execute(t, db, "DELETE FROM sessions WHERE id = 'dies'")
	out, _ = command(t, 0, "reap", uri, "--policy", thirty, "--what", "past-cap,expired,retained", "--apply")
	contains(t, out, "past their cap 0", "left: implausible, see audit 10")
	out, _ = command(t, 0, "mend", uri, "--created-at", "seconds", "--apply")
	contains(t, out, "mended 10", "10 created_at looks like a number of seconds")
	out, _ = command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "implausible 0", "slides 10")
	_, errs := command(t, exitUsage, "mend", uri, "--created-at", "weeks")
	contains(t, errs, "seconds, micros or nanos")
	_, errs = command(t, exitUsage, "reap", uri, "--policy", thirty, "--what", "all")
	contains(t, errs, "past-cap, expired or retained")
}

// A run that fails says how to go on, and prints no table of zeros.
func TestFailedRun(t *testing.T) {
	db, uri := sessionsIn(t, 300)
	execute(t, db, "ALTER TABLE sessions RENAME TO elsewhere")
	out, errs := command(t, exitFailed, "audit", uri, "--policy", thirty)
	if out != "" {
		t.Errorf("it prints\n%s", out)
	}
	contains(t, errs, "no such table", "starts again", "--checkpoint FILE")
	execute(t, db, "ALTER TABLE elsewhere RENAME TO sessions")
	execute(t, db, `CREATE TRIGGER frozen BEFORE UPDATE ON sessions BEGIN SELECT RAISE(ABORT, 'frozen'); END`)
	place := filepath.Join(t.TempDir(), "place.json")
	adopt := []string{"adopt", uri, "--policy", thirty, "--apply", "--writes", "0", "--rate", "1000", "--checkpoint", place}
	out, errs = command(t, exitFailed, adopt...)
	contains(t, out, " failed, and were left as they are", " not tried to the end", "not all were")
	contains(t, errs, "too many records failed", "go on by the same command with --checkpoint "+place+" --resume")
	_, errs = command(t, exitPartly, append(adopt, "--resume", "--max-errors", "1")...)
	contains(t, errs, "left as they are: 300")
	execute(t, db, "DROP TRIGGER frozen")
	out, _ = command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--writes", "0")
	contains(t, out, "adopted 300")
	out, _ = command(t, 0, "--version")
	contains(t, out, "slidingttl version")
	out, _ = command(t, 0, "--help")
	contains(t, out, "0 done", "1 the store", "2 the command line", "3 stopped", "4 inspect", "5 done, but for records")
}

// The prompt comes when the command line is known to be right, and says what is removed.
func TestPrompts(t *testing.T) {
	_, uri := sessionsIn(t, 1)
	ask := func(args ...string) string {
		var o, e bytes.Buffer
		code := run(context.Background(), args, streams{in: strings.NewReader("n\n"), out: &o, err: &e, typed: true, asks: true})
		if code != exitUsage {
			t.Errorf("%q exits with %d", args, code)
		}
		return o.String() + e.String()
	}
	secret := ask("reap", "postgres://ann:hunter2@h/d?table=t", "--policy", thirty, "--apply")
	if strings.Contains(secret, "hunter2") || strings.Contains(secret, "Go ahead") {
		t.Errorf("the prompt is\n%s", secret)
	}
	contains(t, ask("reap", uri, "--policy", thirty, "--what", "expired,retained", "--apply"), "DELETE", "is expired or retained under", "Go ahead?")
	contains(t, ask("reap", uri, "--policy", thirty, "--apply"), "is past-cap under")
}

// A user without the right to write is told so in a sentence.
func TestReadOnlyUser(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	for _, words := range [][]string{{"ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@read", "+@connection", "+info", "+time"}, {"SET", "user:1", "{}"}} {
		if err := client.Do(t.Context(), client.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 50 {
		if err := client.Do(t.Context(), client.B().Set().Key(fmt.Sprint("user:", i)).Value("{}").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("REDISCLI_AUTH", "secret")
	uri := "redis://ann@" + server.Option().InitAddress[0] + "?prefix=user:"
	out, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "50 records looked at")
	_, errs := command(t, exitFailed, "adopt", uri, "--policy", thirty, "--apply", "--no-undo")
	contains(t, errs, "NOPERM", "nothing was written")
	_, errs = command(t, exitFailed, "adopt", uri, "--policy", thirty, "--apply", "--no-undo", "--unchecked")
	contains(t, errs, "NOPERM", "this user has no right to do that", "starts again")
}

// Ctrl-C answers the prompt, and where the question would not be seen nothing is written.
func TestPromptEnds(t *testing.T) {
	_, uri := sessionsIn(t, 1)
	in, typing := io.Pipe()
	t.Cleanup(func() { _ = typing.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	asked := &onWrite{func(text string) {
		if strings.Contains(text, "Go ahead?") {
			cancel()
		}
	}}
	args := []string{"reap", uri, "--policy", thirty, "--apply"}
	if code := run(ctx, args, streams{in: in, out: io.Discard, err: asked, typed: true, asks: true}); code != exitStopped {
		t.Errorf("after Ctrl-C it exits with %d", code)
	}
	var errs bytes.Buffer
	if code := run(t.Context(), args, streams{in: in, out: io.Discard, err: &errs, typed: true}); code != exitUsage {
		t.Errorf("with its question in a file it exits with %d", code)
	}
	contains(t, errs.String(), "nothing was written", "--yes")
}

// onWrite is a writer that calls a function.
type onWrite struct{ call func(string) }

func (w *onWrite) Write(b []byte) (int, error) {
	w.call(string(b))
	return len(b), nil
}
