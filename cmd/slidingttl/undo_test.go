package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/slidingttl/slidingttl/drivers/redis/redistest"
	"github.com/slidingttl/slidingttl/slidingttl/driver"
	"github.com/slidingttl/slidingttl/slidingttl/upkeep"
)

// An adoption on Redis writes down how it is taken back, and is: values and expiries are what they
// were, but of the key that was written since, under another prefix, or on another store.
func TestUndoOnRedis(t *testing.T) {
	server := redistest.Start(t)
	client := server.Client(t)
	do := func(words ...string) string {
		t.Helper()
		return must(client.Do(t.Context(), client.B().Arbitrary(words...).Build()).ToAny())(t).(string)
	}
	life := func(key string) string {
		return fmt.Sprint(must(client.Do(t.Context(), client.B().Pexpiretime().Key(key).Build()).AsInt64())(t))
	}
	for i := range 20 {
		do("SET", fmt.Sprint("s:", i), fmt.Sprint(i))
	}
	do("SET", "s:expiring", "0", "PX", "3600000")
	expires := life("s:expiring")
	uri := "redis://" + server.Option().InitAddress[0] + "?prefix=s:"
	changes := filepath.Join(t.TempDir(), "changes")
	adopt := []string{"adopt", uri + "&retain=30d", "--policy", thirty, "--apply"}

	_, errs := command(t, exitUsage, adopt...)
	contains(t, errs, "--undo FILE", "--no-undo")
	out, _ := command(t, 0, append(adopt, "--undo", changes)...)
	contains(t, out, "adopted 21", "write units, by the sizes known 21")
	if v := do("GET", "s:7"); !strings.HasSuffix(v, " 7") || len(v) != 55 {
		t.Fatalf("after the adoption s:7 is %q", v)
	}
	do("SET", "s:8", "written since")
	if info := must(os.Stat(changes))(t); info.Mode().Perm() != 0o600 {
		t.Errorf("others may read %v", info.Mode())
	}

	_, errs = command(t, exitUsage, "undo", uri, changes, "--apply")
	contains(t, errs, "the file for undo", "is of the store", "must be of")
	out, _ = command(t, 0, "undo", adopt[1], changes)
	contains(t, out, "a dry run", "would be as before 20", "had no created_at 1")
	out, _ = command(t, 0, "undo", adopt[1], changes, "--apply", "--checkpoint", changes+".place")
	contains(t, out, "as before 20", "had no created_at 1")
	for i := range 20 {
		key, want := fmt.Sprint("s:", i), fmt.Sprint(i)
		if i == 8 {
			want = "written since"
		}
		if v := do("GET", key); v != want || life(key) != "-1" {
			t.Errorf("%s is %q until %s", key, v, life(key))
		}
	}
	if v := do("GET", "s:expiring"); v != "0" || life("s:expiring") != expires {
		t.Errorf("s:expiring is %q until %s; want it until %s", v, life("s:expiring"), expires)
	}
	_, errs = command(t, exitUsage, append(adopt[:1:1], uri, "--policy", thirty, "--apply", "--undo", changes)...)
	contains(t, errs, "the file for undo", "is of the store")
}

// A dry run knows as well as the writes do which records are dead.
func TestUndoOfTheDead(t *testing.T) {
	db, uri := sessionsIn(t, 1)
	file := filepath.Join(t.TempDir(), "changes")
	command(t, 0, "adopt", uri, "--policy", thirty, "--apply", "--undo", file)
	first, line, _ := strings.Cut(string(must(os.ReadFile(file))(t)), "\n")
	var change upkeep.Change
	if err := json.Unmarshal([]byte(line), &change); err != nil {
		t.Fatal(err)
	}
	change.Life = driver.Life{CreatedAt: 1_000_000_000_000, ExpiresAt: 1_000_000_000_001}
	if err := os.WriteFile(file, fmt.Appendf(nil, "%s\n%s\n", first, must(json.Marshal(change))(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	execute(t, db, "UPDATE sessions SET created_at = ?, expires_at = ?", change.Life.CreatedAt, change.Life.ExpiresAt)
	for _, apply := range []string{"--apply=false", "--apply"} {
		out, _ := command(t, 0, "undo", uri, file, apply)
		contains(t, out, "as before 0", "dead or gone before they were written 1")
	}
}
