package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
)

// A name or a flag that would reach more than it says, or something else, is refused, and nothing is written.
func TestGiven(t *testing.T) {
	db, uri := sessionsIn(t, 3)
	dir := t.TempDir()
	t.Chdir(dir)
	file := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	policies := file("policies.json", `{"web": {"idle_grace": "30m", "max_lifetime": "12h"}}`)
	changes := filepath.Join(dir, "changes")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink("place", dangling); err != nil {
		t.Fatal(err)
	}
	adopt := []string{"adopt", uri, "--apply", "--policy-file", policies, "--policy-name", "web"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--only", ""}, "--only is empty"},
		{[]string{"--prefix", ""}, "--prefix is empty"},
		{[]string{"--undo="}, "--undo is empty"},
		{[]string{"--kinds", ""}, "--kinds is empty"},
		{[]string{"--undo", changes, "--checkpoint", changes}, "is the file of --checkpoint, too"},
		{[]string{"--undo", changes, "--errors", filepath.Join(link, "changes")}, "is the file of --undo, too"},
		{[]string{"--undo", dangling, "--checkpoint", filepath.Join(dir, "place")}, "is the file of --checkpoint, too"},
		{[]string{"--errors", policies}, "is the file of --policy-file, too"},
		{[]string{"--price", "-1"}, "--price is -1"},
		{[]string{"--layout", file("two.json", `{"created_at": "born", "created_at": "created_at"} x`)}, "--layout: invalid character"},
		{[]string{"--policy-for", file("bytes.json", "{\"acme\xff*\": \"web\"}")}, "must be UTF-8"},
		{[]string{"--policy-for", file("half.json", `{"acme\ud800*": "web"}`)}, "has half a surrogate"},
	} {
		_, errs := command(t, exitUsage, append(adopt, c.args...)...)
		contains(t, errs, c.want)
	}
	for _, args := range [][]string{
		{"reap", "redis://127.0.0.1:1?prefix=acme#1:", "--policy", thirty, "--apply"},
		{"adopt", uri + "#", "--policy", thirty, "--apply"},
		{"undo", uri, changes, "--errors", changes},
		{"erase", "k", "--config", policies, "--archive", "", "--report", changes, "--apply"},
		{"erase", "--config", policies, "--keys", file("of.keys", "k"), "--report", filepath.Join(dir, "of"), "--apply"},
		{"archive", "forget", "", "k", "--apply"},
		{"audit", "redis://127.0.0.1:1/1?db=0&prefix=a", "--policy", thirty},
		{"plan", "--policy", thirty, "--keys", "1e16", "--reads", "1"},
		{"plan", "--policy", thirty, "--keys", "10", "--reads", "1", "--price", "Inf"},
		{"plan", "--policy", thirty, "--keys", "10", "--reads", "1", "--processes", "0"},
	} {
		command(t, exitUsage, args...)
	}
	for _, uri := range []string{"s3://bucket/dead#topsecret", "s3://AKIA:topsecret@bucket/dead", "s3://bucket/dead?endpoint=http://u:topsecret@host"} {
		_, errs := command(t, exitUsage, "archive", "verify", uri)
		if strings.Contains(errs, "topsecret") {
			t.Errorf("%q is said", errs)
		}
	}
	command(t, 0, "retire", uri, "user:000", "--errors", "user:000") // a key is no file
	n := 0
	if err := db.QueryRow("SELECT count(*) FROM sessions WHERE created_at IS NOT NULL").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d records were written, %v", n, err)
	}
	file("absolute.json", fmt.Sprintf(`{"stores": {"s": {"uri": %q, "layout": %q, "policy": "web"}}, "web": {"idle_grace": "30m", "max_lifetime": "12h"}}`,
		uri, file("layout.json", `{"key": "id"}`)))
	out, _ := command(t, 0, "audit", "s", "--config", filepath.Join(dir, "absolute.json"))
	contains(t, out, "3 records looked at")
}

// A second erasure by a report under way is refused, and a value that is no text is printed whole.
func TestReportAndValue(t *testing.T) {
	db, uri := sessionsIn(t, 1)
	report := filepath.Join(t.TempDir(), "report")
	config := filepath.Join(filepath.Dir(report), "stores.json")
	if err := os.WriteFile(config, fmt.Appendf(nil, `{"stores": {"s": {"uri": %q}}}`, uri), 0o600); err != nil {
		t.Fatal(err)
	}
	unlock, err := lock("--report", report)
	if err != nil {
		t.Fatal(err)
	}
	_, errs := command(t, exitUsage, "erase", "user:000", "--config", config, "--report", report, "--apply")
	contains(t, errs, "another run has --report")
	unlock()
	execute(t, db, "UPDATE sessions SET value = CAST(x'22ff22' AS TEXT)")
	for _, form := range []string{"--json=false", "--json"} {
		out, _ := command(t, 0, "inspect", uri, "user:000", "--policy", thirty, "--value", form)
		contains(t, out, "Iv8i")
	}
	command(t, 0, "erase", "user:000", "--config", config, "--report", report, "--apply")
}

// A path of SQLite is the URI's, decoded, whatever SQLite's own URIs make of its characters.
func TestSQLitePath(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, path := range map[string]string{"x#1.db": "x%231.db", "p?q.db": "p%3Fq.db", "e%41.db": "e%2541.db", "s p.db": "s%20p.db"} {
		db, uri := sessionsIn(t, 2)
		from, _, _ := strings.Cut(strings.TrimPrefix(uri, "sqlite:"), "?")
		execute(t, db, "PRAGMA wal_checkpoint(TRUNCATE)")
		if err := os.WriteFile(name, must(os.ReadFile(from))(t), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _ := command(t, 0, "adopt", "sqlite:"+path+"?table=sessions", "--policy", thirty, "--apply", "--undo", "changes-"+path)
		contains(t, out, "adopted 2")
		_, errs := command(t, exitUsage, "audit", "sqlite:"+path+"x?table=sessions", "--policy", thirty)
		contains(t, errs, "there is no file "+name+"x")
	}
	left, err := filepath.Glob("*")
	if err != nil || len(left) > 8+8 { // with the files beside them
		t.Errorf("there are %q, %v", left, err)
	}
}

// A key that another program has given an earlier expiry is seen with it, and undo and mend leave it that.
func TestEarlierExpiryOnRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	do := func(words ...string) int64 {
		t.Helper()
		v, _ := must(client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToAny())(t).(int64)
		return v
	}
	do("SET", "s:1", "v")
	uri, changes := "redis://"+server.Option().InitAddress[0]+"?prefix=s:", filepath.Join(t.TempDir(), "changes")
	command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--undo", changes)
	do("EXPIRE", "s:1", "60")
	out, _ := command(t, 0, "audit", uri, "--policy", thirty)
	contains(t, out, "they die within 1m 1 100.00 %")
	for _, apply := range []string{"--apply=false", "--apply"} {
		out, _ = command(t, 0, "undo", uri, changes, apply)
		contains(t, out, "as before 0", "left: touched or written since 1")
	}
	now := time.Now()
	do("SET", "s:2", fmt.Sprintf("\x00sl1 %015d %015d %016x ", now.Add(-time.Hour).Unix(), now.Add(30*24*time.Hour).UnixMilli(), 7)+`{"a":1}`)
	do("EXPIRE", "s:2", "60")
	out, _ = command(t, 0, "mend", uri, "--created-at", "seconds", "--apply")
	contains(t, out, "mended 1")
	for _, key := range []string{"s:1", "s:2"} {
		if left := do("TTL", key); left < 1 || left > 60 {
			t.Errorf("%s lives for another %d s", key, left)
		}
	}
}
